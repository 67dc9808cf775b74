"""From pieces to words: word states from piece states, and word maps from piece maps.

A word's state is the mean of its pieces' states. In a map, the row of an attending word is the mean
of its pieces' rows, and the column of an attended word the sum of its pieces' columns, so rows
still sum to one. Costs: one pass over the states, and about four over a map. Pieces are gathered
and added, because a product with a word-piece matrix grows with the cube of a text's length.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from workbench.engine.batch import Pieces


def max_words(text: Pieces) -> int:
    """The largest number of words in a row."""
    return int(text.word_counts.max()) if len(text) else 0


# --- states ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Computes word states from piece states; the index tensors serve all layers of a batch.

    Deterministic on a GPU too: there `scatter_add_` adds in any order, so means are matrix
    products.
    """

    index: Tensor  # [batch, pieces], the word of each piece; `words` for a piece without a word
    counts: Tensor  # [batch, words + 1], number of pieces of each word
    shares: Tensor | None  # [batch, words + 1, pieces], on a GPU

    @classmethod
    def of(cls, text: Pieces) -> Self:
        batch, words, device = len(text.words), max_words(text), text.words.device
        index = torch.where(text.words >= 0, text.words, words)
        counts = torch.zeros(batch, words + 1, device=device)
        counts.scatter_add_(1, index, torch.ones_like(index, dtype=counts.dtype))
        if device.type == "cpu":
            return cls(index, counts, None)
        is_owned = index[:, None] == torch.arange(words + 1, device=device)[:, None]
        return cls(index, counts, is_owned / counts.clamp(min=1)[..., None])

    def __call__(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Word states in float32, and the mask of words with a piece.

        # [batch, pieces, width] -> [batch, words, width], [batch, words]
        """
        width = states.shape[-1]
        if self.shares is not None:
            means = self.shares @ states.float()
        else:
            sums = torch.zeros(*self.counts.shape, width)
            sums.scatter_add_(1, self.index[..., None].expand(-1, -1, width), states.float())
            means = sums / self.counts.clamp(min=1)[..., None]
        has_piece = self.counts[:, :-1] > 0
        return means[:, :-1] * has_piece[..., None], has_piece


def by_word(states: Tensor, text: Pieces) -> tuple[Tensor, Tensor]:
    """Word states of one layer; see `Pool`."""
    return Pool.of(text)(states)


# --- maps -----------------------------------------------------------------------------------------


def owners(text: Pieces) -> Tensor:
    """The mask of pieces of each word.  # [batch, words, pieces], bool"""
    indices = torch.arange(max(1, max_words(text)), device=text.words.device)
    return text.words[:, None, :] == indices[None, :, None]


def piece_shares(text: Pieces) -> Tensor:
    """1 over the number of pieces of each piece's word; 0 without a word.  # [batch, pieces]"""
    mask = owners(text).float()
    return (mask / mask.sum(-1, keepdim=True).clamp(min=1)).sum(1)


@dataclass(frozen=True)
class PieceGroups:
    """The pieces of each word, or of each other item, on one side of a map."""

    first: Tensor  # [batch, n], first piece of each item; 0 without a piece
    count: Tensor  # [batch, n], number of pieces of each item
    further: Tensor  # [3, further pieces of all items]: text, item and piece
    more: Tensor  # [batch, most], the further pieces of each text, padded with 0
    whose: Tensor  # [batch, most], the item of each further piece
    real: Tensor  # [batch, most], mask without padding
    is_plain: bool  # every item has exactly one piece

    @classmethod
    def of(cls, mask: Tensor) -> Self:
        """From the mask of pieces of each item.  # [batch, n, pieces], bool"""
        count = mask.sum(-1)
        further = mask & (mask.cumsum(-1) > 1)  # [batch, n, pieces]
        row, item, piece = torch.nonzero(further, as_tuple=True)
        counts = further.sum((1, 2))  # [batch]
        most = int(counts.max()) if len(counts) else 0
        position = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
        more, whose = (count.new_zeros(len(mask), most) for _ in range(2))
        more[row, position], whose[row, position] = piece, item
        real = torch.arange(most, device=row.device) < counts[:, None]
        first, is_plain = mask.int().argmax(-1), bool((count == 1).all())
        return cls(first, count, torch.stack([row, item, piece]), more, whose, real, is_plain)


def merged(maps: Tensor, attending: PieceGroups, attended: PieceGroups) -> Tensor:
    """Word maps from piece maps: mean over attending pieces, sum over attended pieces.

    [batch, heads, queries, keys] -> [batch, heads, words, columns]
    """
    batch, heads, queries, keys = maps.shape
    words, columns = attending.count.shape[1], attended.count.shape[1]
    indices = torch.arange(batch * heads, device=maps.device)[:, None]
    flat = maps.reshape(batch * heads * queries, keys)

    def of_heads(tensor: Tensor) -> Tensor:  # [batch, n] -> [batch * heads, n]
        return tensor.repeat_interleave(heads, 0)

    rows = flat.index_select(0, (indices * queries + of_heads(attending.first)).flatten())
    if attending.more.numel():
        text, word, piece = attending.further[..., None]  # [further, 1] each
        map_ = text * heads + torch.arange(heads, device=maps.device)  # [further, heads]
        added = flat.index_select(0, (map_ * queries + piece).flatten())
        rows.index_add_(0, (map_ * words + word).flatten(), added)
    if not attending.is_plain:
        share = torch.where(attending.count > 0, 1 / attending.count.clamp(min=1), 0.0)
        rows.mul_(of_heads(share).view(-1, 1))
    rows = rows.view(batch, heads * words, keys)
    word_maps = rows.gather(2, attended.first[:, None].expand(-1, heads * words, -1))
    if not attended.is_plain:
        word_maps.mul_((attended.count > 0)[:, None])
    if attended.more.numel():
        more, whose = (
            tensor[:, None].expand(-1, heads * words, -1)
            for tensor in (attended.more, attended.whose)
        )
        word_maps.scatter_add_(2, whose, rows.gather(2, more).mul_(attended.real[:, None]))
    return word_maps.view(batch, heads, words, columns)


def by_words(maps: Tensor, queries: Pieces, keys: Pieces) -> Tensor:
    """Maps of the words of both texts alone, without special pieces.

    [batch, heads, queries, keys] -> [batch, heads, words, words]
    """
    return merged(maps, PieceGroups.of(owners(queries)), PieceGroups.of(owners(keys)))
