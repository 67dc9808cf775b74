"""Answers as spans of a passage of any length, with scores, from a model's task head.

    answer_spans(model, [pair_of(question, passage)])[0].spans[0].text

A passage that a model cannot read at once is read in windows that overlap, each after the whole
question. The score of a span is the logit of its start plus that of its end, in the window where
this is highest; logits compare between windows, probabilities within one do not. The score of no
answer is the lowest one of all windows, as for SQuAD 2.0 in BERT: a passage has no answer if none
of its windows has one. Costs: a forward pass for each window.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.core.arrays import Floats
from workbench.corpora.counterfactuals import alone
from workbench.corpora.encode import encode
from workbench.corpora.text_prediction import pair_of, require_texts
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.models.output_heads.task_heads import LONGEST, NOWHERE, TaskHead, segments_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

OVERLAP = 0.5  # share of a window's words that the next one reads again
CHUNK = 32  # windows in a forward pass


@dataclass(frozen=True)
class AnswerSpan:
    """A span of the passage, as a range of its characters; without text: no answer."""

    text: str
    start: int
    end: int
    score: float  # logit of the start plus that of the end
    probability: float  # of the start times that of the end, in the window with this score


@dataclass(frozen=True)
class AnswerSpans:
    """The most probable answers to a question."""

    spans: tuple[AnswerSpan, ...]  # the best ones, best first
    none: AnswerSpan  # no answer
    windows: int
    is_question_cut: bool  # the question alone is too long for the model

    @property
    def margin(self) -> float:
        """The score of no answer above that of the best span; infinite without a span."""
        return self.none.score - self.spans[0].score if self.spans else np.inf

    def decided(self, threshold: float | None = 0.0) -> AnswerSpan:
        """The best span, or no answer if its margin is above a threshold; None: always a span."""
        if not self.spans or (threshold is not None and self.margin > threshold):
            return self.none
        return self.spans[0]

    @property
    def ranked(self) -> tuple[AnswerSpan, ...]:
        """The best spans and no answer, best first."""
        return tuple(sorted((*self.spans, self.none), key=lambda span: -span.score))


class SpanScores:
    """Scores of all spans of one passage, by first word and number of words.

    `spans` is [words, LONGEST]: [first word, words after it], -inf for what is no span.
    """

    def __init__(self, words: int) -> None:
        self.spans = np.full((words, LONGEST), -np.inf)
        self.probabilities = np.zeros((words, LONGEST))
        self.none, self.none_probability = np.inf, 0.0
        self.windows, self.is_question_cut = 0, False

    def add(self, logits: Floats, start: int) -> None:
        """Add a window from a word of the passage on.  # [2, words + 1], the last: no answer"""
        starts, ends = logits
        log_z = np.logaddexp.reduce(logits, axis=1).sum()
        for more in range(min(LONGEST, len(starts) - 1)):
            sums = starts[: len(starts) - 1 - more] + ends[more:-1]
            rows = slice(start, start + len(sums))
            better = (sums > self.spans[rows, more]) & (sums > NOWHERE / 2)
            self.spans[rows, more][better] = sums[better]
            self.probabilities[rows, more][better] = np.exp(sums[better] - log_z)
        if (none := starts[-1] + ends[-1]) < self.none:
            self.none, self.none_probability = float(none), float(np.exp(none - log_z))
        self.windows += 1

    def best(self, passage: Any, top: int) -> AnswerSpans:
        """The best spans of a passage.  # a Span of spaCy"""
        order = np.argsort(-self.spans, axis=None, kind="stable")[:top]
        found = []
        for first, more in zip(*np.unravel_index(order, self.spans.shape), strict=True):
            if np.isfinite(score := float(self.spans[first, more])):
                span = passage[int(first) : int(first + more + 1)]
                at = span.start_char - passage.start_char
                probability = float(self.probabilities[first, more])
                found.append(AnswerSpan(span.text, at, at + len(span.text), score, probability))
        none = AnswerSpan("", 0, 0, self.none, self.none_probability)
        return AnswerSpans(tuple(found), none, self.windows, self.is_question_cut)


def answer_spans(
    model: Model,
    docs: "Sequence[Doc]",
    *,
    top: int = 20,
    window: int | None = None,
    overlap: float = OVERLAP,
    on_done: Callable[[int], object] | None = None,
) -> list[AnswerSpans]:
    """The best spans of the second text of each pair, as answers to its first text.

    A window has at most `window` words of the passage (default: all that the model reads with the
    question). `on_done` gets the number of passages that are read to their end.
    """
    scores = span_scores(model, docs, window=window, overlap=overlap, on_done=on_done)
    passages = [doc.spans["segments"][1] for doc in docs]
    return [each.best(passage, top) for each, passage in zip(scores, passages, strict=True)]


@torch.no_grad()
def span_scores(
    model: Model,
    docs: "Sequence[Doc]",
    *,
    window: int | None = None,
    overlap: float = OVERLAP,
    on_done: Callable[[int], object] | None = None,
) -> list[SpanScores]:
    """The scores of all spans of the second text of each pair, as for `answer_spans`."""
    head: TaskHead = model.task_head
    for doc in docs:
        require_texts(head.task, doc, model.name)
    parts = [doc.spans["segments"] for doc in docs]
    scores = [SpanScores(len(passage)) for _, passage in parts]
    waiting, done = [(index, 0) for index in range(len(docs))], 0
    while waiting:
        later = []
        for chunk in chunks(waiting, CHUNK):
            windows = [_window(parts[index], start, window) for index, start in chunk]
            batch = encode(windows)
            text = model.encode(batch)
            known = replace(text, unaligned=(), cut=()).to(model.device)
            read = head.read(model, known, segments_of(batch))
            logits = head(read).double().cpu().numpy()  # [windows, 2, words + 1]
            for row, (index, start) in enumerate(chunk):
                first, last = len(parts[index][0]), len(windows[row])
                cuts = [at for cut_row, at, _ in text.cut if cut_row == row]
                scores[index].is_question_cut |= any(at < first for at in cuts)
                end = start + min((at for at in cuts if at >= first), default=last) - first
                own = [*range(first, min(last, logits.shape[-1] - 1)), -1]
                scores[index].add(logits[row][:, own], start)
                if end < len(parts[index][1]):
                    later.append((index, max(start + 1, end - int(overlap * (end - start)))))
                else:
                    done += 1
            if on_done is not None:
                on_done(done)
        waiting = later
    return scores


def _window(parts: Any, start: int, words: int | None) -> "Doc":
    """The question, and a passage from one of its words on."""
    question, passage = parts
    end = len(passage) if words is None else start + words
    return pair_of(alone(question), alone(passage[start:end]))
