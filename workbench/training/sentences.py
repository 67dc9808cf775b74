"""Sequences that are one sentence each, neighbours of about the same length, padded to the longest.

Packed sequences waste nothing; but a small model on a small budget learns far sooner from sentences
that stand alone. Which sentences come at which step follows from the seed and the step alone, as in
`packing`. Costs a permutation an epoch, and padding of a few percent.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from workbench.training.packing import Packing, Sequences, sentence_batch
from workbench.training.store import Store
from workbench.training.vocabulary import Vocabulary

HELD_OUT = 2_000  # sentences at most
ALIKE = 64
WINDOW = 4_096  # sentences among which like lengths are looked for


@dataclass(frozen=True)
class Sentences(Packing):
    """A store as whole sentences, those beyond `length` cut; the last are held out."""

    without: int = 0
    alike: int = ALIKE  # sentences of like length in a row; 1 where padding costs nothing

    def __len__(self) -> int:
        return self.store.manifest.sentences - self.without

    def order(self, position: int, count: int) -> NDArray[np.int64]:
        """Which sentences stand at these positions of an endless order, epoch after epoch."""
        places = np.arange(position, position + count)
        found = np.empty(count, dtype=np.int64)
        for epoch in np.unique(places // len(self)):
            here = places // len(self) == epoch
            drawn = _drawn(self.store, len(self), self.seed, int(epoch), self.alike)
            found[here] = drawn[places[here] % len(self)]
        return found

    def sequences(self, index: NDArray[np.int64]) -> Sequences:
        return sentence_batch(self.store, self.vocabulary, index, self.length)


def sentences_of(
    store: Store,
    vocabulary: Vocabulary,
    length: int,
    seed: int,
    share: float,
    alike: int = ALIKE,
) -> tuple[Sentences, NDArray[np.int64]]:
    """What is trained on, and the numbers of the sentences that are held out."""
    whole = store.manifest.sentences
    held = min(int(np.ceil(whole * share)), HELD_OUT) if whole > 1 else 0
    return Sentences(store, vocabulary, length, seed, held, alike), np.arange(whole - held, whole)


@lru_cache(maxsize=2)
def _drawn(store: Store, size: int, seed: int, epoch: int, alike: int) -> NDArray[np.int64]:
    """An epoch's order: drawn, sorted by length within windows, and those runs of sorted drawn."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(size)
    if alike == 1:
        return order
    lengths = store.lengths()[order]
    for first in range(0, size, WINDOW):
        window = slice(first, first + WINDOW)
        order[window] = order[window][np.argsort(lengths[window], kind="stable")]
    runs = [order[first : first + alike] for first in range(0, size, alike)]
    return np.concatenate([runs[number] for number in rng.permutation(len(runs))])
