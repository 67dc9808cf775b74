"""A trigram model with interpolated Kneser-Ney smoothing: the baseline of a language model.

It counts the pieces of the model's tokenizer, so that perplexities can be compared. It also fills a
gap from both sides, as a masked model does: with the piece that makes the three trigrams over it
most probable. Costs: a pass over the text, matrices of vocabulary times vocabulary, and for a gap a
few operations on one row of the vocabulary.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analyses.basics.experiments import AgainstTrigrams
from workbench.core.arrays import Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.stats import SIGNIFICANT, interval, p_value
from workbench.corpora.encode import encode
from workbench.corpora.splits import few_sentences_caveat
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import PIECES, chunks
from workbench.engine.model import Model
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.output_heads.lm_losses import candidates, hidden_spans
from workbench.models.references import Pseudo
from workbench.models.scoring.lm_scoring import PSEUDO, losses_of, score
from workbench.models.word_models import words_of

DISCOUNT = 0.75  # subtracted from every count, for the shorter context
MAX_VOCABULARY = 20_000  # pieces; the matrices must fit into memory


@dataclass(frozen=True)
class Trigram:
    """Counts of trigrams; sequences begin with two `begin` and end with one `end`."""

    begin: int
    end: int
    single: Floats  # [vocabulary], p(w) from the number of different contexts of w
    continued: NDArray[
        np.float32
    ]  # [vocabulary, vocabulary], number of different pieces before (b, c)
    pairs: NDArray[np.float32]  # [vocabulary, vocabulary], count of (a, b)
    kinds: NDArray[np.float32]  # [vocabulary, vocabulary], number of different pieces after (a, b)
    after: dict[tuple[int, int], dict[int, int]]  # (a, b) -> c -> count
    between: dict[tuple[int, int], dict[int, int]]  # (a, c) -> b -> count

    @property
    def vocabulary(self) -> int:
        """Number of pieces, with begin and end."""
        return len(self.single)

    def double(self, before: int) -> Floats:
        """p(w | before) for every w.  # [vocabulary]"""
        row = self.continued[before].astype(np.float64)
        total = row.sum()
        if total == 0:
            return self.single
        shared = DISCOUNT * np.count_nonzero(row) / total
        probabilities: Floats = np.maximum(row - DISCOUNT, 0) / total + shared * self.single
        return probabilities

    def given(self, first: int, second: int) -> Floats:
        """p(w | first, second) for every w.  # [vocabulary]"""
        shorter = self.double(second)
        counts = self.after.get((first, second))
        if not counts:
            return shorter
        total = sum(counts.values())
        probabilities: Floats = DISCOUNT * len(counts) / total * shorter
        probabilities[list(counts)] += (np.array(list(counts.values())) - DISCOUNT) / total
        return probabilities

    def filling(self, before: Sequence[int], after: Sequence[int]) -> Floats:
        """log p of every piece for a gap, up to a constant, from two pieces on each side.

        `after` may be shorter if the next pieces are not known.  # [vocabulary]
        """
        scores = np.log(self.given(before[-2], before[-1]))
        if after:
            scores = scores + np.log(self._through(before[-1], after[0]))
        if len(after) > 1:
            scores = scores + np.log(self._into(after[0], after[1]))
        return scores

    def _through(self, first: int, last: int) -> Floats:
        """p(last | first, w) for every w."""
        total = self.pairs[first].astype(np.float64)
        seen = np.zeros(self.vocabulary)
        for w, count in self.between.get((first, last), {}).items():
            seen[w] = count - DISCOUNT
        shared = DISCOUNT * self.kinds[first]
        shorter = self._after_each(last)
        with np.errstate(divide="ignore", invalid="ignore"):
            probabilities: Floats = np.where(total > 0, (seen + shared * shorter) / total, shorter)
        return probabilities

    def _into(self, middle: int, last: int) -> Floats:
        """p(last | w, middle) for every w."""
        total = self.pairs[:, middle].astype(np.float64)
        shared = DISCOUNT * self.kinds[:, middle]
        shorter = float(self.double(middle)[last])
        seen = np.zeros(self.vocabulary)
        for w, count in self._before(middle, last).items():
            seen[w] = count - DISCOUNT
        with np.errstate(divide="ignore", invalid="ignore"):
            probabilities: Floats = np.where(total > 0, (seen + shared * shorter) / total, shorter)
        return probabilities

    def _before(self, middle: int, last: int) -> dict[int, int]:
        """Counts of (w, middle, last) for every w that occurs."""
        firsts = np.flatnonzero(self.pairs[:, middle])
        counts = {}
        for first in firsts.tolist():
            if count := self.after[first, middle].get(last):
                counts[first] = count
        return counts

    def _after_each(self, last: int) -> Floats:
        """p(last | w) for every w: the shorter context."""
        row = self.continued[:, last].astype(np.float64)
        totals, kinds = self._totals
        with np.errstate(divide="ignore", invalid="ignore"):
            seen = np.maximum(row - DISCOUNT, 0) / totals
            seen += DISCOUNT * kinds / totals * self.single[last]
        return np.where(totals > 0, seen, self.single[last])

    @cached_property
    def _totals(self) -> tuple[Floats, Floats]:
        return (
            self.continued.sum(1, dtype=np.float64),
            np.count_nonzero(self.continued, axis=1).astype(np.float64),
        )


def count_trigrams(sequences: Iterable[Sequence[int]], vocabulary: int) -> Trigram:
    """The trigram counts of sequences of pieces, with their beginnings and ends."""
    if vocabulary > MAX_VOCABULARY:
        raise WorkbenchError(
            f"the text has {vocabulary:,} different pieces; the trigram baseline takes at most "
            f"{MAX_VOCABULARY:,}.",
            code="vocabulary-too-large",
            remedy="Choose a smaller corpus, or a model with a smaller vocabulary.",
        )
    begin, end, size = vocabulary, vocabulary + 1, vocabulary + 2
    after: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for sequence in sequences:
        whole = [begin, begin, *sequence, end]
        for a, b, c in zip(whole, whole[1:], whole[2:], strict=False):
            counts = after[a, b]
            counts[c] = counts.get(c, 0) + 1
    if not after:
        raise WorkbenchError(
            "there is no text to count.",
            code="too-few-sentences",
            remedy="Choose a corpus that has words.",
        )
    continued = np.zeros((size, size), dtype=np.float32)
    pairs, kinds = np.zeros_like(continued), np.zeros_like(continued)
    between: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for (a, b), counts in after.items():
        pairs[a, b], kinds[a, b] = sum(counts.values()), len(counts)
        for c, count in counts.items():
            continued[b, c] += 1
            between[a, c][b] = count
    contexts = np.count_nonzero(continued, axis=0).astype(np.float64)  # [vocabulary]
    flat = (contexts + 1) / (contexts.sum() + size)  # unseen pieces have a small probability
    return Trigram(begin, end, flat, continued, pairs, kinds, dict(after), dict(between))


def nats(model: Trigram, sequence: Sequence[int]) -> Floats:
    """−log p of each piece of a sequence, and of its end.  # [pieces + 1]"""
    whole = [model.begin, model.begin, *sequence, model.end]
    return -np.log(
        [model.given(a, b)[c] for a, b, c in zip(whole, whole[1:], whole[2:], strict=False)]
    )


# --- the experiment: a model compared with the trigram model --------------------------------------
#
# How much better does a model predict than a trigram model of the same pieces?
#
# Trigrams are counted on the train split of the corpus, in pieces of the model (ELMo: words). Both
# models predict the same: the next piece; each piece masked in turn, from both sides; or the pieces
# of hidden spans one after another, from the pieces before and the known pieces after them. Costs:
# a pass of the tokenizer over the train split, and the scoring (`workbench.models.scoring`).

CHUNK = 100  # documents between two progress callbacks


class _Sums:
    """Scores of one of the two models for each document: nats, correct predictions, pieces."""

    def __init__(self, documents: int) -> None:
        self.each = np.zeros((documents, 3))

    def add(self, document: int, nats: float, right: float, pieces: float) -> None:
        self.each[document] += nats, right, pieces

    def add_piece(self, document: int, scores: Floats, gold: int) -> None:
        """Add one piece, from the log-probabilities of all.  # [vocabulary], up to a constant"""
        highest = float(scores.max())
        total = highest + math.log(float(np.exp(scores - highest).sum()))
        right = int(scores.argmax() == gold)
        self.add(document, total - float(scores[gold]), right, 1)


class _Both(NamedTuple):
    model: _Sums
    trigram: _Sums


def run(inputs: Inputs, settings: AgainstTrigrams, progress: Progress) -> Result:
    """Compute the table of `trigram`."""
    model = inputs.model
    if "train" not in inputs.corpus.splits:
        raise WorkbenchError(
            "the corpus has no train split, on which trigrams are counted.",
            code="split-not-found",
            where=inputs.corpus.name,
            remedy="Choose a corpus with train and test splits, such as primer.",
        )
    progress(0, None, "counting trigrams")
    trained = encode(inputs.corpus.docs("train"))
    batch = encode(inputs.docs())
    sums = _Both(_Sums(len(batch)), _Sums(len(batch)))
    score_documents = _scorer(model, trained, batch, inputs.seed)
    for documents in chunks(range(len(batch)), CHUNK):
        score_documents(documents, sums)
        progress(documents[-1] + 1, len(batch), "scoring documents")
    if not sums.model.each[:, 2].any():
        raise WorkbenchError(
            "the texts have no piece to predict.",
            code="too-few-sentences",
            where=inputs.corpus.name,
            remedy="Choose a corpus that has words.",
        )
    columns = ["measure", "model", "trigram", "n", "gain", "lower", "upper", "p", "better"]
    table = pd.DataFrame(_rows(sums, inputs.seed), columns=columns)
    texts = (_HOW[model.objective], *few_sentences_caveat(len(batch)))
    return Result({"scores": table}, caveats=tuple(Caveat(text, ("scores",)) for text in texts))


def _rows(sums: _Both, seed: int) -> Iterator[tuple[object, ...]]:
    """One row for the accuracy and one for the perplexity."""
    nats, right = (
        tuple(float(side.each[:, column].sum()) for side in sums) for column in (0, 1)
    )  # of the model, of the trigrams
    n = int(sums.model.each[:, 2].sum())
    pieces = sums.model.each[:, 2]
    gains = np.stack(
        [
            sums.model.each[:, 1] - sums.trigram.each[:, 1],
            sums.trigram.each[:, 0] - sums.model.each[:, 0],
        ]
    )  # [measures, documents]
    sample = ClusterSample.of(np.arange(len(pieces)), seed)  # each document
    draws = np.nan_to_num(sample.ratio_draws(gains.T, pieces[:, None]))  # [measures, draws]
    lower, upper = interval(draws)  # [measures]
    p = np.minimum(1, 2 * p_value(draws))  # corrected for two measures
    values = [side / n for side in right], [math.exp(min(side / n, 700)) for side in nats]
    for index, (measure, each) in enumerate(zip(("accuracy", "perplexity"), values, strict=True)):
        gain = float(gains[index].sum() / n)
        better = bool(gain > 0 and lower[index] > 0 and p[index] < SIGNIFICANT)
        ends = float(lower[index]), float(upper[index])
        yield measure, *each, n, gain, *ends, float(p[index]), better


# --- scores of both models, some documents at a time ----------------------------------------------

Scorer = Callable[[Sequence[int], _Both], None]
Positions = Iterator[tuple[int, int]]  # index of a piece, and number of known pieces after it


def _scorer(model: Model, trained: Batch, batch: Batch, seed: int) -> Scorer:
    """A function that scores some documents of the batch with both models."""
    if model.objective == "bidirectional":
        return _of_words(model, trained, batch)
    train, scored_rows = _renumbered(*(_pieces(model, each) for each in (trained, batch)))
    trigram = count_trigrams(train, len(set(chain(*train, *scored_rows))))
    symbols = model.symbols
    in_spans = model.objective == "seq2seq" and bool(symbols.sentinels)
    pseudo: Pseudo | None = "original" if model.objective in PSEUDO and not in_spans else None

    # number of pieces at the beginning of a text without context in a causal model: 0 or 1
    first = int(not model.encode(trained, [0]).special[0, 0])

    def score_documents(documents: Sequence[int], both: _Both) -> None:
        for losses in losses_of(model, batch, documents, pseudo=pseudo, seed=seed):
            scored = losses.scored & ~losses.text.special if in_spans else losses.scored
            sums = ((losses.nats * scored).double(), losses.right & scored, scored)
            rows = zip(
                losses.text.order.tolist(), *(each.sum(1).tolist() for each in sums), strict=True
            )
            for document, *values in rows:
                both.model.add(document, *values)
        for order in documents:
            row = scored_rows[order]
            if in_spans:
                positions = _in_spans(*hidden_spans(len(row), order, symbols, seed))
            elif pseudo:
                positions = ((index, 2) for index in range(len(row)))
            else:
                positions = ((index, 0) for index in range(first, len(row)))
            _score_with_trigrams(trigram, row, positions, both.trigram, order)

    return score_documents


def _score_with_trigrams(
    trigram: Trigram, row: Sequence[int], positions: Positions, sums: _Sums, document: int
) -> None:
    """Add the trigram scores of these positions of a document."""
    whole = [trigram.begin, trigram.begin, *row, trigram.end]
    for index, n_after in positions:
        after = whole[index + 3 : index + 3 + n_after]
        before = whole[index : index + 2]
        sums.add_piece(document, trigram.filling(before, after), whole[index + 2])


def _in_spans(begins: Ints, ends: Ints) -> Positions:
    """Positions in hidden spans; only for the last one of a span the next pieces are known."""
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        for index in range(begin, end):
            yield index, 2 if index == end - 1 else 0


def _renumbered(*parts: list[list[int]]) -> list[list[list[int]]]:
    """The same pieces with new ids from 0: most pieces of a large vocabulary do not occur."""
    numbers = {
        piece: n for n, piece in enumerate(sorted({p for rows in parts for p in chain(*rows)}))
    }
    return [[[numbers[piece] for piece in row] for row in rows] for rows in parts]


def _pieces(model: Model, batch: Batch) -> list[list[int]]:
    """The pieces of each document, without special pieces."""
    rows: list[list[int]] = []
    for documents in chunks(range(len(batch)), CHUNK):
        text = model.encode(batch, documents)
        both = zip(text.ids, candidates(text), strict=True)
        rows += [ids[mask].tolist() for ids, mask in both]
    return rows


def _of_words(model: Model, trained: Batch, batch: Batch) -> Scorer:
    """A function that scores whole words in both directions, with the boundary at the end."""
    ids, unknown = model.vocabulary, model.symbols.unknown
    assert unknown is not None, "a softmax over words has an unknown word"

    def word_ids(words: Sequence[str]) -> list[int]:
        return [ids.get(word, unknown) for word in words]

    rows = [word_ids(words_of(trained, document)) for document in range(len(trained))]
    trigrams = [count_trigrams(each, len(ids)) for each in (rows, [row[::-1] for row in rows])]

    def score_documents(documents: Sequence[int], both: _Both) -> None:
        sentences = [words_of(batch, document) for document in documents]
        scored = score(model, batch, documents, pieces=PIECES["cpu"])
        for document, nats, right, number in zip(
            documents, scored.nats, scored.right, scored.pieces, strict=True
        ):
            both.model.add(document, 2 * nats, right, 2 * number)
        for document, row in zip(documents, map(word_ids, sentences), strict=True):
            for trigram, ordered in zip(trigrams, (row, row[::-1]), strict=True):
                positions = ((index, 0) for index in range(len(row) + 1))
                pieces = [*ordered, trigram.end]
                _score_with_trigrams(trigram, pieces, positions, both.trigram, document)

    return score_documents


# --- caveats --------------------------------------------------------------------------------------

_HOW = {
    "causal": "Each piece is predicted from the pieces before it.",
    "bidirectional": "Each word and the end of a sentence is predicted from the words before it "
    "and, by a second trigram model, from the words after it. Scores are over both directions.",
    "masked": "Each piece is masked alone in turn (pseudo-likelihood, original). The trigram model "
    "fills it from two pieces on each side.",
    "seq2seq": "Pieces of hidden spans are predicted (without sentinels, each piece alone in "
    "turn). The trigram model sees the pieces before, and two more after the last piece of a span.",
}
