"""Acceptability: minimal pairs of a sentence and its variant with one error, of five phenomena.

Costs: 100 µs per item.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.draw import PERSON, REFLEXIVE, TRANSITIVE, Draw
from workbench.corpora.primer.stories import StoryGenerator
from workbench.corpora.primer.structures import NP, Clause, Item, Sentence, Tense
from workbench.corpora.primer.syntax import realise


def acceptability(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """Minimal pairs: a sentence, then the same with one error; five phenomena in turn."""
    pair = 0
    while True:
        for phenomenon, make in _PHENOMENA.items():
            draw.reset()
            sentences = make(draw)
            if sentences is None or sentences[0].text == sentences[1].text:
                continue
            pair += 1
            labels = {"phenomenon": phenomenon, "pair": str(pair)}
            good, bad = sentences
            yield (
                Item([good], {"acceptability": "acceptable", **labels}),
                Item([bad], {"acceptability": "unacceptable", **labels}),
            )


MinimalPair = tuple[Sentence, Sentence]


def _plain(draw: Draw, tense: Tense, plural: float = 0.5) -> Clause:
    subject = NP(draw.thing(frozenset(("person", "animal")), plural), "the")
    return draw.transitive(subject, tense)


def _agreement(draw: Draw) -> MinimalPair | None:
    """A verb in the wrong number, mostly after an intervening noun of the other number."""
    clause = (
        _plain(draw, "Pres")
        if draw.chance(0.7)
        else draw.state(NP(draw.thing(lex.classes("concrete"), 0.5), "the"), "Past")
    )
    assert clause.subject is not None
    kind = draw.random()
    if kind < 0.4:
        draw.intervening(clause.subject)
    elif kind < 0.75:
        clause.subject.relative = StoryGenerator(draw).relative(clause.subject)
    return realise(clause), realise(replace(clause, wrong=frozenset(("agreement",))))


def _reflexive(draw: Draw) -> MinimalPair | None:
    """ "herself" for a person who is not female, "himself" for several people."""
    subject = draw.named() if draw.chance(0.4) else NP(draw.thing(PERSON, 0.5), "the")
    entity = subject.entity
    if entity.number == "Sing" and not (entity.name or (entity.noun and entity.noun.gender)):
        return None  # the gender of a teacher is not known
    wrong = {"Masc": "Fem", "Fem": "Masc"}.get(entity.pronouns) or draw.uniform(("Masc", "Fem"))
    good = Clause(subject, draw.zipf(REFLEXIVE), NP(entity, "reflexive"), place=draw.place())
    bad = replace(good, object=NP(entity, "reflexive", pronouns=wrong))
    return realise(good), realise(bad)


def _selection(draw: Draw) -> MinimalPair | None:
    """An object, or an agent, of a class that the verb does not select."""
    draw.theme = ()
    tense: Tense = "Past" if draw.chance(0.5) else "Pres"
    frame = draw.zipf(_STRICT)
    subject = NP(draw.thing(PERSON, 0.4), "the")
    good = Clause(subject, frame, NP(draw.thing(frame.object), "the"), tense=tense)
    odd = NP(draw.thing(_THINGS - frame.object, 0.4), "the")
    if draw.chance(0.6):
        odd.entity.number = good.object.entity.number if good.object else "Sing"
        return realise(good), realise(replace(good, object=odd))
    odd.entity.number = subject.entity.number
    return realise(good), realise(replace(good, subject=odd))


# verbs without figurative uses, and classes that make them unacceptable in any reading
_STRICT = tuple(
    f
    for f in TRANSITIVE
    if f.lemma in "eat read drink wear drive play bake cook sew fold pour tune park sign".split()
)
_THINGS = lex.classes("building land water furniture garment vehicle instrument")


def _case(draw: Draw) -> MinimalPair | None:
    """ "him sleeps" """
    entity = draw.person() if draw.chance(0.6) else draw.thing(PERSON, 1.0)
    subject = NP(entity, "pronoun")
    clause = draw.transitive(subject, "Past" if draw.chance(0.6) else "Pres")
    if draw.chance(0.5):
        clause.place = draw.place()
    return realise(clause), realise(replace(clause, wrong=frozenset(("case",))))


def _word_order(draw: Draw) -> MinimalPair | None:
    """A determiner after its noun."""
    clause = _plain(draw, "Past")
    if draw.chance(0.5):
        clause.place = draw.place()
    good, bad = realise(clause), realise(clause)
    spots = [
        i
        for i, word in enumerate(good.words[:-1])
        if word.pos == "DET" and good.words[i + 1].pos in ("NOUN", "ADJ", "NUM")
    ]
    swap(bad, draw.uniform(spots))
    return good, bad


def swap(s: Sentence, i: int) -> None:
    """Exchange words i and i + 1 with their tree; constituents are removed."""
    swapped = {i: i + 1, i + 1: i}
    order = list(range(len(s.words)))
    order[i], order[i + 1] = i + 1, i
    s.words = [s.words[j] for j in order]
    s.deps = [s.deps[j] for j in order]
    s.heads = [swapped.get(s.heads[j], s.heads[j]) for j in order]
    if i == 0:
        second = s.words[1]
        s.words[1] = second._replace(form=second.lemma if second.pos == "DET" else second.form)
        s.words[0] = s.words[0].capitalised()
    s.constituents = []


_PHENOMENA: Mapping[str, Callable[[Draw], MinimalPair | None]] = {
    "agreement": _agreement,
    "reflexive": _reflexive,
    "word-order": _word_order,
    "selection": _selection,
    "case": _case,
}
