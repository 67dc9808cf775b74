"""Sequences out of a store: contiguous tokens, framed as the tokenizer frames a text, none wasted.

Which sequences come at which step follows from the seed and the step alone, so a trainer goes on
from any step bit for bit, several processes take their parts of the same order, and nothing of the
order is kept but one permutation an epoch: 8 bytes a sequence, drawn when it is first needed. A
sequence is read from the mapped file when its turn comes, in some 30 µs.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.training.token_store import Store
from workbench.training.vocabulary import Vocabulary


class Sequences(NamedTuple):
    """A batch of packed sequences, as objectives take it."""

    tokens: Tensor  # [batch, length] int64
    special: Tensor  # [batch, length] bool: frame, ends of documents, padding
    sentences: Tensor  # [batch, length] bool, where a sentence begins
    number: Tensor  # [batch], which sequence of the store each is


@dataclass(frozen=True)
class Packing:
    """A store as sequences of one length; `order` of them is drawn from the seed."""

    store: Store
    vocabulary: Vocabulary
    length: int  # frame included
    seed: int = 0

    @property
    def content(self) -> int:
        """Tokens of the store in a sequence."""
        return self.length - len(self.vocabulary.before) - len(self.vocabulary.after)

    def __len__(self) -> int:
        return len(self.store) // self.content

    def order(self, position: int, count: int) -> NDArray[np.int64]:
        """Which sequences stand at these positions of an endless order, epoch after epoch."""
        places = np.arange(position, position + count)
        epochs = places // len(self)
        found = np.empty(count, dtype=np.int64)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            shuffled = _permutation(len(self), self.seed, int(epoch))
            found[here] = shuffled[places[here] % len(self)]
        return found

    def batch(self, position: int, count: int) -> Sequences:
        """So many sequences from a position of the order on: `step * count` for whole steps."""
        return self.sequences(self.order(position, count))

    def sequences(self, index: NDArray[np.int64]) -> Sequences:
        """These sequences of the store."""
        before, after = self.vocabulary.before, self.vocabulary.after
        inside = slice(len(before), len(before) + self.content)
        tokens = np.empty((len(index), self.length), dtype=np.int64)
        tokens[:, : inside.start], tokens[:, inside.stop :] = before, after
        sentences = np.zeros((len(index), self.length), dtype=np.bool_)
        for row, number in enumerate(index):
            first = int(number) * self.content
            tokens[row, inside] = self.store.read(first, first + self.content)
            starts = self.store.sentence_starts(first, first + self.content)
            sentences[row, starts - first + inside.start] = True
        found = torch.from_numpy(tokens)
        special = self.vocabulary.is_special(found)
        return Sequences(found, special, torch.from_numpy(sentences), torch.from_numpy(index))


def pack(store: Store, vocabulary: Vocabulary, length: int, seed: int = 0) -> Packing:
    """A store in sequences of a length, with what the tokenizer puts around a text counted in."""
    packing = Packing(store, vocabulary, length, seed)
    frame = length - packing.content
    if packing.content < 1:
        raise WorkbenchError(
            f"sequences of {length} tokens have no room beside the {frame} that frame a text.",
            remedy=f"Ask for at least {frame + 2}.",
        )
    if not len(packing):
        raise WorkbenchError(
            f"the text has {len(store):,} tokens, fewer than one sequence of {length:,}.",
            where=str(store.folder),
            remedy=f"Give more text, or ask for sequences of at most {len(store) + frame:,}.",
        )
    return packing


def sentence_batch(
    store: Store, vocabulary: Vocabulary, numbers: NDArray[np.int64], length: int | None = None
) -> Sequences:
    """Sentences, each framed and padded to the longest; the store's ends left out.

    A sentence that with its frame is beyond `length` loses its end.
    """
    rows = []
    most = None if length is None else length - len(vocabulary.before) - len(vocabulary.after)
    for number in numbers:
        tokens = torch.from_numpy(store.sentence(int(number)))
        tokens = tokens[~vocabulary.is_special(tokens)][:most]
        rows.append(torch.tensor([*vocabulary.before, *tokens.tolist(), *vocabulary.after]))
    pad = 0 if vocabulary.pad is None else vocabulary.pad
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    sentences = torch.zeros_like(tokens, dtype=torch.bool)
    sentences[:, len(vocabulary.before)] = True
    return Sequences(tokens, vocabulary.is_special(tokens), sentences, torch.from_numpy(numbers))


@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(size)


# --- where sentences begin ------------------------------------------------------------------------
#
# Sequences that are one sentence each, neighbours of about the same length, padded to the
# longest.
#
# Packed sequences waste nothing; but a small model on a small budget learns far sooner from
# sentences that stand alone. Which sentences come at which step follows from the seed and the
# step alone, as in `packing`. Costs a permutation an epoch, and padding of a few percent.

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
