"""Which word each word attends to most, in the published convention and where that is reliable.

The published convention (Clark et al. 2019) takes the argmax over the other words of the text,
whatever they are given together. Two things make such an argmax unreliable: words may be given next
to nothing (a head that rests on a separator has an argmax among words all the same), and the two
largest weights may be almost equal. `argmax` is the published one, `other` and `any` hold reliable
ones alone. Costs some five passes over the maps of words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

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
