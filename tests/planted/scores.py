"""The logits of planted heads, as sums of terms that queries and keys can read.

Wherever two keys could win, their logits differ by 16 or more, so the winner has all but about
10⁻⁷ of the weight; and logits near the winner's are exact in bfloat16. What is far from the winner
may be very large and negative: it rounds, and does not matter, but float16 could not hold it.
Costs nothing.
"""

from collections.abc import Mapping

from tests.planted.signs import CODE, ONE, Term, bit, is_kind, number
from tests.planted.words import LEAN, START, STOP

GAP = 16.0


def near(offset: float) -> list[Term]:
    """−32 (j − i − offset)²: highest at the key nearest to the query's place plus the offset."""
    place, high, low = number("place"), number("square_high"), number("square_low")
    return [
        (64 * place, place),
        (64 * offset * ONE, place),
        (-32 * 128 * ONE, high),
        (-32 * ONE, low),
        # The rest says nothing to the softmax; it keeps the logits small enough for bfloat16.
        (-32 * 128 * high, ONE),
        (-32 * low, ONE),
        (place, -64 * offset * ONE),
        (-32 * offset**2 * ONE, ONE),
    ]


def separator() -> list[Term]:
    """The last [SEP]: 16 j for separators, 4096 less for all others."""
    return [(4096 * ONE, is_kind(STOP) - ONE), (GAP * ONE, number("place"))]


def first() -> list[Term]:
    """The piece that begins every text."""
    return [(64 * ONE, is_kind(START))]


def rarest() -> list[Term]:
    """A logit for each rank of rarity; see `rarity`."""
    return [(GAP * ONE, number("rarity") - 2.0**15 * ONE)]


def rarity(ranks: int) -> list[int]:
    """A number of 16 bits for each rank, such that their logits differ by 16 even in bfloat16.

    Logits are 16 · (number − 2¹⁵). Away from zero bfloat16 knows fewer and fewer numbers, so the
    steps grow with it: 16 up to 4096, then 32 up to 8192, and so on.
    """
    steps = [0]
    while len(steps) <= ranks // 2:
        steps.append(steps[-1] + max(1, 2 ** (steps[-1].bit_length() - 8)))
    if steps[-1] >= 2**15:
        raise ValueError(f"{ranks} ranks are more than bfloat16 can tell apart")
    return sorted({2**15 + step for step in steps} | {2**15 - step for step in steps})[:ranks]


def syntactic(governors: Mapping[str, frozenset[str]]) -> list[Term]:
    """Of those that may govern the query's kind, the one nearest to a point on its right; or START.

    Governors have −32 d², above −2²⁰; START has −2²⁰ − 32 d², above −2²¹; others less than −2²¹.
    """
    terms = near(LEAN)
    for kind in sorted(frozenset[str]().union(*governors.values())):
        governed = [name for name, wanted in governors.items() if kind in wanted]
        terms.append((2.0**21 * is_kind(*governed), is_kind(kind)))
    return [*terms, (-(2.0**21) * ONE, ONE), (2.0**20 * ONE, is_kind(START))]


def duplicate() -> list[Term]:
    """The first earlier piece that is the same, else START.

    A piece equal to the query has 32 (i − j), so the first is highest and the query itself has 0;
    START has 16, between them, if its place is 0; others −8192 + 32 (i − j) at most.
    """
    not_start = ONE - is_kind(START)
    return [
        *_same("code", 64, 64),
        (-CODE * 4096 * ONE, not_start),
        (GAP * ONE, is_kind(START)),
        (32 * number("place"), not_start),
        (-32 * ONE, number("place")),
    ]


def induction() -> list[Term]:
    """The first piece whose previous one is the same as the query, else START.

    Such a piece has 32 (i − j), from 0 to 4064; START −8192 + 32 i; others −16384 + 32 (i − j) at
    most. What was before each piece is written by the previous-piece head of an earlier layer.
    """
    return [
        *_same("before", 128, 64),
        (-CODE * 8192 * ONE, ONE - is_kind(START)),
        (-8192 * ONE, is_kind(START)),
        (32 * number("place"), ONE),
        (-32 * ONE, number("place")),
    ]


def _same(field: str, asks: float, offers: float) -> list[Term]:
    """How many bits of the query's code the key's field agrees with, less those it does not."""
    return [(asks * bit("code", k), offers * bit(field, k)) for k in range(CODE)]
