"""Counterfactual pairs: two sentences that differ in a word and in a later word that depends on it.

"The girl often sleeps", "The girls often sleep": the noun is exchanged, and with it the form of the
verb. Both sentences are right, have the same number of words, and differ in these two words only.
Seven phenomena in turn; in half of the pairs of each, the exchange goes the other way. Costs: 100
µs per item.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.draw import (
    MASS,
    PERSON,
    REFLEXIVE,
    TRANSITIVE,
    Draw,
    adjectives_for,
    frames_for,
)
from workbench.corpora.primer.lexicon import Frame
from workbench.corpora.primer.structures import NP, Clause, Entity, Item, Label, Sentence, Tense
from workbench.corpora.primer.syntax import realise

Exchange = tuple[Clause, Clause]
ANIMATE = frozenset(("person", "animal"))


def counterfactuals(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """Counterfactual pairs: a word is exchanged, and a later word with it; seven phenomena."""
    while True:
        for phenomenon, make in _PHENOMENA.items():
            draw.reset()
            clean, corrupt = map(realise, make(draw))
            if (predicted := _predicted(clean, corrupt)) is not None:
                labels: dict[str, Label] = {"phenomenon": phenomenon}
                yield (Item([clean], labels, [corrupt], predicted=predicted),)


def _predicted(clean: Sentence, corrupt: Sentence) -> int | None:
    """The later one of the two words that differ; None if more or fewer do ("sheep")."""
    words = zip(clean.words, corrupt.words, strict=True)
    differ = [index for index, (one, other) in enumerate(words) if one.form != other.form]
    return differ[1] if len(differ) == 2 else None


def _other_number(entity: Entity) -> Entity:
    number = "Sing" if entity.number == "Plur" else "Plur"
    return replace(entity, number=number, id=f"{entity.id}b")  # type: ignore[arg-type]


def _tense(draw: Draw) -> Tense:
    return "Past" if draw.chance(0.5) else "Pres"


def _with_subjects(clause: Clause) -> Exchange:
    """The clause, and the same of one instead of several, or of several instead of one."""
    subject = clause.subject
    assert subject is not None
    return clause, replace(clause, subject=replace(subject, entity=_other_number(subject.entity)))


def _agreement(draw: Draw) -> Exchange:
    """ "The girl often sleeps" """
    subject = NP(draw.thing(ANIMATE, 0.5), "the")
    if draw.chance(0.5):
        clause = draw.transitive(subject, "Pres")
    else:
        clause = draw.intransitive(subject, "Pres")
    clause.often = en.adverb(draw.zipf(lex.OFTEN))
    return _with_subjects(clause)


def _agreement_phrase(draw: Draw) -> Exchange:
    """ "The key on the tables was old" """
    subject = NP(draw.thing(_COUNTABLE, 0.5), "the")
    draw.intervening(subject)
    assert subject.place is not None
    _, inner = subject.place
    inner.entity.number = "Plur" if draw.chance(0.5) else "Sing"
    return _with_subjects(draw.state(subject, _tense(draw)))


def _agreement_relative(draw: Draw) -> Exchange:
    """ "The girl who fed the dogs was tired" """
    subject = NP(draw.thing(ANIMATE, 0.5), "the")
    frame = draw.zipf(frames_for(_EVENTS, subject.entity.cls))
    inner = Clause(frame=frame, object=NP(draw.thing(frame.object, 0.5), "the"), tense="Past")
    subject.relative = ("subject", inner)
    return _with_subjects(draw.state(subject, _tense(draw)))


def _determiner(draw: Draw) -> Exchange:
    """ "Tom found an old key", "Tom found two old keys" """
    frame, subject, tense = draw.zipf(_OF_PERSONS), draw.named(), _tense(draw)
    one = draw.thing(frame.object & _OWNED, 0.0)
    adjectives, count = (draw.zipf(adjectives_for(one.cls)),), draw.zipf(en.COUNTS)
    pair = NP(one, "a", adjectives), NP(_other_number(one), "a", adjectives, count)
    clauses = [Clause(subject, frame, each, tense=tense) for each in pair]
    first = int(draw.chance(0.5))
    return clauses[first], clauses[1 - first]


def _two_people(draw: Draw) -> tuple[NP, NP]:
    """A woman and a man in any order: by their names, with one surname if any, or by nouns."""
    first = draw.person() if draw.chance(0.5) else draw.thing(PERSON, 0.0)
    second = first
    while second.gender == first.gender or _is_open(first) or _is_open(second):
        if _is_open(first):
            first = draw.thing(PERSON, 0.0)
        second = draw.person() if first.name else draw.thing(PERSON, 0.0)
    if first.name:
        second = replace(second, name=(second.name[0], *first.name[1:]))
        return NP(first, "name"), NP(second, "name")
    return NP(first, "the"), NP(second, "the")


def _is_open(person: Entity) -> bool:
    """Whether the word says nothing of the gender: "teacher" """
    return person.noun is not None and not person.noun.gender


def _possessive(draw: Draw) -> Exchange:
    """ "Anna often lost her key" """
    tense, often = _tense(draw), en.adverb(draw.zipf(lex.OFTEN))
    frame = draw.zipf(_OF_PERSONS)
    thing = draw.thing(frame.object & _OWNED)

    def clause(owner: NP) -> Clause:
        own = NP(thing, "owned", owner=NP(owner.entity, "pronoun"))
        return Clause(owner, frame, own, tense=tense, often=often)

    first, second = _two_people(draw)
    return clause(first), clause(second)


def _reflexive(draw: Draw) -> Exchange:
    """ "Anna still blames herself" """
    tense, often = _tense(draw), en.adverb(draw.zipf(lex.OFTEN))
    frame, place = draw.zipf(REFLEXIVE), draw.place() if draw.chance(0.5) else None

    def clause(who: NP) -> Clause:
        again = NP(who.entity, "reflexive")
        return Clause(who, frame, again, place=place, tense=tense, often=often)

    first, second = _two_people(draw)
    return clause(first), clause(second)


def _selection(draw: Draw) -> Exchange:
    """ "The baker ate the old cake", "The baker drove the old car" """
    first, second = draw.uniform(_DISJOINT)
    subject, tense = NP(draw.thing(PERSON, 0.3), "the"), _tense(draw)
    things = [draw.thing(each.object, 0.0) for each in (first, second)]
    shared = [
        word for word in adjectives_for(things[0].cls) if word in adjectives_for(things[1].cls)
    ]
    adjectives = (draw.zipf(shared),) if shared else ()
    one, other = (
        Clause(subject, frame, NP(thing, "the", adjectives=adjectives), tense=tense)
        for frame, thing in zip((first, second), things, strict=True)
    )
    return one, other


_COUNTABLE = lex.classes("concrete") - MASS
_OWNED = lex.classes("ware") - lex.classes("edible")
_EVENTS = tuple(f for f in TRANSITIVE if f.kind != "feel" and f.object <= lex.classes("concrete"))
_OF_PERSONS = tuple(f for f in _EVENTS if "person" in f.subject and f.object & _OWNED)
# verbs that take no object in common: nobody eats what can be read
_DISJOINT: tuple[tuple[Frame, Frame], ...] = tuple(
    permutations(
        [
            next(f for f in TRANSITIVE if f.lemma == lemma)
            for lemma in "eat read drink wear drive play".split()
        ],
        2,
    )
)

_PHENOMENA: Mapping[str, Callable[[Draw], Exchange]] = {
    "agreement": _agreement,
    "agreement-phrase": _agreement_phrase,
    "agreement-relative": _agreement_relative,
    "determiner": _determiner,
    "possessive": _possessive,
    "reflexive": _reflexive,
    "selection": _selection,
}
