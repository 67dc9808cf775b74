"""Short stories: a scene, a few characters, two to five sentences that refer to earlier ones.

The generator records the last mention of each entity, and uses a pronoun only if exactly one recent
entity fits it, so that coreference can be recovered from the text.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.draw import REFLEXIVE, Draw, frames_for
from workbench.corpora.primer.structures import NP, Clause, Entity, Tense

SCENES: tuple[tuple[str, ...], ...] = (
    ("food", "vessel", "furniture", "drink"),
    ("animal", "plant", "tool", "building"),
    ("text", "furniture", "idea", "person"),
    ("vehicle", "building", "person", "land"),
    ("garment", "container", "building", "food"),
    ("instrument", "event", "person", "building"),
    ("land", "animal", "plant", "water"),
    ("tool", "vehicle", "furniture", "building"),
)
_BECAUSE = en.Word("because", "because", "SCONJ", "IN")
_WHILE = en.Word("while", "while", "SCONJ", "IN")
_AFTER = en.Word("after", "after", "SCONJ", "IN")
_FAMILY = {
    "Fem": tuple(n for n in lex.NOUNS["person"] if n.lemma in ("sister", "mother", "aunt")),
    "Masc": tuple(n for n in lex.NOUNS["person"] if n.lemma in ("brother", "father", "uncle")),
}
_FAMILY_RELATIONS = dict.fromkeys(("sister", "brother"), "sibling_of")
_FAMILY_RELATIONS |= dict.fromkeys(("mother", "father"), "parent_of")
_FAMILY_RELATIONS |= dict.fromkeys(("aunt", "uncle"), "aunt_or_uncle_of")
_PLACES = lex.classes("place")
TRADES = tuple(
    n
    for n in lex.NOUNS["person"]
    if not n.gender and n.lemma not in ("child", "neighbour", "guest", "thief")
)


def _relational(verb: str, *classes: str) -> lex.Frame:
    return lex.Frame(en.verb(verb), frozenset(("person",)), frozenset(classes), "social")


class Bond(NamedTuple):
    """A statement of a relation between a person and another named entity."""

    frame: lex.Frame
    preposition: str  # "" if the other entity is the object
    other: str  # person, town or organisation
    relation: str
    past: bool = False  # used in the past only


BONDS = (
    Bond(_relational("live"), "in", "town", "lives_in"),
    Bond(_relational("work"), "for", "organisation", "employee_of"),
    Bond(_relational("work"), "at", "organisation", "employee_of"),
    Bond(_relational("lead", "organisation"), "", "organisation", "leader_of"),
    Bond(_relational("join", "organisation"), "", "organisation", "member_of", past=True),
    Bond(_relational("marry", "person"), "", "person", "married_to", past=True),
    Bond(_relational("found", "organisation"), "", "organisation", "founder_of", past=True),
    Bond(_relational("come"), "from", "town", "born_in"),
)


class StoryGenerator:
    """Generates one story; `last` maps each entity to the sentence of its last mention."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        draw.theme = draw.zipf(SCENES)
        self.tense: Tense = "Past" if draw.chance(0.55) else "Pres"
        self.last: dict[Entity, int] = {}
        self.sentence = 0
        self.timed = False  # whether the story has a time already: it has at most one
        self.hero = draw.person() if draw.chance(0.7) else draw.thing(frozenset(("person",)), 0.35)
        self.friend: Entity | None = None

    # --- referring --------------------------------------------------------------------------------

    def refer(self, entity: Entity, pronoun: float = 0.85, modify: bool = True) -> NP:
        """A first mention, a pronoun if only this entity fits it, otherwise a name or "the"."""
        new = entity not in self.last
        recent = [e for e, last in self.last.items() if self.sentence - last <= 1]
        rivals = [e for e in recent if e is not entity and e.pronouns == entity.pronouns]
        self.last[entity] = self.sentence
        if new:
            return self.draw.first_mention(entity)
        if not rivals and entity in recent and self.draw.chance(pronoun):
            return NP(entity, "pronoun")
        if entity.label == "PERSON" and len(entity.name) > 1:
            entity.name = entity.name[:1]  # the surname occurs in the first mention only
        if entity.name:
            return NP(entity, "name")
        np = NP(entity, "the")
        if modify and entity.trait is not None and self.draw.chance(0.3):
            np.adjectives = (entity.trait,)
        return np

    def note(self, np: NP | None) -> None:
        """Record the entities of a phrase as mentioned in this sentence."""
        if np is not None:
            self.last[np.entity] = self.sentence
            for inner in (np.owner, np.also, np.place and np.place[1]):
                self.note(inner or None)

    def noted(self, clause: Clause) -> Clause:
        for np in (
            clause.object,
            clause.recipient,
            clause.goal and clause.goal[1],
            clause.place and clause.place[1],
        ):
            self.note(np or None)
        return clause

    def someone(self) -> Entity:
        """The second character, the same in the whole story."""
        if self.friend is None:
            thing = frozenset(("person",)) if self.draw.chance(0.75) else frozenset(("animal",))
            self.friend = (
                self.draw.person() if self.draw.chance(0.35) else self.draw.thing(thing, 0.4)
            )
        return self.friend

    def actor(self) -> NP:
        entity = self.hero if self.draw.chance(0.65) else self.someone()
        np = self.refer(entity)
        if np.form in ("name", "pronoun", "reflexive"):
            return np
        self.widen(np)
        return np

    def widen(self, np: NP) -> None:
        """Sometimes add a place, a relative clause or a second person to a common noun."""
        kind = self.draw.random()
        if kind < 0.16:
            self.draw.intervening(np)
        elif kind < 0.32:
            np.relative = self.relative(np)
        elif kind < 0.36 and np.entity.cls == "person":
            other = self.draw.thing(frozenset(("person", "animal")))
            np.entity = Entity(
                "", np.entity.cls, np.entity.number, np.entity.gender, np.entity.noun
            )
            np.also = NP(other, "the")
            self.last[other] = self.sentence

    def relative(self, np: NP) -> "tuple[str, Clause]":
        """ "who fed the dogs", "that the farmers feed" """
        if self.draw.chance(0.55) and np.entity.cls in ("person", "animal"):
            return "subject", replace(self.draw.transitive(np, self.tense), subject=None)
        subject = self.draw.thing(
            frozenset(("person",)), plural=0.7 if np.entity.number == "Sing" else 0.2
        )
        frames = [f for f in frames_for(_ACTIONS, "person") if np.entity.cls in f.object]
        frame = self.draw.zipf(frames)
        return "object", Clause(NP(subject, "the"), frame, tense=self.tense)

    # --- sentences --------------------------------------------------------------------------------

    def generate(self) -> Iterator[Clause]:
        """The clauses of the story, one per sentence."""
        length = 2 + int(self.draw.random() * 4)
        for self.sentence in range(length):
            clause = self.opening() if self.sentence == 0 else self.draw.weighted(_BODY)(self)
            yield self.dressed(clause)

    def dressed(self, clause: Clause) -> Clause:
        """The clause with random adjuncts, aspect and polarity, if it allows them."""
        if clause.question:
            return clause
        if clause.exist or clause.relation:
            if self.sentence == 0 and self.draw.chance(0.2):
                self.when(clause, first=True)
            return clause
        plain = not (clause.predicate or clause.that or clause.infinitive)
        if not self.timed and clause.predicate is None and self.draw.chance(0.25):
            self.when(clause, first=self.draw.chance(0.5) or not plain)
        elif self.sentence and self.draw.chance(0.2):
            clause.link = en.adverb(self.draw.zipf(lex.LINKS))
        if plain and clause.conjoined is None and clause.subordinate is None:
            self.adjuncts(clause)
        if clause.predicate is None and clause.conjoined is None:
            self.aspect(clause)
        self.frequency(clause)
        return clause

    def when(self, clause: Clause, first: bool) -> None:
        clause.time, clause.time_first, self.timed = self.draw.time(clause.tense), first, True

    def frequency(self, clause: Clause) -> None:
        """Sometimes add "often" or similar to a clause in the present."""
        busy = clause.negative or clause.modal or clause.time or clause.progressive or clause.manner
        if clause.frame and self.tense == "Pres" and not busy and self.draw.chance(0.12):
            clause.often = en.adverb(self.draw.zipf(lex.OFTEN))

    def adjuncts(self, clause: Clause) -> None:
        assert clause.frame is not None
        nps = (clause.subject, clause.object)
        kind = clause.frame.kind
        placed = clause.goal or any(np and np.entity.cls in _PLACES for np in nps)
        if not placed and kind not in ("appear", "feel") and self.draw.chance(0.22):
            clause.place = self.draw.place()
            self.note(clause.place[1])
        if kind not in ("feel", "happen", "perceive", "lose") and self.draw.chance(0.15):
            clause.manner = en.adverb(self.draw.zipf(lex.MANNER))

    def aspect(self, clause: Clause) -> None:
        kind = self.draw.random()
        stative = clause.frame is not None and clause.frame.kind in ("feel", "perceive")
        if kind < 0.08 and not clause.time:
            clause.perfect = True
        elif kind < 0.16:
            settled = stative or clause.passive or clause.infinitive or clause.that
            habit = self.tense == "Pres" and clause.time is not None
            clause.progressive = not (settled or habit)
        elif kind < 0.21 and clause.time is None:
            if self.tense == "Pres":
                clause.modal = self.draw.zipf(("will", "can", "must", "may"))
        elif kind < 0.27:
            clause.negative, clause.contracted = True, self.draw.chance(0.5)

    def opening(self) -> Clause:
        kind = self.draw.random()
        if self.hero.name and kind < 0.35:
            return self.bond()
        if not self.hero.name and kind < 0.4:
            np = self.draw.first_mention(self.hero)
            np.form, self.last[self.hero] = ("some" if np.plural and not np.count else "a"), 0
            return Clause(np, exist=True, place=self.draw.place(), tense=self.tense)
        subject = self.refer(self.hero)
        if self.hero.name and kind < 0.6:
            self.introduce(subject)
        return self.draw.weighted(_OPENERS)(self, subject)

    def introduce(self, subject: NP) -> None:
        """ "Mara, a teacher at the River School," or "Mara's brother, Tom,"."""
        if self.draw.chance(0.5):
            trade = Entity(
                self.hero.id, "person", noun=self.draw.zipf(TRADES), gender=self.hero.gender
            )
            subject.apposition = NP(trade, "a")
            if self.draw.chance(0.5):
                subject.apposition.place = ("at", NP(self.draw.organisation(), "name"))
                subject.apposition.relation = "employee_of"
            return
        other = self.draw.person()
        self.last[other] = self.sentence
        noun = self.draw.zipf(_FAMILY[self.hero.gender])
        relative = Entity(self.hero.id, "person", noun=noun, gender=self.hero.gender)
        subject.apposition = NP(self.hero, "name")
        subject.entity, subject.form, subject.owner = relative, "owned", NP(other, "name")
        subject.relation = _FAMILY_RELATIONS[noun.lemma]

    def bond(self) -> Clause:
        """A sentence that states a relation between two names."""
        draw = self.draw
        bond = draw.uniform(BONDS)
        other = {"town": draw.town, "organisation": draw.organisation, "person": draw.person}[
            bond.other
        ]()
        tense: Tense = "Past" if bond.past else self.tense
        clause = Clause(self.refer(self.hero), bond.frame, tense=tense, relation=bond.relation)
        self.last[other] = self.sentence
        if bond.preposition:
            clause.goal = (bond.preposition, NP(other, "name"))
        else:
            clause.object = NP(other, "name")
        return clause

    def act(self, subject: NP | None = None) -> Clause:
        return self.noted(self.transitive(subject or self.actor()))

    def transitive(self, subject: NP) -> Clause:
        """A transitive clause, sometimes with a known entity as its object."""
        if self.draw.chance(0.45):
            known = [
                e
                for e in self.last
                if e is not subject.entity and e is not self.hero and not e.name
            ]
            if known:
                entity = self.draw.uniform(known)
                frames = [
                    f for f in frames_for(_ACTIONS, subject.entity.cls) if entity.cls in f.object
                ]
                if frames and (subject.also is None):
                    return Clause(
                        subject, self.draw.zipf(frames), self.refer(entity), tense=self.tense
                    )
        return self.draw.transitive(subject, self.tense)

    def move(self, subject: NP | None = None) -> Clause:
        return self.noted(self.draw.motion(subject or self.actor(), self.tense))

    def hero_np(self) -> NP:
        np = self.refer(self.hero)
        if np.form not in ("name", "pronoun"):
            self.widen(np)
        return np

    def give(self, subject: NP | None = None) -> Clause:
        subject = subject or self.hero_np()
        friend = self.someone()
        if friend.cls != "person" or friend is subject.entity:
            friend = self.draw.thing(frozenset(("person",)))
        return self.noted(self.draw.giving(subject, self.refer(friend), self.tense))

    def place(self, subject: NP | None = None) -> Clause:
        return self.noted(self.draw.placing(subject or self.hero_np(), self.tense))

    def do(self, subject: NP | None = None) -> Clause:
        return self.draw.intransitive(subject or self.actor(), self.tense)

    def topic(self) -> NP | None:
        """A recently mentioned entity as the subject of a further sentence, or None."""
        things = [
            e
            for e, last in self.last.items()
            if self.sentence - last <= 1 and e.cls in lex.NOUNS and e.noun
        ]
        if not things:
            return None
        np = self.refer(self.draw.uniform(things), pronoun=0.4)
        if np.form in ("the",):
            self.widen(np)
        return np

    def state(self) -> Clause:
        subject = self.topic() or self.actor()
        if self.draw.chance(0.15) and frames_for(_HAPPENING, subject.entity.cls):
            frame = self.draw.zipf(frames_for(_HAPPENING, subject.entity.cls))
            return Clause(subject, frame, tense=self.tense)
        clause = self.draw.state(subject, self.tense)
        if self.draw.chance(0.25):
            clause.coordinate = (
                en.BUT if self.draw.chance(0.6) else en.AND,
                self.act(self.hero_plain()),
            )
        return clause

    def hero_plain(self) -> NP:
        return self.refer(self.hero, modify=False)

    def passive(self) -> Clause:
        topic = self.topic()
        frames = [
            f for f in frames_for(_PASSIVE, "person") if topic and topic.entity.cls in f.object
        ]
        if topic is None or not frames:
            return self.act()
        agent = self.draw.first_mention(self.draw.thing(frozenset(("person",))))
        clause = Clause(agent, self.draw.zipf(frames), topic, tense=self.tense)
        clause.passive, clause.agent = True, self.draw.chance(0.6)
        if clause.agent:
            self.last[agent.entity] = self.sentence
        return clause

    def thought(self) -> Clause:
        subject = self.hero_np()
        verb = self.draw.zipf(lex.THAT_VERBS)
        inner = self.state() if self.draw.chance(0.6) else self.act(self.refer(self.someone()))
        inner.coordinate = None
        self.use_pronoun(subject, inner)
        frame = lex.Frame(verb, frozenset(("person",)), frozenset(), "say")
        return Clause(subject, frame, that=inner, tense=self.tense)

    def use_pronoun(self, subject: NP | None, inner: Clause) -> None:
        """Replace the subject's entity in an inner clause by a pronoun ("he knew that he …")."""
        if subject is None:
            return
        for part in ("subject", "object"):
            np = getattr(inner, part)
            if np is not None and np.entity is subject.entity and np.form != "reflexive":
                setattr(inner, part, NP(np.entity, "pronoun"))

    def wish(self) -> Clause:
        subject = self.hero_np()
        inner = (
            self.noted(self.transitive(subject))
            if self.draw.chance(0.7)
            else self.noted(self.draw.motion(subject, self.tense))
        )
        frame = lex.Frame(
            self.draw.zipf(lex.INFINITIVE_VERBS), frozenset(("person",)), frozenset(), "wish"
        )
        return Clause(subject, frame, infinitive=replace(inner, subject=None), tense=self.tense)

    def both(self) -> Clause:
        """Two predicates of one subject."""
        first = self.act(self.actor())
        assert first.subject is not None
        second = self.draw.intransitive(first.subject, self.tense)
        if self.draw.chance(0.6):
            other = self.noted(self.transitive(first.subject))
            second = second if other.frame is first.frame else other
        first.conjoined = replace(second, subject=None)
        return first

    def reason(self) -> Clause:
        clause = self.act(self.hero_np())
        kind = self.draw.random()
        if kind < 0.5:
            clause.subordinate = (_BECAUSE, self.draw.state(self.hero_plain(), self.tense))
            self.use_pronoun(clause.subject, clause.subordinate[1])
        elif kind < 0.8:
            clause.subordinate = (_WHILE, self.do(self.refer(self.someone())))
        else:
            clause.subordinate = (_AFTER, self.move(self.refer(self.someone())))
        return clause

    def oneself(self) -> Clause:
        subject = self.hero_np()
        frame = self.draw.zipf(REFLEXIVE)
        return (
            Clause(subject, frame, NP(subject.entity, "reflexive"), tense=self.tense)
            if subject.also is None
            else self.act(subject)
        )

    def ask(self) -> Clause:
        subject = self.refer(self.hero if self.draw.chance(0.6) else self.someone())
        if subject.form in ("a", "some"):
            subject.form = "the"
        clause = self.transitive(subject)
        kind = self.draw.random()
        clause.question = "polar"
        if kind < 0.25 and clause.object is not None:
            clause.question = "what"
        elif kind < 0.4:
            clause.question = "who"
        elif kind < 0.55:
            clause.question = "where" if self.draw.chance(0.6) else "when"
        if clause.question != "what":
            self.noted(clause)
        return clause

    def located(self) -> Clause:
        topic = self.topic()
        if topic is None or topic.entity.cls in _PLACES | {"event", "idea"} or topic.place:
            return self.state()
        place = self.draw.position(topic.entity.cls)
        self.note(place[1])
        return Clause(topic, predicate=place, tense=self.tense)


_ACTIONS = tuple(f for f in lex.FRAMES if f.object and not f.goal and f.kind not in ("create",))
_HAPPENING = tuple(f for f in lex.FRAMES if f.kind == "happen")
_PASSIVE = tuple(f for f in _ACTIONS if f.kind not in ("feel", "traverse"))

_OPENERS: tuple[tuple[float, Callable[[StoryGenerator, NP], Clause]], ...] = (
    (0.45, StoryGenerator.act),
    (0.2, StoryGenerator.move),
    (0.15, StoryGenerator.give),
    (0.1, StoryGenerator.place),
    (0.1, StoryGenerator.do),
)
_BODY: tuple[tuple[float, Callable[[StoryGenerator], Clause]], ...] = (
    (0.2, StoryGenerator.act),
    (0.14, StoryGenerator.state),
    (0.08, StoryGenerator.move),
    (0.08, StoryGenerator.give),
    (0.07, StoryGenerator.place),
    (0.07, StoryGenerator.passive),
    (0.08, StoryGenerator.thought),
    (0.07, StoryGenerator.wish),
    (0.07, StoryGenerator.both),
    (0.06, StoryGenerator.reason),
    (0.04, StoryGenerator.oneself),
    (0.04, StoryGenerator.ask),
    (0.03, StoryGenerator.do),
    (0.03, StoryGenerator.located),
)
