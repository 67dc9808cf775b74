"""Maps of words: who attends, what is attended to, and what of it can be seen.

Columns are the words of the text attended to, then the pieces that belong to no word: special
ones, kept apart from one another. A word's row is the mean of its pieces' rows, a word's column the
sum of its pieces' columns, so rows still sum to one. At the level of pieces every piece of a word
is a word of its own. Costs some four passes over a map: pieces are gathered and added, since a
product with a matrix of owners grows with the cube of a text's length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.taps import Kind
from workbench.engine.words import Owned, merged, owners, piece_shares


@dataclass(frozen=True)
class Sides:
    """Both sides of the maps of a batch; everything here is the same for all heads."""

    kind: Kind
    shares: Tensor  # [batch, pieces], what part of a word that attends each piece is
    looking: Owned  # the pieces of each word that attends
    looked_at: Owned  # the pieces of each column
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
        return merged(probabilities, self.looking, self.looked_at)


def sides_of(queries: Pieces, keys: Pieces, kind: Kind, by_pieces: bool = False) -> Sides:
    """How maps of these texts are read; where `cross`, a decoder attends to an encoder's text."""
    if by_pieces:
        queries, keys = _apart(queries), _apart(keys)
    longest = max(_words_read(queries), _words_read(keys))
    queries, keys = (
        replace(each, word_counts=each.word_counts.clamp(max=longest)) for each in (queries, keys)
    )
    looking, owned = owners(queries), owners(keys)  # [batch, words, pieces]
    others = keys.mask & (keys.words == NO_WORD)  # [batch, pieces]
    extra = _one_column_each(others)  # [batch, extra, pieces]
    special = _columns_of(extra, others & keys.special)
    places = torch.arange(keys.ids.shape[1], device=keys.ids.device)
    begins = _first(keys.words != NO_WORD)  # [batch], the first word's first piece
    ends = _columns_of(extra, others & keys.special & (places > begins[:, None]))
    targets = torch.cat([owned, extra], 1)  # [batch, columns, pieces]
    columns = targets.any(-1)
    rows = looking.any(-1)
    visible = columns[:, None] & rows[..., None]
    if kind == "causal":
        last = (looking * (places + 1)).amax(-1) - 1  # [batch, words], place of the last piece
        start = torch.where(targets, places, keys.ids.shape[1]).amin(-1)  # [batch, columns]
        visible = visible & (start[:, None] <= last[..., None])
    words = owned.shape[1]
    alone = torch.zeros_like(columns[:, :words])
    first = targets.gather(2, _first(keys.mask)[:, None, None].expand(-1, targets.shape[1], 1))
    return Sides(
        kind,
        piece_shares(queries),
        Owned.of(looking),
        Owned.of(targets),
        rows,
        columns,
        words,
        torch.cat([alone, special], 1),
        torch.cat([alone, ends], 1),
        first[..., 0] & columns,
        visible,
    )


def _words_read(text: Pieces) -> int:
    """So many words at most, up to the last that owns a piece; what is behind it was cut off."""
    return int(text.words.max()) + 1


def _apart(text: Pieces) -> Pieces:
    """The same with every piece of a word as a word of its own."""
    real = text.words != NO_WORD
    number = real.cumsum(1) - 1
    words, counts = torch.where(real, number, NO_WORD), real.sum(1).cpu()
    return replace(text, words=words, word_counts=counts, kept=counts)


def _one_column_each(pieces: Tensor) -> Tensor:
    """[batch, pieces] -> [batch, most of them, pieces], bool"""
    place = pieces.cumsum(1) - 1
    numbers = torch.arange(int(pieces.sum(1).max()), device=pieces.device)
    return (place[:, None] == numbers[:, None]) & pieces[:, None]


def _columns_of(extra: Tensor, pieces: Tensor) -> Tensor:
    """Which columns own one of these pieces.  # [batch, extra]"""
    return (extra & pieces[:, None]).any(-1)


def _first(there: Tensor) -> Tensor:
    """The place of the first that is true; 0 where none is.  # [batch, pieces] -> [batch]"""
    return there.float().argmax(1)


# --- the maximum of each word's attention ---------------------------------------------------------
#
# Which word each word attends to most, in the published convention and where that is reliable.
#
# The published convention (Clark et al. 2019) takes the argmax over the other words of the text,
# whatever they are given together. Two things make such an argmax unreliable: words may be given
# next to nothing (a head that rests on a separator has an argmax among words all the same), and
# the two largest weights may be almost equal. `argmax` is the published one, `other` and `any`
# hold reliable ones alone. Costs some five passes over the maps of words.

TIE = 1e-4  # relative; the two largest weights of a reliable maximum differ by more
ROUNDING = 1e-6  # relative; weights within it are the same number (float32 keeps 1e-7)
NOWHERE = -1


@dataclass(frozen=True)
class Looks:
    """The word each word attends to most; NOWHERE where there is none."""

    any: Tensor  # [batch, heads, words], reliable maxima, the word itself among the candidates
    other: Tensor  # [batch, heads, words], reliable maxima, the word itself left out
    weight: Tensor  # [batch, heads, words], what `other` is given
    top: Tensor  # [batch, heads, words], the largest weight among words, the word itself included
    argmax: Tensor  # [batch, heads, words], the word itself left out, whatever words are given;
    # NOWHERE for a tie: numpy's argmax takes the first, which credits a uniform row with being a
    # head that attends to the first word
    on_words: Tensor  # [batch, heads, words], what all words are given together


def joined(parts: Sequence[Looks]) -> Looks:
    """Those of several heads as one."""
    return Looks(*(torch.cat([getattr(each, f.name) for each in parts], 1) for f in fields(Looks)))


def looks_of(maps: Tensor, pairs: Tensor, residual: float) -> Looks:
    """Maxima of the rows of maps of words.

    [batch, heads, words, words], and which may be attended to [batch, words, words]
    """
    own = torch.eye(*maps.shape[-2:], dtype=torch.bool, device=maps.device)
    others_open = (pairs & ~own)[:, None]
    # a weight is 1 at most, so a closed one comes below 0; masked_fill takes four times as long
    open_ = maps + torch.where(others_open, 0.0, -2.0)
    largest, other = open_.max(-1)
    second = open_.scatter_(-1, other[..., None], -2.0).amax(-1).clamp(min=-1.0)
    largest = largest.clamp(min=-1.0)  # where nothing is open
    rows = min(maps.shape[-2:])
    itself = maps.new_full(maps.shape[:-1], -1.0)
    itself[..., :rows] = torch.where(
        pairs.diagonal(dim1=-2, dim2=-1)[:, None], maps.diagonal(dim1=-2, dim2=-1), -1.0
    )
    among = maps.sum(-1)  # words out of sight are given 0
    given = among - itself.clamp(min=0)
    apart = largest - second
    argmax = torch.where((largest >= 0) & (apart > ROUNDING * largest), other, NOWHERE)
    sure = (largest > 0) & (apart > TIE * largest) & (given >= residual)
    others = torch.where(sure, other, NOWHERE)
    stays = itself > largest
    top, next_ = torch.where(stays, itself, largest), torch.where(stays, largest, itself)
    next_ = torch.maximum(next_, torch.where(stays, largest, second))
    place = torch.where(stays, torch.arange(maps.shape[-2], device=maps.device), other)
    sure = (top > 0) & (top - next_ > TIE * top) & (among >= residual)
    return Looks(torch.where(sure, place, NOWHERE), others, largest, top, argmax, among)
