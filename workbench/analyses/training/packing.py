"""Packed sequences from a token store: contiguous tokens between the tokenizer's special tokens.

The sequences of a step depend on the seed and the step alone. So training continues from any step
bit for bit, and several processes share one order. Costs: one permutation per epoch (8 bytes per
sequence), and about 30 µs to read a sequence from the mapped file.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.training.token_store import Store
from workbench.analyses.training.vocabulary import Vocabulary
from workbench.core.errors import WorkbenchError


class Sequences(NamedTuple):
    """A batch of packed sequences, the input of objectives."""

    tokens: Tensor  # [batch, length] int64
    special: Tensor  # [batch, length] bool: special tokens, ends of documents, padding
    sentences: Tensor  # [batch, length] bool, where a sentence begins
    indices: Tensor  # [batch], index of each sequence in the store


@dataclass(frozen=True)
class Packing:
    """A store as sequences of one length, in a random order by the seed."""

    store: Store
    vocabulary: Vocabulary
    length: int  # special tokens included
    seed: int = 0

    @property
    def content(self) -> int:
        """Number of tokens of the store in a sequence."""
        return self.length - len(self.vocabulary.before) - len(self.vocabulary.after)

    def __len__(self) -> int:
        return len(self.store) // self.content

    def order(self, position: int, count: int) -> NDArray[np.int64]:
        """Indices of the sequences at these positions of an endless order, over all epochs."""
        positions = np.arange(position, position + count)
        epochs = positions // len(self)
        indices = np.empty(count, dtype=np.int64)
        for epoch in np.unique(epochs):
            in_epoch = epochs == epoch
            shuffled = _permutation(len(self), self.seed, int(epoch))
            indices[in_epoch] = shuffled[positions[in_epoch] % len(self)]
        return indices

    def batch(self, position: int, count: int) -> Sequences:
        """`count` sequences from a position of the order; `step * count` for whole steps."""
        return self.sequences(self.order(position, count))

    def sequences(self, indices: NDArray[np.int64]) -> Sequences:
        """The sequences of the store with these indices."""
        before, after = self.vocabulary.before, self.vocabulary.after
        inside = slice(len(before), len(before) + self.content)
        tokens = np.empty((len(indices), self.length), dtype=np.int64)
        tokens[:, : inside.start], tokens[:, inside.stop :] = before, after
        sentences = np.zeros((len(indices), self.length), dtype=np.bool_)
        for row, index in enumerate(indices):
            first = int(index) * self.content
            tokens[row, inside] = self.store.read(first, first + self.content)
            starts = self.store.sentence_starts(first, first + self.content)
            sentences[row, starts - first + inside.start] = True
        token_tensor = torch.from_numpy(tokens)
        special = self.vocabulary.is_special(token_tensor)
        return Sequences(
            token_tensor, special, torch.from_numpy(sentences), torch.from_numpy(indices)
        )


def pack(store: Store, vocabulary: Vocabulary, length: int, seed: int = 0) -> Packing:
    """A store as sequences of a length that includes the tokenizer's special tokens."""
    packing = Packing(store, vocabulary, length, seed)
    n_special = length - packing.content
    if packing.content < 1:
        raise WorkbenchError(
            f"sequences of {length} tokens have no room for text: {n_special} are special tokens.",
            code="setting-invalid",
            remedy=f"Set sequence_length to at least {n_special + 2}.",
        )
    if not len(packing):
        raise WorkbenchError(
            f"the text has {len(store):,} tokens, fewer than one sequence of {length:,}.",
            code="text-too-short",
            remedy=f"Give more text, or set sequence_length to at most {len(store) + n_special:,}.",
        )
    return packing


def sentence_batch(
    store: Store, vocabulary: Vocabulary, indices: NDArray[np.int64], length: int | None = None
) -> Sequences:
    """Sentences with special tokens, padded to the longest, without the store's document ends.

    Sentences longer than `length`, special tokens included, are cut.
    """
    rows = []
    max_tokens = None if length is None else length - len(vocabulary.before) - len(vocabulary.after)
    for index in indices:
        tokens = torch.from_numpy(store.sentence(int(index)))
        tokens = tokens[~vocabulary.is_special(tokens)][:max_tokens]
        rows.append(torch.tensor([*vocabulary.before, *tokens.tolist(), *vocabulary.after]))
    pad = 0 if vocabulary.pad is None else vocabulary.pad
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    sentences = torch.zeros_like(tokens, dtype=torch.bool)
    sentences[:, len(vocabulary.before)] = True
    return Sequences(tokens, vocabulary.is_special(tokens), sentences, torch.from_numpy(indices))


@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, epoch]).permutation(size)


# --- one sentence per sequence --------------------------------------------------------------------
#
# Each sequence is one sentence, next to sentences of similar length, padded to the longest.
#
# Packed sequences have no padding, but a small model with a small budget learns far sooner from
# single sentences. The sentences of a step depend on the seed and the step alone, as for packed
# sequences. Costs: a permutation per epoch, and a few percent of padding.

HELD_OUT = 2_000  # maximum number of held-out sentences
SIMILAR = 64  # sentences of similar length in a row
WINDOW = 4_096  # sentences that are sorted by length together


@dataclass(frozen=True)
class Sentences(Packing):
    """A store as single sentences, cut at `length`; the last ones are held out."""

    without: int = 0
    similar: int = SIMILAR  # sentences of similar length in a row; 1: do not sort by length

    def __len__(self) -> int:
        return self.store.manifest.sentences - self.without

    def order(self, position: int, count: int) -> NDArray[np.int64]:
        """Indices of the sentences at these positions of an endless order, epoch after epoch."""
        positions = np.arange(position, position + count)
        indices = np.empty(count, dtype=np.int64)
        for epoch in np.unique(positions // len(self)):
            in_epoch = positions // len(self) == epoch
            shuffled = _epoch_order(self.store, len(self), self.seed, int(epoch), self.similar)
            indices[in_epoch] = shuffled[positions[in_epoch] % len(self)]
        return indices

    def sequences(self, indices: NDArray[np.int64]) -> Sequences:
        """The sentences with these indices."""
        return sentence_batch(self.store, self.vocabulary, indices, self.length)


def sentences_of(
    store: Store,
    vocabulary: Vocabulary,
    length: int,
    seed: int,
    fraction: float,
    similar: int = SIMILAR,
) -> tuple[Sentences, NDArray[np.int64]]:
    """The sentences to train on, and the indices of the held-out sentences."""
    n_sentences = store.manifest.sentences
    n_held_out = min(int(np.ceil(n_sentences * fraction)), HELD_OUT) if n_sentences > 1 else 0
    return Sentences(store, vocabulary, length, seed, n_held_out, similar), np.arange(
        n_sentences - n_held_out, n_sentences
    )


@lru_cache(maxsize=2)
def _epoch_order(store: Store, size: int, seed: int, epoch: int, similar: int) -> NDArray[np.int64]:
    """An epoch's order: shuffled, sorted by length within windows, then shuffled in runs."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(size)
    if similar == 1:
        return order
    lengths = store.lengths()[order]
    for first in range(0, size, WINDOW):
        window = slice(first, first + WINDOW)
        order[window] = order[window][np.argsort(lengths[window], kind="stable")]
    runs = [order[first : first + similar] for first in range(0, size, similar)]
    return np.concatenate([runs[index] for index in rng.permutation(len(runs))])
