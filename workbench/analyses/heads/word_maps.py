"""Attention maps of words: merged from maps of pieces, with masks of what is visible.

Columns are the words of the text attended to, then the pieces that belong to no word (special
pieces), one column each. The row of a word is the mean of the rows of its pieces, its column the
sum of their columns, so rows still sum to 1. At the level of pieces every piece counts as a word.
Costs: about four passes over a map. Pieces are gathered and added, since a product with a
piece-to-word matrix grows with the cube of the text length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.taps import Kind
from workbench.engine.words import PieceGroups, merged, owners, piece_shares


@dataclass(frozen=True)
class Sides:
    """The words and columns of the maps of a batch; the same for all heads."""

    kind: Kind
    shares: Tensor  # [batch, pieces], share of each piece in its attending word
    looking: PieceGroups  # the pieces of each attending word
    looked_at: PieceGroups  # the pieces of each column
    rows: Tensor  # [batch, words], words that attend (not padding)
    columns: Tensor  # [batch, columns], words and other pieces (not padding)
    words: int  # number of columns that are words; they come first
    special: Tensor  # [batch, columns], special pieces of the tokenizer
    ends: Tensor  # [batch, columns], special pieces after the first word: separators
    first: Tensor  # [batch, columns], the first position of the text
    visible: Tensor  # [batch, words, columns], columns visible to each row
    window: int = 0  # the largest distance of a visible piece; 0: no limit

    @property
    def pairs(self) -> Tensor:
        """Words visible to each word, including itself.  # [batch, words, words]"""
        return self.visible[..., : self.words]

    @property
    def both(self) -> Tensor:
        """Words that are both a row and a column.  # [batch, words]"""
        return self.rows & self.columns[:, : self.rows.shape[1]]

    def merged(self, probabilities: Tensor) -> Tensor:
        """Maps of pieces merged into maps of words.

        [batch, heads, queries, keys] -> [batch, heads, words, columns]
        """
        return merged(probabilities, self.looking, self.looked_at)


def sides_of(
    queries: Pieces,
    keys: Pieces,
    kind: Kind,
    by_pieces: bool = False,
    window: int = 0,
    n_global: int = 0,
) -> Sides:
    """The words and columns of maps of these texts; in `cross`, a decoder attends to an encoder.

    A word sees what one of its pieces sees: pieces up to `window` away, unless it is 0, and the
    first `n_global` pieces, which see all.
    """
    if by_pieces:
        queries, keys = _apart(queries), _apart(keys)
    longest = max(_words_read(queries), _words_read(keys))
    queries, keys = (
        replace(each, word_counts=each.word_counts.clamp(max=longest)) for each in (queries, keys)
    )
    looking, owned = owners(queries), owners(keys)  # [batch, words, pieces]
    no_word = keys.mask & (keys.words == NO_WORD)  # [batch, pieces]
    extra = _one_column_each(no_word)  # [batch, extra, pieces]
    special = _columns_of(extra, no_word & keys.special)
    positions = torch.arange(keys.ids.shape[1], device=keys.ids.device)
    begins = _first(keys.words != NO_WORD)  # [batch], the first word's first piece
    ends = _columns_of(extra, no_word & keys.special & (positions > begins[:, None]))
    targets = torch.cat([owned, extra], 1)  # [batch, columns, pieces]
    columns = targets.any(-1)
    rows = looking.any(-1)
    visible = columns[:, None] & rows[..., None]
    if kind == "causal":
        last = (looking * (positions + 1)).amax(
            -1
        ) - 1  # [batch, words], position of the last piece
        start = torch.where(targets, positions, keys.ids.shape[1]).amin(-1)  # [batch, columns]
        visible = visible & (start[:, None] <= last[..., None])
    if window:
        near = (positions[:, None] - positions).abs() <= window
        near |= (positions < n_global) | (positions[:, None] < n_global)
        reached = looking.float() @ near.float()  # [batch, words, pieces]
        visible = visible & (reached @ targets.float().mT > 0)
    words = owned.shape[1]
    no_words = torch.zeros_like(columns[:, :words])
    first = targets.gather(2, _first(keys.mask)[:, None, None].expand(-1, targets.shape[1], 1))
    return Sides(
        kind,
        piece_shares(queries),
        PieceGroups.of(looking),
        PieceGroups.of(targets),
        rows,
        columns,
        words,
        torch.cat([no_words, special], 1),
        torch.cat([no_words, ends], 1),
        first[..., 0] & columns,
        visible,
        window,
    )


def _words_read(text: Pieces) -> int:
    """Number of words up to the last one that has a piece; later words were cut off."""
    return int(text.words.max()) + 1


def _apart(text: Pieces) -> Pieces:
    """The text with every piece of a word as a separate word."""
    real = text.words != NO_WORD
    index = real.cumsum(1) - 1
    words, counts = torch.where(real, index, NO_WORD), real.sum(1).cpu()
    return replace(text, words=words, word_counts=counts, kept=counts)


def _one_column_each(pieces: Tensor) -> Tensor:
    """One column for each of these pieces.  # [batch, pieces] -> [batch, columns, pieces], bool"""
    index = pieces.cumsum(1) - 1
    columns = torch.arange(int(pieces.sum(1).max()), device=pieces.device)
    return (index[:, None] == columns[:, None]) & pieces[:, None]


def _columns_of(extra: Tensor, pieces: Tensor) -> Tensor:
    """Columns that have one of these pieces.  # [batch, extra]"""
    return (extra & pieces[:, None]).any(-1)


def _first(there: Tensor) -> Tensor:
    """Index of the first true value; 0 if there is none.  # [batch, pieces] -> [batch]"""
    return there.float().argmax(1)


# --- the maximum of each word's attention ---------------------------------------------------------
#
# The word that each word attends to most, as published and only where it is reliable.
#
# The published convention (Clark et al. 2019) takes the argmax over the other words of the text,
# however little attention they get together. Such an argmax is unreliable if words get almost no
# attention (a head that rests on a separator still has an argmax among words), or if the two
# largest weights are almost equal. `argmax` is the published one; `other` and `any` hold reliable
# ones only. Costs: about five passes over the maps of words.

TIE = 1e-4  # minimum relative difference of the two largest weights of a reliable maximum
ROUNDING = 1e-6  # relative; weights that differ less are equal (float32 precision is 1e-7)
NOWHERE = -1


@dataclass(frozen=True)
class Maxima:
    """The word that each word attends to most; NOWHERE if there is none."""

    any: Tensor  # [batch, heads, words], reliable maxima, including the word itself
    other: Tensor  # [batch, heads, words], reliable maxima, without the word itself
    weight: Tensor  # [batch, heads, words], attention on `other`
    top: Tensor  # [batch, heads, words], the largest weight on a word, including itself
    argmax: Tensor  # [batch, heads, words], without the word itself, at any attention on words;
    # NOWHERE for a tie: numpy's argmax takes the first one, so that a uniform row would count as
    # attention to the first word
    on_words: Tensor  # [batch, heads, words], attention on all words together


def joined(parts: Sequence[Maxima]) -> Maxima:
    """Maxima of several groups of heads, concatenated."""
    return Maxima(
        *(torch.cat([getattr(each, f.name) for each in parts], 1) for f in fields(Maxima))
    )


def maxima_of(maps: Tensor, pairs: Tensor, min_word_attention: float) -> Maxima:
    """Maxima of the rows of maps of words.

    [batch, heads, words, words], visible pairs [batch, words, words]
    """
    diagonal = torch.eye(*maps.shape[-2:], dtype=torch.bool, device=maps.device)
    others_open = (pairs & ~diagonal)[:, None]
    # a weight is at most 1, so a masked one is below 0; masked_fill takes four times as long
    open_ = maps + torch.where(others_open, 0.0, -2.0)
    largest, other = open_.max(-1)
    second = open_.scatter_(-1, other[..., None], -2.0).amax(-1).clamp(min=-1.0)
    largest = largest.clamp(min=-1.0)  # if no other word is visible
    rows = min(maps.shape[-2:])
    itself = maps.new_full(maps.shape[:-1], -1.0)
    itself[..., :rows] = torch.where(
        pairs.diagonal(dim1=-2, dim2=-1)[:, None], maps.diagonal(dim1=-2, dim2=-1), -1.0
    )
    on_words = maps.sum(-1)  # invisible words have weight 0
    on_others = on_words - itself.clamp(min=0)
    margin = largest - second
    argmax = torch.where((largest >= 0) & (margin > ROUNDING * largest), other, NOWHERE)
    is_reliable = (largest > 0) & (margin > TIE * largest) & (on_others >= min_word_attention)
    others = torch.where(is_reliable, other, NOWHERE)
    on_itself = itself > largest
    top, next_ = torch.where(on_itself, itself, largest), torch.where(on_itself, largest, itself)
    next_ = torch.maximum(next_, torch.where(on_itself, largest, second))
    target = torch.where(on_itself, torch.arange(maps.shape[-2], device=maps.device), other)
    is_reliable = (top > 0) & (top - next_ > TIE * top) & (on_words >= min_word_attention)
    any_ = torch.where(is_reliable, target, NOWHERE)
    return Maxima(any_, others, largest, top, argmax, on_words)
