"""What a reader makes of questions, whatever kind of model it is, and the passages it is given.

Costs: nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from workbench.analyses.retrieval.index import probabilities
from workbench.core.arrays import Floats, Ints
from workbench.core.groups import grouped
from workbench.core.metrics import normalised
from workbench.corpora.passages import Passages, Question
from workbench.experiment.definition import Progress
from workbench.models.scoring.reading import Reader

NO_PASSAGE = -1  # index of the null passage
CHUNK = 20  # questions between two progress callbacks
OFF, RANDOM, GOLD, FIRST = "none", "random", "with the answer", "first found"
SEQUENCE, TOKEN = "RAG-sequence", "RAG-token"
SOFTMAX, SHARED = "softmax per passage", "shared softmax"
MARGINAL, AT_RANDOM, WITHOUT = "found or none", "random or none", "none, trained without"
OTHER_QUESTION = "with the answer, another question"
SWAPPED = "answer exchanged"
OTHER_SWAPPED = "answer exchanged, another question"
ENDINGS = {  # of columns, by how several passages are combined
    SEQUENCE: "sequence", TOKEN: "token", SOFTMAX: "softmax", SHARED: "shared",
    MARGINAL: "marginal",
}  # fmt: skip

Unit = Literal["nats", "probability"]


@dataclass
class Reads:
    """What a model makes of each question; the lists are [questions], in order."""

    unit: Unit  # of `values`: -log p of the right answer, or its probability
    found: Ints  # [questions, k], the passages found; `NO_PASSAGE`: none
    priors: Floats  # [questions, k]
    other: list[str]  # the exchanged answer; "": none of its kind
    gains: Sequence[tuple[str, str]]  # what is compared: nats, or exact answers
    swap_null: str  # the row of `prefers` without the exchange, or without its question
    by_passage: list[Floats] = field(default_factory=list)  # [k], log p of the right answer
    alone: list[list[str]] = field(default_factory=list)  # [k], the answer from each passage alone
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    # by passage: whether the other answer is preferred, and log p (other) - log p (right); NaN
    # without another answer
    prefers: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    odds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    reader: Reader | None = None  # of a model that writes

    def add(self, read: str, value: float, answer: str) -> None:
        """The right answer's value and the answer given, by what was read."""
        self.values[read].append(value)
        self.answers[read].append(answer)

    def add_odds(self, passage: str, odds: float) -> None:
        """log p (other) - log p (right) with a passage."""
        self.odds[passage].append(odds)
        self.prefers[passage].append(float(odds > 0) if np.isfinite(odds) else np.nan)


def exchanged(
    corpus: Passages, questions: Sequence[Question], random: np.random.Generator
) -> list[str]:
    """For each question another answer of its kind that is not in its passage; "" if none is."""
    kinds = grouped((question.kind, question.answer) for question in corpus.questions)
    pools = {kind: list(dict.fromkeys(answers)) for kind, answers in kinds.items()}
    found = []
    for question in questions:
        pool, passage = pools[question.kind], set(normalised(corpus.texts[question.passage]))
        order = random.permutation(len(pool))
        fitting = (pool[n] for n in order if not passage & set(normalised(pool[n])))
        found.append(next(fitting, ""))
    return found


def another(question: Question, passages: int, random: np.random.Generator) -> int:
    """A random passage that is not the one with the answer."""
    return (question.passage + int(random.integers(1, passages))) % passages


def in_chunks(total: int, progress: Progress) -> Iterator[range]:
    """Questions, some at a time, with the progress of reading them."""
    for start in range(0, total, CHUNK):
        rows = range(start, min(start + CHUNK, total))
        yield rows
        progress(rows[-1] + 1, total, "reading passages and answering")


def posteriors(log_prior: Floats, logs: Floats) -> Floats:
    """The share of each passage in the answer's probability; 0 if none has it.  # [k] each"""
    joint = log_prior + logs
    return probabilities(joint) if np.isfinite(joint).any() else np.zeros(len(joint))
