"""From pieces to words: states of words from those of their pieces, and maps of words from maps.

A word's state is the mean of its pieces'. Of a map, the word that attends is the mean of its
pieces' rows, the word attended to the sum of its pieces' columns, so rows still sum to one. Costs a
pass over the states, and some four over a map: pieces are gathered and added, since a product with
a matrix of owners grows with the cube of a text's length.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from workbench.engine.batch import Pieces


def words_of_rows(text: Pieces) -> int:
    """So many words has the row with most."""
    return int(text.word_counts.max()) if len(text) else 0


# --- states ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """States of words from those of their pieces; what all layers need of a batch is made once.

    The same bytes each time, on a GPU too: there `scatter_add_` adds in any order, so means are
    products.
    """

    index: Tensor  # [batch, pieces], the word that owns each; one beyond the last where none does
    counts: Tensor  # [batch, words + 1], pieces of each
    shares: Tensor | None  # [batch, words + 1, pieces], on a GPU

    @classmethod
    def of(cls, text: Pieces) -> Self:
        batch, words, device = len(text.words), words_of_rows(text), text.words.device
        index = torch.where(text.words >= 0, text.words, words)
        counts = torch.zeros(batch, words + 1, device=device)
        counts.scatter_add_(1, index, torch.ones_like(index, dtype=counts.dtype))
        if device.type == "cpu":
            return cls(index, counts, None)
        own = index[:, None] == torch.arange(words + 1, device=device)[:, None]
        return cls(index, counts, own / counts.clamp(min=1)[..., None])

    def __call__(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """States of words, in float32, and which words own any piece.

        # [batch, pieces, width] -> [batch, words, width], [batch, words]
        """
        width = states.shape[-1]
        if self.shares is not None:
            found = self.shares @ states.float()
        else:
            sums = torch.zeros(*self.counts.shape, width)
            sums.scatter_add_(1, self.index[..., None].expand(-1, -1, width), states.float())
            found = sums / self.counts.clamp(min=1)[..., None]
        there = self.counts[:, :-1] > 0
        return found[:, :-1] * there[..., None], there


def by_word(states: Tensor, text: Pieces) -> tuple[Tensor, Tensor]:
    """The same of one layer; see `Pool`."""
    return Pool.of(text)(states)


# --- maps -----------------------------------------------------------------------------------------


def owners(text: Pieces) -> Tensor:
    """Which pieces each word owns.  # [batch, words, pieces], bool"""
    numbers = torch.arange(max(1, words_of_rows(text)), device=text.words.device)
    return text.words[:, None, :] == numbers[None, :, None]


def piece_shares(text: Pieces) -> Tensor:
    """What part of its word each piece is; 0 of one that no word owns.  # [batch, pieces]"""
    own = owners(text).float()
    return (own / own.sum(-1, keepdim=True).clamp(min=1)).sum(1)


@dataclass(frozen=True)
class Owned:
    """Which pieces belong to each word, or to each other item of one side of a map."""

    first: Tensor  # [batch, n], its first piece; 0 where it has none
    count: Tensor  # [batch, n]
    further: Tensor  # [3, further pieces of all items], text, item and piece
    more: Tensor  # [batch, most], the same next to each other; 0 where there are no more
    whose: Tensor  # [batch, most], which item each of them belongs to
    real: Tensor  # [batch, most], which of them are there
    is_plain: bool  # every item has exactly one piece

    @classmethod
    def of(cls, there: Tensor) -> Self:
        """From owners.  # [batch, n, pieces], bool"""
        count = there.sum(-1)
        further = there & (there.cumsum(-1) > 1)  # [batch, n, pieces]
        row, item, piece = torch.nonzero(further, as_tuple=True)
        each = further.sum((1, 2))  # [batch]
        most = int(each.max()) if len(each) else 0
        place = torch.arange(len(row), device=row.device) - (each.cumsum(0) - each)[row]
        more, whose = (count.new_zeros(len(there), most) for _ in range(2))
        more[row, place], whose[row, place] = piece, item
        real = torch.arange(most, device=row.device) < each[:, None]
        first, is_plain = there.int().argmax(-1), bool((count == 1).all())
        return cls(first, count, torch.stack([row, item, piece]), more, whose, real, is_plain)


def merged(maps: Tensor, looking: Owned, seen: Owned) -> Tensor:
    """Maps of pieces as maps of words: the mean of those that attend, the sum of those attended to.

    [batch, heads, queries, keys] -> [batch, heads, words, columns]
    """
    batch, heads, queries, keys = maps.shape
    words, columns = looking.count.shape[1], seen.count.shape[1]
    numbers = torch.arange(batch * heads, device=maps.device)[:, None]
    flat = maps.reshape(batch * heads * queries, keys)

    def of_heads(each: Tensor) -> Tensor:  # [batch, n] -> [batch * heads, n]
        return each.repeat_interleave(heads, 0)

    rows = flat.index_select(0, (numbers * queries + of_heads(looking.first)).flatten())
    if looking.more.numel():
        text, word, piece = looking.further[..., None]  # [further, 1] each
        map_ = text * heads + torch.arange(heads, device=maps.device)  # [further, heads]
        given = flat.index_select(0, (map_ * queries + piece).flatten())
        rows.index_add_(0, (map_ * words + word).flatten(), given)
    if not looking.is_plain:
        share = torch.where(looking.count > 0, 1 / looking.count.clamp(min=1), 0.0)
        rows.mul_(of_heads(share).view(-1, 1))
    rows = rows.view(batch, heads * words, keys)
    found = rows.gather(2, seen.first[:, None].expand(-1, heads * words, -1))
    if not seen.is_plain:
        found.mul_((seen.count > 0)[:, None])
    if seen.more.numel():
        more, whose = (
            each[:, None].expand(-1, heads * words, -1) for each in (seen.more, seen.whose)
        )
        found.scatter_add_(2, whose, rows.gather(2, more).mul_(seen.real[:, None]))
    return found.view(batch, heads, words, columns)


def by_words(maps: Tensor, queries: Pieces, keys: Pieces) -> Tensor:
    """Maps of the words of both texts alone, without special pieces.

    [batch, heads, queries, keys] -> [batch, heads, words, words]
    """
    return merged(maps, Owned.of(owners(queries)), Owned.of(owners(keys)))
