"""The tasks of the primer by name: endless streams of items, in groups that stay together.

Costs: 100 µs per sentiment item, 700 µs per question; see the other modules for the other tasks.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.acceptability import acceptability
from workbench.corpora.primer.draw import PERSON, Draw
from workbench.corpora.primer.exchanges import counterfactuals
from workbench.corpora.primer.lexicon import Frame
from workbench.corpora.primer.pairs import entailment, paraphrase, relatedness
from workbench.corpora.primer.rewrites import rewrites
from workbench.corpora.primer.stories import StoryGenerator
from workbench.corpora.primer.structures import NP, Clause, Item, Question, Range, Sentence, Tense
from workbench.corpora.primer.syntax import realise

# --- span questions about a story: who, what, where; the answer is a phrase of the story ----------


def questions(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """A question and a story; the answer is a span of the story."""
    while True:
        draw.reset()
        clauses = list(StoryGenerator(draw).generate())
        sentences = [realise(clause) for clause in clauses]
        lemmas = [word.lemma for sentence in sentences for word in sentence.words]
        at = 0
        for clause, sentence in zip(clauses, sentences, strict=True):
            once = clause.frame is not None and lemmas.count(clause.frame.lemma) == 1
            pair = _question(draw, clause, sentence) if once else None
            if pair is not None:
                question, (start, end) = pair
                answer = _named(sentences, (at + start, at + end))
                if answer is not None:
                    yield (Item([realise(question)], {}, sentences, answer),)
                    break
            at += len(sentence.words)


def _allows_question(c: Clause) -> bool:
    simple = (
        c.conjoined is None
        and c.that is None
        and c.infinitive is None
        and c.subordinate is None
        and c.coordinate is None
    )
    return simple and not (
        c.question or c.passive or c.exist or c.negative or c.modal or c.predicate or c.relation
    )


def _question(draw: Draw, c: Clause, s: Sentence) -> tuple[Clause, Range] | None:
    """A question that this sentence answers, and the range of the answer."""
    if (
        not _allows_question(c)
        or c.frame is None
        or c.subject is None
        or c.subject.also is not None
    ):
        return None
    root = next(i for i, head in enumerate(s.heads) if head == i)
    spans = {role.role: role.span for role in s.roles if role.predicate == root}
    kinds: list[tuple[Question, Range]] = []
    if c.subject.entity.cls == "person" and "ARG0" in spans and c.subject.apposition is None:
        kinds.append(("who", spans["ARG0"]))
    if c.object is not None and c.object.entity.cls != "person" and c.object.form != "reflexive":
        kinds.append(("what", spans["ARG1"]))
    if c.place is not None:
        kinds.append(("where", spans["ARGM-LOC"]))
    if not kinds:
        return None
    kind, span = draw.uniform(kinds)
    question = replace(
        c,
        question=kind,
        subject=_without_pronoun(c.subject),
        object=c.object and _without_pronoun(c.object),
        recipient=c.recipient and _without_pronoun(c.recipient),
        place=None if kind == "where" else c.place,
        perfect=False,
        progressive=False,
    )
    question.time = question.link = question.often = question.manner = None
    return question, span


def _without_pronoun(np: NP) -> NP:
    """The phrase by name or with "the", because a question has no context for a pronoun."""
    if np.form == "reflexive":
        return np
    if np.entity.name:
        return NP(np.entity, "name")
    owner = np.owner
    return NP(np.entity, "owned" if owner else "the", owner=owner)


def _named(sentences: list[Sentence], span: Range) -> Range | None:
    """The span or, if it is a pronoun, the last phrase before it with the same referent."""
    words = [word for s in sentences for word in s.words]
    if words[span[0]].pos != "PRON" or span[1] - span[0] > 1:
        return span
    mentions: list[tuple[int, int, str]] = []
    at = 0
    for s in sentences:
        mentions += [(at + a, at + b, name) for a, b, _, name in s.mentions]
        at += len(s.words)
    chain = next((name for a, b, name in mentions if (a, b) == span), "")
    named = [
        (a, b)
        for a, b, name in mentions
        if name == chain and b <= span[0] and words[a].pos != "PRON"
    ]
    if not named:
        return None
    proper = [start for start, _ in named if words[start].pos == "PROPN"]
    if not proper:
        return max(named)
    start = end = max(proper)
    while words[end].pos == "PROPN":
        end += 1
    return start, end


# --- sentiment ------------------------------------------------------------------------------------

_JUDGED = lex.classes("event text food drink idea building garment")
_LIKING = {True: "love enjoy like admire".split(), False: "hate dislike detest loathe".split()}
_THINK = Frame(en.verb("think"), PERSON, frozenset(), "say")


def sentiment(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """Judgements: plain, negated, reported, or expressed by a verb of liking."""
    while True:
        draw.reset()
        good = draw.chance(0.5)
        label = "positive" if good else "negative"
        yield (Item([realise(_judgement(draw, good))], {"sentiment": label}),)


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
        clause.coordinate = (en.AND, Clause(other, predicate=_quality(draw, good), tense=tense))
    elif draw.chance(0.3):
        draw.intervening(np)
    return clause


def _quality(draw: Draw, good: bool) -> en.Word:
    return en.adjective(draw.zipf(lex.GOOD if good else lex.BAD))


# --- the corpora of tasks -------------------------------------------------------------------------

TASKS: Mapping[str, Callable[[Draw], Iterator[tuple[Item, ...]]]] = {
    "acceptability": acceptability,
    "counterfactuals": counterfactuals,
    "entailment": entailment,
    "paraphrase": paraphrase,
    "questions": questions,
    "relatedness": relatedness,
    "rewrites": rewrites,
    "sentiment": sentiment,
}
