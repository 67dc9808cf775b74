"""Random draws with Zipf weights: entities, adjectives, places, times and meaningful clauses.

`Draw` wraps one random generator. All random choices of stories and tasks use it, so a seed
determines everything. Only `random()` is used, because Python guarantees its sequence.
"""

from bisect import bisect
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate
from random import Random
from typing import TypeVar

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.english import Word
from workbench.corpora.primer.lexicon import Frame, Noun
from workbench.corpora.primer.structures import NP, Clause, Entity, Number, Tense, Time

T = TypeVar("T")
MASS = frozenset(("drink",))  # classes of mass nouns
PERSON = frozenset(("person",))
THEMED = 0.7  # fraction of draws from the noun classes of the scene


@cache
def _weights(n: int) -> list[float]:
    """Cumulative weights 1/(rank + 1.5) of n ranks."""
    return list(accumulate(1 / (rank + 1.5) for rank in range(n)))


@cache
def _ordered(classes: frozenset[str]) -> tuple[str, ...]:
    """Classes in the lexicon's order, which is the same in every process."""
    return tuple(cls for cls in lex.NOUNS if cls in classes)


def _select(frames: Iterable[Frame], **conditions: bool) -> tuple[Frame, ...]:
    return tuple(
        f
        for f in frames
        if all(bool(getattr(f, key)) == value for key, value in conditions.items())
    )


TRANSITIVE = _select(lex.FRAMES, object=True, goal=False)
INTRANSITIVE = _select(lex.FRAMES, object=False, goal=False)
MOTION = tuple(f for f in lex.FRAMES if f.kind == "motion")
GIVING = tuple(f for f in lex.FRAMES if f.kind in ("transfer", "show", "tell"))
PLACING = tuple(f for f in lex.FRAMES if f.kind == "place")
REFLEXIVE = _select(lex.FRAMES, reflexive=True)


@cache
def frames_for(frames: tuple[Frame, ...], subject: str) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if subject in frame.subject)


@cache
def adjectives_for(cls: str) -> tuple[Word, ...]:
    return tuple(lex.ADJECTIVE_WORDS[a] for a, fits in lex.ADJECTIVES.items() if cls in fits)


@cache
def first_adjectives_for(cls: str) -> tuple[Word, ...]:
    return tuple(word for word in adjectives_for(cls) if word.lemma in lex.FIRST_OF_TWO)


_PLACES = lex.classes("place")
_EVENT_PLACES = tuple((p, lex.classes(c)) for p, c in lex.EVENT_PLACES.items())


@cache
def positions_for(cls: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The positions of a noun class: on a table if small, with a hat if a person."""
    barred = {"on"} if cls not in lex.SMALL else set()
    barred |= {"with"} if cls != "person" else set()
    return tuple((p, lex.classes(c)) for p, c in lex.POSITIONS.items() if p not in barred)


class Draw:
    """A random generator with the draws that the grammar needs."""

    def __init__(self, rng: Random) -> None:
        self.random = rng.random
        self.theme: tuple[str, ...] = ()
        self.reset()

    def reset(self) -> None:
        """Forget all entities before a new story."""
        self.n_entities = 0
        self.used_names: set[str] = set()  # first names

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def zipf(self, items: Sequence[T]) -> T:
        """One of the items with Zipf weights; the first is the most probable."""
        weights = _weights(len(items))
        return items[bisect(weights, self.random() * weights[-1])]

    def weighted(self, items: Sequence[tuple[float, T]]) -> T:
        """One of the items by its weight; the weights sum to one."""
        left = self.random()
        for weight, item in items:
            left -= weight
            if left < 0:
                return item
        return items[-1][1]

    def uniform(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    # --- entities ---------------------------------------------------------------------------------

    def _id(self) -> str:
        self.n_entities += 1
        return f"e{self.n_entities}"

    def class_of(self, classes: frozenset[str]) -> str:
        """One of the allowed noun classes, preferably one of the scene."""
        allowed = _ordered(classes)
        themed = [cls for cls in self.theme if cls in classes]
        if themed and self.chance(THEMED):
            return self.uniform(themed)
        return self.uniform(allowed)

    def thing(self, classes: frozenset[str], plural: float = 0.3) -> Entity:
        """A new entity with a common noun."""
        cls = self.class_of(classes)
        noun: Noun = self.zipf(lex.NOUNS[cls])
        number: Number = "Plur" if cls not in MASS and self.chance(plural) else "Sing"
        gender = "Neut"
        if cls == "person":
            gender = noun.gender or ("Fem" if self.chance(0.5) else "Masc")
        trait = (
            self.zipf(adjectives_for(cls)) if self.chance(0.35) and adjectives_for(cls) else None
        )
        return Entity(self._id(), cls, number, gender, noun, trait=trait)

    def person(self) -> Entity:
        """A new person with a name."""
        gender = "Fem" if self.chance(0.5) else "Masc"
        first = self.zipf(lex.FIRST_NAMES[gender])
        while first in self.used_names and len(self.used_names) < len(lex.FIRST_NAMES[gender]):
            first = self.zipf(lex.FIRST_NAMES[gender])
        self.used_names.add(first)
        name = [en.name(first)]
        if self.chance(0.25):
            name.append(en.name(self.zipf(lex.SURNAMES)))
        return Entity(self._id(), "person", "Sing", gender, None, tuple(name), "PERSON")

    def named(self) -> NP:
        """A new person, as a name."""
        return NP(self.person(), "name")

    def town(self) -> Entity:
        name = (en.name(self.zipf(lex.TOWNS)),)
        return Entity(self._id(), "place", "Sing", "Neut", None, name, "GPE")

    def organisation(self) -> Entity:
        first, last = self.zipf(lex.ORGANISATIONS)
        return Entity(self._id(), "organisation", name=(en.name(first), en.name(last)), label="ORG")

    # --- phrases ----------------------------------------------------------------------------------

    def first_mention(self, entity: Entity) -> NP:
        """A name or an indefinite phrase; "the" for places, mass nouns and others at random."""
        if entity.name:
            return NP(entity, "name")
        np = NP(entity, "a")
        if entity.trait is not None:
            np.adjectives = self.before(entity.trait, entity.cls)
        if entity.cls in _PLACES:
            np.form = "the" if self.chance(0.75) else "a"
        elif entity.cls in MASS:
            np.form = "some" if self.chance(0.5) else "the"
        elif entity.number == "Plur":
            np.form = "some" if self.chance(0.4) else "the"
            if self.chance(0.5):
                np.form, np.count = "a", self.zipf(en.COUNTS)
        elif self.chance(0.3):
            np.form = "the"
        return np

    def before(self, trait: Word, cls: str) -> tuple[Word, ...]:
        """The adjectives of a noun; sometimes a second one: "a small red box"."""
        firsts = first_adjectives_for(cls)
        if trait.lemma in lex.SECOND_OF_TWO and firsts and self.chance(0.5):
            return self.zipf(firsts), trait
        return (trait,)

    def phrase(self, classes: frozenset[str], plural: float = 0.3) -> NP:
        return self.first_mention(self.thing(classes, plural))

    def place(self) -> tuple[str, NP]:
        """The place of an event."""
        return self._place(_EVENT_PLACES)

    def position(self, cls: str) -> tuple[str, NP]:
        """The position of a thing of this class."""
        return self._place(tuple(p for p in positions_for(cls) if p[0] != "with"))

    def _place(self, choices: tuple[tuple[str, frozenset[str]], ...]) -> tuple[str, NP]:
        preposition, classes = self.uniform(choices)
        np = self.spot(preposition, classes)
        if np.form == "a" and self.chance(0.6):
            np.form = "the"
        return preposition, np

    def spot(self, preposition: str, classes: frozenset[str]) -> NP:
        """A place that fits this preposition: in the kitchen, at the station."""
        while True:
            np = self.phrase(classes, plural=0.1)
            entity = np.entity
            fitting = lex.PREPOSITIONS.get(preposition)
            if entity.cls != "building" or not fitting or entity.noun is None:
                return np
            if entity.noun.lemma in fitting:
                return np

    def intervening(self, np: NP) -> None:
        """Insert a phrase of the other number between this subject and its verb."""
        other = 0.0 if np.plural else 0.75
        preposition, classes = self.uniform(positions_for(np.entity.cls))
        inner = NP(self.thing(classes, plural=other), "the")
        np.place = (preposition, inner)

    def time(self, tense: Tense) -> Time:
        """A time: dates and days for the past, habits for the present."""
        if tense == "Pres":
            word = self.uniform(("day", "morning", "evening", "week", "year", "afternoon"))
            return Time("", ((en.EVERY, "det"), (_NOUN[word], "")), 1)
        kind = self.random()
        if kind < 0.35:
            return Time("on", ((en.name(self.zipf(lex.DAYS)), ""),), 0)
        if kind < 0.55:
            month = en.name(self.zipf(lex.MONTHS))
            day = en.digits(1 + int(self.random() * 28))
            return Time("on", ((month, ""), (day, "nummod")), 0)
        if kind < 0.65:
            return Time("in", ((en.digits(1900 + int(self.random() * 120)), ""),), 0)
        if kind < 0.85:
            part = _NOUN[self.uniform(lex.PARTS_OF_DAY)]
            return Time("in", ((en.THE, "det"), (part, "")), 1, "TIME")
        unit = _NOUN[self.uniform(("night", "week", "year", "month"))]
        return Time("", ((_LAST, "amod"), (unit, "")), 1)

    # --- clauses ----------------------------------------------------------------------------------

    def object_for(self, frame: Frame) -> NP:
        """An object that this verb selects; a person may have a name."""
        if frame.object == frozenset(("person",)) and self.chance(0.5):
            return self.named()
        return self.phrase(frame.object, 0.3)

    def transitive(self, subject: NP, tense: Tense) -> Clause:
        frame = self.zipf(frames_for(TRANSITIVE, subject.entity.cls))
        return Clause(subject, frame, self.object_for(frame), tense=tense)

    def intransitive(self, subject: NP, tense: Tense) -> Clause:
        return Clause(subject, self.zipf(frames_for(INTRANSITIVE, subject.entity.cls)), tense=tense)

    def goal(self, frame: Frame) -> tuple[str, NP]:
        preposition = self.zipf(frame.goal.split())
        if preposition == "to" and frame.kind == "motion" and self.chance(0.25):
            return preposition, NP(self.town(), "name")
        classes = frame.goal_classes
        if preposition in ("into", "through", "across"):
            classes &= _FITS[preposition]
        elif preposition in ("on", "under", "in"):
            classes &= frozenset(("container",) if preposition == "in" else ("furniture",))
        np = self.spot(preposition, classes)
        if np.form == "a":
            np.form = "the"
        return preposition, np

    def motion(self, subject: NP, tense: Tense) -> Clause:
        frame = self.zipf(frames_for(MOTION, subject.entity.cls))
        return Clause(subject, frame, goal=self.goal(frame), tense=tense)

    def placing(self, subject: NP, tense: Tense) -> Clause:
        frame = self.zipf(PLACING)
        return Clause(subject, frame, self.phrase(frame.object), goal=self.goal(frame), tense=tense)

    def giving(self, subject: NP, recipient: NP, tense: Tense) -> Clause:
        frame = self.zipf(GIVING)
        return Clause(
            subject,
            frame,
            self.phrase(frame.object),
            recipient,
            dative_shift=self.chance(0.5),
            tense=tense,
        )

    def state(self, subject: NP, tense: Tense) -> Clause:
        """ "The soup was very hot." """
        word = self.zipf(adjectives_for(subject.entity.cls))
        graded = word.lemma not in lex.NOT_GRADED and self.chance(0.35)
        degree = en.adverb(self.zipf(lex.DEGREE)) if graded else None
        return Clause(subject, predicate=word, degree=degree, tense=tense)


_NOUN = {
    word: en.noun(word)[0] for word in "day morning evening afternoon night week year month".split()
}
_LAST = en.adjective("last")
_FITS = {
    "into": frozenset(("building", "container")),
    "through": frozenset(("building", "land")),
    "across": frozenset(("land", "water")),
}
