"""A residual stream whose every entry is +1 or −1, so that LayerNorm leaves it exactly as it is.

A bit is a pair of entries: (+1, −1) for one, (−1, +1) for zero. Mean 0 and variance 1 then hold for
any content, with no help from LayerNorm's own weights. A field of bits that says nothing is
*neutral*: (+1, +1), (−1, −1), … Reading a bit is half the difference of its pair: ±1, or 0 if
neutral. Everything else is a sum of bits: numbers, classes, and the constant `ONE`.

A head's logit is a sum of terms, query reading × key reading, one dimension of the head each. All
readings and weights are chosen to be exact in bfloat16 (8 significant bits), and their sums in
float32 (24): no rounding enters a logit until bfloat16 rounds the whole of it.

Costs nothing: a few matrices of 256 × 256.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tests.planted.words import KINDS

LAYERS, HEADS, HEAD_WIDTH = 2, 4, 64
WIDTH = HEADS * HEAD_WIDTH
PLACES = 128  # the longest text, in pieces
CODE = 12  # bits of a piece's number

_FIELDS = {
    "one": 1,
    "place": 7,
    "square_high": 7,  # place² = 128 · high + low
    "square_low": 7,
    "code": CODE,  # which piece this is; neutral for special pieces
    "rarity": 16,
    "kind": len(KINDS),
    "before": CODE,  # neutral until a head writes into them
    "answer": CODE,
    "unread": CODE,
}
_FIELDS["filler"] = WIDTH // 2 - sum(_FIELDS.values())
_BITS = [name for name, bits in _FIELDS.items() for _ in range(bits)]

Term = tuple[Tensor, Tensor]  # what the query reads, what the key reads: [WIDTH] each


class Head(NamedTuple):
    """How a head scores pairs of pieces, and which field of the seen it copies into which own."""

    terms: Sequence[Term] = ()
    copies: tuple[str, str] | None = None


def entries(field: str) -> slice:
    """Where a field lies among the entries of a hidden state."""
    first = 2 * _BITS.index(field)
    return slice(first, first + 2 * _FIELDS[field])


def signs(field: str, numbers: Sequence[int | None]) -> Tensor:
    """The bits of numbers as pairs, lowest first; neutral for None.  # [numbers, 2 * bits]"""
    bits = _FIELDS[field]
    if worst := [n for n in numbers if n is not None and not 0 <= n < 2**bits]:
        raise ValueError(f"{worst[0]} does not fit into the {bits} bits of {field!r}")
    given = torch.tensor([n or 0 for n in numbers])
    ones = ((given[:, None] >> torch.arange(bits) & 1) * 2 - 1).float()  # [numbers, bits]
    found = torch.stack([ones, -ones], dim=2).flatten(1)  # [numbers, 2 * bits]
    if nothing := [i for i, n in enumerate(numbers) if n is None]:
        found[nothing] = torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(bits // 2)
    return found


def table(columns: Mapping[str, Sequence[int | None]]) -> Tensor:
    """Embeddings that say these and leave all else zero, for another table to say."""
    rows = max(map(len, columns.values()))
    found = torch.zeros(rows, WIDTH)
    for field, numbers in columns.items():
        found[:, entries(field)] = signs(field, numbers)
    return found


def bit(field: str, k: int) -> Tensor:
    """Reads one bit as ±1, or 0 if neutral."""
    found = torch.zeros(WIDTH)
    first = entries(field).start + 2 * k
    found[first], found[first + 1] = 0.5, -0.5
    return found


ONE = bit("one", 0)


def number(field: str) -> Tensor:
    """Reads a whole field as the number it says."""
    return sum(((bit(field, k) + ONE) * 2.0 ** (k - 1) for k in range(_FIELDS[field])), 0 * ONE)


def is_kind(*kinds: str) -> Tensor:
    """Reads 1 if the piece is of one of these kinds, else 0."""
    return sum(((bit("kind", KINDS.index(kind)) + ONE) / 2 for kind in kinds), 0 * ONE)


def attention(heads: Mapping[int, Head]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The query, key, value and output maps of a layer, each [out, in]; heads not named are zero.

    A zero head has equal logits everywhere, so it is uniform, and writes nothing.
    """
    query, key, value, output = (torch.zeros(WIDTH, WIDTH) for _ in range(4))
    for at, head in heads.items():
        first = at * HEAD_WIDTH
        for dimension, (asks, offers) in enumerate(head.terms, start=first):
            query[dimension] = asks * math.sqrt(HEAD_WIDTH)  # attention divides by it; 8 is exact
            key[dimension] = offers
        if len(head.terms) > HEAD_WIDTH:
            raise ValueError(f"{len(head.terms)} terms, and only {HEAD_WIDTH} dimensions")
        if head.copies:
            _copy(value, output, first, *head.copies)
    return query, key, value, output


def _copy(value: Tensor, output: Tensor, first: int, source: str, target: str) -> None:
    """Values are what the source says beyond neutral, so what is neutral turns into the source.

    Thus the sum is ±1 again, and copying from a neutral source writes exact zeros.
    """
    neutral = signs(source, [None])[0]
    for k in range(2 * CODE):
        value[first + k, entries(source).start + k] = 1.0
        value[first + k] -= neutral[k] * ONE
        output[entries(target).start + k, first + k] = 1.0
