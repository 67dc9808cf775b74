"""Maps of words: who attends, what is attended to, and what of it can be seen.

Columns are the words of the text attended to, then the pieces that belong to no word: special
ones, kept apart from one another. A word's row is the mean of its pieces' rows, a word's column the
sum of its pieces' columns, so rows still sum to one. At the level of pieces every piece of a word
is a word of its own. Costs two batched matrix products a map.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.engine.pieces import NO_WORD, Pieces
from workbench.engine.statistics import averaging, owners
from workbench.engine.taps import Kind


@dataclass(frozen=True)
class Sides:
    """Both sides of the maps of a batch; everything here is the same for all heads."""

    kind: Kind
    sources: Tensor  # [batch, words, pieces], what of each piece's row a word's row is
    targets: Tensor  # [batch, pieces, columns], 1 where a column owns a piece
    rows: Tensor  # [batch, words], words that attend
    columns: Tensor  # [batch, columns], words and other pieces that are there
    words: int  # columns that are words; they stand first
    special: Tensor  # [batch, columns], pieces that the tokenizer put there
    ends: Tensor  # [batch, columns], special pieces behind the first word: separators
    first: Tensor  # [batch, columns], where the text begins, whatever stands there
    visible: Tensor  # [batch, words, columns], what each row may look at

    @property
    def pairs(self) -> Tensor:
        """Words that each word may look at, itself among them.  # [batch, words, words]"""
        return self.visible[..., : self.words]

    @property
    def both(self) -> Tensor:
        """Words that attend and are attended to.  # [batch, words]"""
        return self.rows & self.columns[:, : self.rows.shape[1]]

    def merged(self, probabilities: Tensor) -> Tensor:
        """Maps of pieces as maps of words.

        [batch, heads, queries, keys] -> [batch, heads, words, columns]
        """
        batch, heads, queries, keys = probabilities.shape
        summed = probabilities.reshape(batch, heads * queries, keys) @ self.targets
        summed = summed.view(batch, heads, queries, -1)
        return self.sources[:, None] @ summed


def sides_of(queries: Pieces, keys: Pieces, kind: Kind, by_pieces: bool = False) -> Sides:
    """How maps of these texts are read; where `cross`, a decoder attends to an encoder's text."""
    if by_pieces:
        queries, keys = _apart(queries), _apart(keys)
    longest = max(_words_read(queries), _words_read(keys))
    queries, keys = (_at_most(each, longest) for each in (queries, keys))
    looking, owned = owners(queries), owners(keys)  # [batch, words, pieces]
    others = keys.mask & (keys.words == NO_WORD)  # [batch, pieces]
    extra = _one_column_each(others)  # [batch, extra, pieces]
    special = _columns_of(extra, others & keys.special)
    places = torch.arange(keys.ids.shape[1], device=keys.ids.device)
    begins = _first(keys.words != NO_WORD)  # [batch], the first word's first piece
    ends = _columns_of(extra, others & keys.special & (places > begins[:, None]))
    targets = torch.cat([owned, extra], 1)  # [batch, columns, pieces]
    columns = targets.sum(-1) > 0
    rows = looking.sum(-1) > 0
    visible = columns[:, None] & rows[..., None]
    if kind == "causal":
        last = (looking * (places + 1)).amax(-1) - 1  # [batch, words], place of the last piece
        start = torch.where(targets > 0, places, keys.ids.shape[1]).amin(-1)  # [batch, columns]
        visible = visible & (start[:, None] <= last[..., None])
    words = owned.shape[1]
    alone = torch.zeros_like(columns[:, :words])
    first = targets.gather(2, _first(keys.mask)[:, None, None].expand(-1, targets.shape[1], 1))
    return Sides(
        kind,
        averaging(looking),
        targets.transpose(1, 2).contiguous(),
        rows,
        columns,
        words,
        torch.cat([alone, special], 1),
        torch.cat([alone, ends], 1),
        (first[..., 0] > 0) & columns,
        visible,
    )


def _words_read(text: Pieces) -> int:
    """So many words at most, up to the last that owns a piece; what is behind it was cut off."""
    return int(text.words.max()) + 1


def _at_most(text: Pieces, words: int) -> Pieces:
    return replace(text, word_counts=text.word_counts.clamp(max=words))


def _apart(text: Pieces) -> Pieces:
    """The same with every piece of a word as a word of its own."""
    real = text.words != NO_WORD
    number = real.cumsum(1) - 1
    return replace(
        text, words=torch.where(real, number, NO_WORD), word_counts=real.sum(1), kept=real.sum(1)
    )


def _one_column_each(pieces: Tensor) -> Tensor:
    """[batch, pieces], bool -> [batch, most of them, pieces], 1 or 0"""
    place = pieces.cumsum(1) - 1
    numbers = torch.arange(int(pieces.sum(1).max()), device=pieces.device)
    return ((place[:, None] == numbers[:, None]) & pieces[:, None]).float()


def _columns_of(extra: Tensor, pieces: Tensor) -> Tensor:
    """Which columns own one of these pieces.  # [batch, extra]"""
    return (extra * pieces[:, None]).sum(-1) > 0


def _first(there: Tensor) -> Tensor:
    """The place of the first that is true; 0 where none is.  # [batch, pieces] -> [batch]"""
    return there.float().argmax(1)
