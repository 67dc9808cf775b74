"""A trigram model, the baseline that a language model must beat: interpolated Kneser-Ney.

It counts pieces as the model's own tokenizer makes them, so that its perplexity stands beside the
model's. It also fills a gap from both sides, as a masked model does: the piece that makes the three
trigrams over it likeliest. Costs a pass over the text, two matrices of the vocabulary's square, and
for a gap a few operations on one row of the vocabulary.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workbench.errors import WorkbenchError

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
