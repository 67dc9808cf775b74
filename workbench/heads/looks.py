"""Which word each word looks at, where that can be believed.

The largest weight among words, of which two things are asked: that it is the only one so large
(even attention has no argmax), and that words are given enough at all, for a head that rests on a
separator has nothing left among words, and the argmax of nothing is an invention.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

TIE = 1e-4  # relative; float32 keeps 1e-7
NOWHERE = -1


@dataclass(frozen=True)
class Looks:
    """The word each word looks at, NOWHERE where none is believed."""

    any: Tensor  # [batch, heads, words], the word itself among them
    other: Tensor  # [batch, heads, words], the word itself left out
    weight: Tensor  # [batch, heads, words], what `other` is given


def looks_of(maps: Tensor, pairs: Tensor, diagonal: bool, residual: float) -> Looks:
    """Read off maps of words; `diagonal`: row and column of one number are one word.

    [batch, heads, words, words], and which may be looked at [batch, words, words]
    """
    allowed = pairs[:, None]
    own = torch.eye(*maps.shape[-2:], dtype=torch.bool, device=maps.device)
    beside = allowed & ~own if diagonal else allowed
    open_ = maps.masked_fill(~beside, -1.0)
    largest, other = open_.max(-1)
    second = open_.scatter(-1, other[..., None], -1.0).amax(-1)
    given = (maps * beside).sum(-1)
    sure = (largest > 0) & (largest - second > TIE * largest) & (given >= residual)
    others = torch.where(sure, other, NOWHERE)
    if not diagonal:
        return Looks(others, others, largest)
    rows = min(maps.shape[-2:])
    itself = maps.new_full(maps.shape[:-1], -1.0)
    itself[..., :rows] = torch.where(
        pairs.diagonal(dim1=-2, dim2=-1)[:, None], maps.diagonal(dim1=-2, dim2=-1), -1.0
    )
    stays = itself > largest
    top, next_ = torch.where(stays, itself, largest), torch.where(stays, largest, itself)
    next_ = torch.maximum(next_, torch.where(stays, largest, second))
    place = torch.where(stays, torch.arange(maps.shape[-2], device=maps.device), other)
    given = given + itself.clamp(min=0)
    sure = (top > 0) & (top - next_ > TIE * top) & (given >= residual)
    return Looks(torch.where(sure, place, NOWHERE), others, largest)
