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
_LIKING = {True: "love enjoy like admire".split(), False: "hate dislike detest loathe".split()}
_THINK = Frame(en.verb("think"), PERSON, frozenset(), "say")


def sentiment(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """Judgements, plain, negated, reported, or told by what somebody does."""
    while True:
        draw.afresh()
        good = draw.chance(0.5)
        label = "positive" if good else "negative"
        yield (Item([speak(_judgement(draw, good))], {"sentiment": label}),)


def _judgement(draw: Draw, good: bool) -> Clause:
    tense: Tense = "Past" if draw.chance(0.6) else "Pres"
    kind = draw.random()
    if kind < 0.3:
        verb = en.verb(draw.zipf(_LIKING[good]))
        np = draw.phrase(_JUDGED)
        np.adjectives = (_quality(draw, good),) if draw.chance(0.6) else ()
        return Clause(draw.named(), Frame(verb, PERSON, _JUDGED, "feel"), np, tense=tense)
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
