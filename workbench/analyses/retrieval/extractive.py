"""Answers that a model finds as spans of passages, combined over passages, with controls.

The reader is a model whose task head marks answers. The score s of a span is the logit of its start
plus that of its end, as in `answer_spans`, with the passage in windows if it is long; no answer has
a score too. Equal answers (by SQuAD's rules) are one. With passages z of prior p(z | x):

    softmax per passage  p(a | x) = sum_z p(z | x) p(a | z, x),  a softmax in each passage
                         (as in REALM: Guu et al. 2020)
    shared softmax       p(a | x) = sum_z exp(log p(z | x) + s(a, z)) / (the same over all answers)
                         (Clark and Gardner 2018; with the retriever's score: Lee et al. 2019)

Each softmax is over all spans of at most 20 words, and no answer. Costs: for each question k + 5
forward passes, more for passages in windows.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax, logsumexp

from workbench.analyses.retrieval.index import Index, probabilities
from workbench.analyses.retrieval.reads import (
    FIRST,
    GOLD,
    OFF,
    OTHER_QUESTION,
    OTHER_SWAPPED,
    RANDOM,
    SHARED,
    SOFTMAX,
    SWAPPED,
    Reads,
    another,
    exchanged,
    in_chunks,
)
from workbench.core.arrays import Floats, Ints
from workbench.core.metrics import normalised
from workbench.corpora.answer_spans import SpanScores, span_scores
from workbench.corpora.encode import doc_of
from workbench.corpora.passages import Passages, Question, with_answer
from workbench.corpora.text_prediction import pair_of
from workbench.engine.model import Model
from workbench.experiment.definition import Progress

GAINS = (
    (GOLD, OTHER_QUESTION), (FIRST, RANDOM), (SOFTMAX, FIRST), (SHARED, SOFTMAX),
)  # fmt: skip
CONTROLS = (RANDOM, GOLD, OTHER_QUESTION, SWAPPED, OTHER_SWAPPED)  # each a passage read alone
KEPT = 4096  # passages whose spans are remembered


class Read(NamedTuple):
    """The scores of the answers of a passage, by their words."""

    scores: dict[str, float]  # log of the sum of exp(score) of its spans
    texts: dict[str, str]  # as written where they come first
    log_total: float  # of all of them and of no answer

    def log_p(self, answer: str) -> float:
        """log p(answer | passage, question)."""
        return self.scores.get(_key(answer), -np.inf) - self.log_total


def _key(answer: str) -> str:
    return " ".join(normalised(answer))


@lru_cache(KEPT)
def _spans(passage: str, width: int) -> tuple[dict[str, int], dict[str, str], Ints]:
    """Distinct answers of a passage, their texts, and which one each span is.

    # -> [words, width], -1 for what is no span
    """
    doc = doc_of(passage)
    codes: dict[str, int] = {}
    texts: dict[str, str] = {}
    of_span = np.full((len(doc), width), -1)
    for first in range(len(doc)):
        for more in range(min(width, len(doc) - first)):
            text = doc[first : first + more + 1].text
            key = _key(text)
            of_span[first, more] = codes.setdefault(key, len(codes))
            texts.setdefault(key, text)
    return codes, texts, of_span


def answers_of(passage: str, scores: SpanScores) -> Read:
    """The scores of the answers of a passage."""
    codes, texts, of_span = _spans(passage, scores.spans.shape[1])
    sums = np.full(len(codes), -np.inf)  # [answers]
    known = of_span >= 0
    np.logaddexp.at(sums, of_span[known], scores.spans[known])
    total = float(np.logaddexp(logsumexp(sums), scores.none)) if len(sums) else 0.0
    return Read(dict(zip(codes, sums.tolist(), strict=True)), texts, total)


def per_passage(log_prior: Floats, reads: Sequence[Read]) -> dict[str, float]:
    """log p(a | x) of each answer, with a softmax in each passage.  # [passages] twice"""
    return _summed([prior - read.log_total for prior, read in zip(log_prior, reads, strict=True)],
                   reads)  # fmt: skip


def shared(log_prior: Floats, reads: Sequence[Read]) -> dict[str, float]:
    """log p(a | x) of each answer, with one softmax over all passages.  # [passages] twice"""
    total = float(logsumexp(log_prior + np.array([read.log_total for read in reads])))
    return _summed((log_prior - total).tolist(), reads)


def _summed(shifts: Sequence[float], reads: Sequence[Read]) -> dict[str, float]:
    found: dict[str, float] = {}
    for shift, read in zip(shifts, reads, strict=True):
        for key, score in read.scores.items():
            found[key] = float(np.logaddexp(found.get(key, -np.inf), score + shift))
    return found


def best(answers: dict[str, float], reads: Sequence[Read]) -> str:
    """The most probable answer, as written in the first passage that has it; "" without any."""
    if not answers:
        return ""
    key = max(answers, key=lambda each: answers[each])
    return next(read.texts[key] for read in reads if key in read.texts)


def read(
    model: Model,
    corpus: Passages,
    questions: Sequence[Question],
    index: Index,
    k: int,
    seed: int,
    progress: Progress,
) -> Reads:
    """Every question with every kind of passage."""
    texts = corpus.texts
    found, scores = index.top([question.text for question in questions], min(k, len(texts)))
    random = np.random.default_rng([seed, len(questions), len(texts)])
    others = exchanged(corpus, questions, random)
    reads = Reads("probability", found, probabilities(scores), others, GAINS, OTHER_SWAPPED)
    log_priors = log_softmax(scores, axis=-1)
    for rows in in_chunks(len(questions), progress):
        asked: list[tuple[str, str]] = []  # questions with their passages
        for row in rows:
            own, other = questions[row], others[row]
            gold, wrong = texts[own.passage], _another_question(questions, row, random)
            swapped = with_answer(gold, own.answer, other) if other else gold
            asked += [(own.shown, texts[another(own, len(texts), random)]), (own.shown, gold)]
            asked += [(wrong, gold), (own.shown, swapped), (wrong, swapped)]
            asked += [(own.shown, texts[passage]) for passage in found[row]]
        whole = _read(model, asked)
        width = len(whole) // len(rows)
        for n, row in enumerate(rows):
            _add(reads, questions[row], whole[n * width : (n + 1) * width], log_priors[row])
    return reads


def _read(model: Model, asked: Sequence[tuple[str, str]]) -> list[Read]:
    docs = [pair_of(doc_of(question), doc_of(passage)) for question, passage in asked]
    scores = span_scores(model, docs)
    return [answers_of(passage, each) for (_, passage), each in zip(asked, scores, strict=True)]


def _another_question(questions: Sequence[Question], row: int, random: np.random.Generator) -> str:
    """A random question with another answer; the same one if there is none."""
    own = _key(questions[row].answer)
    order = random.permutation(len(questions))
    fitting = (questions[n].shown for n in order if _key(questions[n].answer) != own)
    return next(fitting, questions[row].shown)


def _add(reads: Reads, question: Question, own: Sequence[Read], log_prior: Floats) -> None:
    """Add what was read for a question: the controls, then the passages found."""
    controls = dict(zip(CONTROLS, own, strict=False))
    found = own[len(CONTROLS) :]
    other = reads.other[len(reads.alone)]
    reads.add(OFF, 0.0, "")
    for name in (RANDOM, GOLD, OTHER_QUESTION):
        read = controls[name]
        reads.add(name, float(np.exp(read.log_p(question.answer))), best(read.scores, [read]))
    reads.by_passage.append(np.array([read.log_p(question.answer) for read in found]))
    reads.alone.append([best(read.scores, [read]) for read in found])
    reads.add(FIRST, float(np.exp(reads.by_passage[-1][0])), reads.alone[-1][0])
    for name, combined in (
        (SOFTMAX, per_passage(log_prior, found)), (SHARED, shared(log_prior, found)),
    ):  # fmt: skip
        value = np.exp(combined.get(_key(question.answer), -np.inf))
        reads.add(name, float(value), best(combined, found))
    for name in (GOLD, SWAPPED, OTHER_SWAPPED):
        said = _key(best(controls[name].scores, [controls[name]]))
        reads.prefers[name].append(float(said == _key(other)) if other else np.nan)
