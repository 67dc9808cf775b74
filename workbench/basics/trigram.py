"""A trigram model, the baseline that a language model must beat: interpolated Kneser-Ney.

It counts pieces as the model's own tokenizer makes them, so that its perplexity stands beside the
model's. It also fills a gap from both sides, as a masked model does: the piece that makes the three
trigrams over it likeliest. Costs a pass over the text, two matrices of the vocabulary's square, and
for a gap a few operations on one row of the vocabulary.
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

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Inputs, Progress, Result, Settings, few_sentences
from workbench.core.stats import interval, p_value, resampled
from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import PIECES, chunks
from workbench.engine.model import Model
from workbench.models.lm_losses import candidates, hidden_spans
from workbench.models.lm_scoring import PSEUDO, losses_of, score
from workbench.models.references import Pseudo
from workbench.models.word_models import words_of

DISCOUNT = 0.75  # taken off every count, and given to what the shorter context says
LARGEST = 20_000  # pieces in the vocabulary, for the matrices must fit into memory

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Trigram:
    """What was counted; sequences begin with two of `begin`, and end with one `end`."""

    begin: int
    end: int
    single: Floats  # [vocabulary], p(w) from the kinds of contexts it continues
    continued: NDArray[np.float32]  # [vocabulary, vocabulary], kinds of contexts before (b, c)
    pairs: NDArray[np.float32]  # [vocabulary, vocabulary], count of (a, b) before anything
    kinds: NDArray[np.float32]  # [vocabulary, vocabulary], kinds of pieces after (a, b)
    after: dict[tuple[int, int], dict[int, int]]  # (a, b) -> c -> count
    between: dict[tuple[int, int], dict[int, int]]  # (a, c) -> b -> count

    @property
    def vocabulary(self) -> int:
        return len(self.single)

    def double(self, before: int) -> Floats:
        """p(w | before) for every w.  # [vocabulary]"""
        row = self.continued[before].astype(np.float64)
        total = row.sum()
        if total == 0:
            return self.single
        shared = DISCOUNT * np.count_nonzero(row) / total
        found: Floats = np.maximum(row - DISCOUNT, 0) / total + shared * self.single
        return found

    def given(self, first: int, second: int) -> Floats:
        """p(w | first, second) for every w.  # [vocabulary]"""
        shorter = self.double(second)
        counts = self.after.get((first, second))
        if not counts:
            return shorter
        total = sum(counts.values())
        found: Floats = DISCOUNT * len(counts) / total * shorter
        found[list(counts)] += (np.array(list(counts.values())) - DISCOUNT) / total
        return found

    def filling(self, before: Sequence[int], after: Sequence[int]) -> Floats:
        """log p of every piece for a gap, up to a constant; two pieces known on either side.

        `after` may be shorter, where what follows is not known.  # [vocabulary]
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
            found: Floats = np.where(total > 0, (seen + shared * shorter) / total, shorter)
        return found

    def _into(self, middle: int, last: int) -> Floats:
        """p(last | w, middle) for every w."""
        total = self.pairs[:, middle].astype(np.float64)
        shared = DISCOUNT * self.kinds[:, middle]
        shorter = float(self.double(middle)[last])
        seen = np.zeros(self.vocabulary)
        for w, count in self._before(middle, last).items():
            seen[w] = count - DISCOUNT
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = np.where(total > 0, (seen + shared * shorter) / total, shorter)
        return found

    def _before(self, middle: int, last: int) -> dict[int, int]:
        firsts = np.flatnonzero(self.pairs[:, middle])
        found = {}
        for first in firsts.tolist():
            if count := self.after[first, middle].get(last):
                found[first] = count
        return found

    def _after_each(self, last: int) -> Floats:
        """p(last | w) for every w, of the shorter context."""
        row = self.continued[:, last].astype(np.float64)
        totals, kinds = self._totals
        with np.errstate(divide="ignore", invalid="ignore"):
            known = np.maximum(row - DISCOUNT, 0) / totals
            known += DISCOUNT * kinds / totals * self.single[last]
        found: Floats = np.where(totals > 0, known, self.single[last])
        return found

    @cached_property
    def _totals(self) -> tuple[Floats, Floats]:
        return (
            self.continued.sum(1, dtype=np.float64),
            np.count_nonzero(self.continued, axis=1).astype(np.float64),
        )


def counted(sequences: Iterable[Sequence[int]], vocabulary: int) -> Trigram:
    """Count the trigrams of sequences of pieces, with their beginnings and ends."""
    if vocabulary > LARGEST:
        raise WorkbenchError(
            f"a vocabulary of {vocabulary:,} is too large for the trigram baseline.",
            remedy=f"It takes at most {LARGEST:,} pieces.",
        )
    begin, end, size = vocabulary, vocabulary + 1, vocabulary + 2
    after: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for sequence in sequences:
        whole = [begin, begin, *sequence, end]
        for a, b, c in zip(whole, whole[1:], whole[2:], strict=False):
            counts = after[a, b]
            counts[c] = counts.get(c, 0) + 1
    if not after:
        raise WorkbenchError("there is no text to count.", remedy="Give a text with words.")
    continued = np.zeros((size, size), dtype=np.float32)
    pairs, kinds = np.zeros_like(continued), np.zeros_like(continued)
    between: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for (a, b), counts in after.items():
        pairs[a, b], kinds[a, b] = sum(counts.values()), len(counts)
        for c, count in counts.items():
            continued[b, c] += 1
            between[a, c][b] = count
    contexts = np.count_nonzero(continued, axis=0).astype(np.float64)  # [vocabulary]
    flat = (contexts + 1) / (contexts.sum() + size)  # what was never seen has a little
    return Trigram(begin, end, flat, continued, pairs, kinds, dict(after), dict(between))


def nats(model: Trigram, sequence: Sequence[int]) -> Floats:
    """−log p of each piece of a sequence, and of its end.  # [pieces + 1]"""
    whole = [model.begin, model.begin, *sequence, model.end]
    return -np.log(
        [model.given(a, b)[c] for a, b, c in zip(whole, whole[1:], whole[2:], strict=False)]
    )


# --- the experiment: a model compared with the trigram model --------------------------------------
#
# How much better a model predicts than a trigram model of the same pieces, the least it must
# beat.
#
# The trigrams are counted on the corpus' training split, in the model's own pieces (ELMo's
# words), and asked the same questions: the next piece; each piece hidden in turn, with what
# stands on both sides; or the pieces of hidden spans, one after another, with what has been
# written and what is known behind. Costs a pass over the training split by the tokenizer alone,
# and of the model what `workbench.models.lm_scoring` says of its objective.

CHUNK = 100  # documents between two progress callbacks
LEVEL = 0.05  # of a p-value
Ints = NDArray[np.int64]


class _Sums:
    """What one of the two made of the pieces of each document: nats, right guesses, pieces."""

    def __init__(self, documents: int) -> None:
        self.each = np.zeros((documents, 3))

    def add(self, document: int, nats: float, right: float, pieces: float) -> None:
        self.each[document] += nats, right, pieces

    def add_chances(self, document: int, log_chances: Floats, gold: int) -> None:
        """One piece more, by the log-chances of all.  # [vocabulary], up to a constant"""
        highest = float(log_chances.max())
        total = highest + math.log(float(np.exp(log_chances - highest).sum()))
        right = int(log_chances.argmax() == gold)
        self.add(document, total - float(log_chances[gold]), right, 1)


class _Both(NamedTuple):
    model: _Sums
    trigram: _Sums


def run(inputs: Inputs, settings: Settings, progress: Progress) -> Result:
    """Count, then ask both."""
    model = inputs.model
    if "train" not in inputs.corpus.splits:
        raise WorkbenchError(
            "trigrams are counted on a training split, and the corpus has none.",
            where=inputs.corpus.name,
            remedy="Name a corpus with train and test splits, such as primer.",
        )
    progress(0, None, "counting trigrams")
    trained = encode(inputs.corpus.docs("train"))
    batch = encode(inputs.docs())
    found = _Both(_Sums(len(batch)), _Sums(len(batch)))
    ask = _asking(model, trained, batch, inputs.seed)
    for documents in chunks(range(len(batch)), CHUNK):
        ask(documents, found)
        progress(documents[-1] + 1, len(batch), "documents")
    if not found.model.each[:, 2].any():
        raise WorkbenchError("there is nothing to predict.", remedy="Give a text with words.")
    columns = ["measure", "model", "trigram", "n", "gain", "lower", "upper", "p", "better"]
    table = pd.DataFrame(_rows(found, inputs.seed), columns=columns)
    texts = (_HOW[model.objective], *few_sentences(len(batch)))
    return Result({"scores": table}, caveats=tuple(Caveat(text, ("scores",)) for text in texts))


def _rows(found: _Both, seed: int) -> Iterator[tuple[object, ...]]:
    nats, right = (
        tuple(float(own.each[:, column].sum()) for own in found) for column in (0, 1)
    )  # of the model, of the trigrams
    n = int(found.model.each[:, 2].sum())
    pieces = found.model.each[:, 2]
    gains = np.stack(
        [
            found.model.each[:, 1] - found.trigram.each[:, 1],
            found.trigram.each[:, 0] - found.model.each[:, 0],
        ]
    )  # [measures, documents]
    counts = np.stack([gains, np.broadcast_to(pieces, gains.shape)], axis=-1)[:, None]
    draws = resampled(counts, lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1), seed)
    lower, upper = interval(draws)  # [measures]
    p = np.minimum(1, 2 * p_value(draws))  # of two measures
    values = [side / n for side in right], [math.exp(min(side / n, 700)) for side in nats]
    for place, (measure, each) in enumerate(zip(("accuracy", "perplexity"), values, strict=True)):
        gain = float(gains[place].sum() / n)
        own = (gain, float(lower[place]), float(upper[place]), float(p[place]))
        yield measure, *each, n, *own, bool(gain > 0 and lower[place] > 0 and p[place] < LEVEL)


# --- one question after another -------------------------------------------------------------------

Ask = Callable[[Sequence[int], _Both], None]
Places = Iterator[tuple[int, int]]  # a piece of a text, and how many behind it are known


def _asking(model: Model, trained: Batch, batch: Batch, seed: int) -> Ask:
    """What asks both about some documents of a batch."""
    if model.objective == "bidirectional":
        return _of_words(model, trained, batch)
    seen, asked = _numbered(*(_pieces(model, each) for each in (trained, batch)))
    trigram = counted(seen, len(set(chain(*seen, *asked))))
    known = model.symbols
    in_spans = model.objective == "seq2seq" and bool(known.sentinels)
    pseudo: Pseudo | None = "original" if model.objective in PSEUDO and not in_spans else None

    # pieces at the beginning of a text that a causal model has no context for: none, or one
    first = int(not model.encode(trained, [0]).special[0, 0])

    def ask(documents: Sequence[int], found: _Both) -> None:
        for losses in losses_of(model, batch, documents, pseudo=pseudo, seed=seed):
            scored = losses.scored & ~losses.text.special if in_spans else losses.scored
            sums = ((losses.nats * scored).double(), losses.right & scored, scored)
            rows = zip(
                losses.text.order.tolist(), *(each.sum(1).tolist() for each in sums), strict=True
            )
            for document, *own in rows:
                found.model.add(document, *own)
        for order in documents:
            row = asked[order]
            if in_spans:
                places = _in_spans(*hidden_spans(len(row), order, known, seed))
            elif pseudo:
                places = ((at, 2) for at in range(len(row)))
            else:
                places = ((at, 0) for at in range(first, len(row)))
            _ask_trigram(trigram, row, places, found.trigram, order)

    return ask


def _ask_trigram(
    trigram: Trigram, row: Sequence[int], places: Places, sums: _Sums, document: int
) -> None:
    whole = [trigram.begin, trigram.begin, *row, trigram.end]
    for at, behind in places:
        known = whole[at + 3 : at + 3 + behind]
        sums.add_chances(document, trigram.filling(whole[at : at + 2], known), whole[at + 2])


def _in_spans(begins: Ints, ends: Ints) -> Places:
    """The pieces of hidden spans; only the last of a span knows what is behind it."""
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        for at in range(begin, end):
            yield at, 2 if at == end - 1 else 0


def _numbered(*parts: list[list[int]]) -> list[list[list[int]]]:
    """The same with pieces counted from 0, those alone that occur: a large vocabulary is mostly
    of pieces that do not."""
    numbers = {
        piece: n for n, piece in enumerate(sorted({p for rows in parts for p in chain(*rows)}))
    }
    return [[[numbers[piece] for piece in row] for row in rows] for rows in parts]


def _pieces(model: Model, batch: Batch) -> list[list[int]]:
    """Each document's own pieces, without special ones."""
    rows: list[list[int]] = []
    for documents in chunks(range(len(batch)), CHUNK):
        text = model.encode(batch, documents)
        both = zip(text.ids, candidates(text), strict=True)
        rows += [ids[mask].tolist() for ids, mask in both]
    return rows


def _of_words(model: Model, trained: Batch, batch: Batch) -> Ask:
    """Both directions of whole words, each with the boundary that ends it."""
    numbers, unknown = model.vocabulary, model.symbols.unknown
    assert unknown is not None, "a softmax over words has one for those that it lacks"

    def numbered(words: Sequence[str]) -> list[int]:
        return [numbers.get(word, unknown) for word in words]

    rows = [numbered(words_of(trained, document)) for document in range(len(trained))]
    trigrams = [counted(some, len(numbers)) for some in (rows, [row[::-1] for row in rows])]

    def ask(documents: Sequence[int], found: _Both) -> None:
        sentences = [words_of(batch, document) for document in documents]
        scored = score(model, batch, documents, pieces=PIECES["cpu"])
        for document, nats, right, number in zip(
            documents, scored.nats, scored.right, scored.pieces, strict=True
        ):
            found.model.add(document, 2 * nats, right, 2 * number)
        for document, row in zip(documents, map(numbered, sentences), strict=True):
            for trigram, ordered in zip(trigrams, (row, row[::-1]), strict=True):
                places = ((at, 0) for at in range(len(row) + 1))
                _ask_trigram(trigram, [*ordered, trigram.end], places, found.trigram, document)

    return ask


# --- what to know ---------------------------------------------------------------------------------

_HOW = {
    "causal": "Each piece is predicted from those before it.",
    "bidirectional": "Each word, and the end of a sentence, is predicted from those before it and, "
    "by a second model of trigrams, from those behind it; measures are of both together.",
    "masked": "Each piece is hidden alone in turn (pseudo-likelihood, original); the trigram model "
    "fills it from two on either side.",
    "seq2seq": "Pieces of hidden spans (without sentinels, each piece alone in turn); the trigram "
    "model sees what is written before, and two more behind a span's last.",
}
