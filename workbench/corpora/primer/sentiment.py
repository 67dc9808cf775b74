"""Sentiment: judgements, plain, denied, reported, or told by what somebody does. 100 µs an item."""

from collections.abc import Iterator

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.draw import PERSON, Draw
from workbench.corpora.primer.item import Item
from workbench.corpora.primer.lexicon import Frame
from workbench.corpora.primer.meaning import NP, Clause, Tense
from workbench.corpora.primer.syntax import speak

_JUDGED = lex.classes("event text food drink idea building garment")
_LIKING = {
    True: ("love", "enjoy", "like", "admire", "praise"),
    False: ("hate", "reject", "ignore", "blame"),
}
_FRAME = {frame.lemma: frame for frame in lex.FRAMES if frame.object and not frame.goal}
_THINK = Frame(en.verb("think"), PERSON, frozenset(), "say")


def sentiment(draw: Draw) -> Iterator[Item]:
    """Judgements, plain, negated, reported, or told by what somebody does."""
    while True:
        good = draw.chance(0.5)
        yield Item(
            [speak(_judgement(draw, good))], {"sentiment": "positive" if good else "negative"}
        )


def _judgement(draw: Draw, good: bool) -> Clause:
    tense: Tense = "Past" if draw.chance(0.6) else "Pres"
    kind = draw.random()
    if kind < 0.3:
        frame = _FRAME[draw.zipf(_LIKING[good])]
        if allowed := frame.object & _JUDGED:
            np = draw.phrase(allowed)
            np.adjectives = (_quality(draw, good),) if draw.chance(0.6) else ()
            return Clause(draw.named(), frame, np, tense=tense)
    np = NP(draw.thing(_JUDGED, 0.2), "this" if draw.chance(0.3) else "the")
    negative = draw.chance(0.25)
    clause = Clause(np, predicate=_quality(draw, good != negative), tense=tense)
    clause.negative, clause.contracted = negative, draw.chance(0.5)
    if not negative and draw.chance(0.5):
        clause.degree = en.adverb(draw.zipf(lex.DEGREE))
    if draw.chance(0.3):
        return Clause(draw.named(), _THINK, that=clause, tense=tense)
    if draw.chance(0.3):
        other = NP(draw.thing(_JUDGED, 0.2), "the")
        clause.beside = (en.AND, Clause(other, predicate=_quality(draw, good), tense=tense))
    elif draw.chance(0.3):
        draw.intervening(np)
    return clause


def _quality(draw: Draw, good: bool) -> en.Word:
    return en.adjective(draw.zipf(lex.GOOD if good else lex.BAD))
