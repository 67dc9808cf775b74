"""Exact nearest neighbours by cosine among rows of states.

All similarities are one matrix product in single precision. The rows near the k-th one are then
computed again in double precision, so that rounding does not decide which rows are nearest: where
states share a large offset, all cosines are close to 1 and differ in their last digits only. A row
of zeros has no direction and is no neighbour. Costs: a pass over the rows, at the speed of memory:
250,000 rows of width 768 are read in a tenth of a second on two cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.arrays import Floats, Ints

NEAR = 4e-6  # error of a cosine in single precision, generously
ROUNDING = 1e-6  # relative error of a state, up to which two states are the same
AT_ONCE = 2**23  # similarities in memory at a time
EXACT = 4096  # rows computed in double precision at a time


@dataclass(frozen=True, eq=False)
class Rows:
    """States and their norms; a row of zeros has the norm 0."""

    states: Tensor  # [rows, width], float32, often memory-mapped
    norms: Tensor  # [rows]

    @classmethod
    def of(cls, states: Tensor) -> Self:
        return cls(states, torch.linalg.vector_norm(states, dim=1))

    def __len__(self) -> int:
        return len(self.norms)

    def take(self, rows: Ints) -> "Rows":
        """Some of the rows, in memory."""
        chosen = torch.from_numpy(rows)
        return Rows(self.states.index_select(0, chosen), self.norms[chosen])

    @property
    def unit(self) -> Tensor:
        """The rows with norm 1; rows of zeros stay zeros.  # [rows, width]"""
        return self.states / torch.where(self.norms > 0, self.norms, 1.0)[:, None]


# --- one query ------------------------------------------------------------------------------------


def cosines(rows: Rows, query: Tensor) -> Tensor:
    """The cosine of every row with the query; -inf for a row of zeros.  # [width] -> [rows]"""
    direction = query / torch.linalg.vector_norm(query)
    values: Tensor = (rows.states @ direction[:, None])[:, 0].div_(rows.norms)
    return values.masked_fill_(rows.norms == 0, -torch.inf)


def nearest(
    rows: Rows,
    query: Tensor,
    k: int,
    allowed: NDArray[np.bool_] | None = None,
    groups: Ints | None = None,
) -> tuple[Floats, Ints]:
    """The similarities and indices of the k nearest allowed rows, the nearest first.

    Of rows that are equally near, the first ones are taken. With `groups`, codes of the rows from
    0, at most one row of each group: its nearest.  # [rows] -> [at most k], [at most k]
    """
    if allowed is not None and 4 * allowed.sum() < len(rows):  # fewer rows are read
        chosen = np.flatnonzero(allowed)
        own = None if groups is None else groups[chosen]
        similarities, found = nearest(rows.take(chosen), query, k, None, own)
        return similarities, chosen[found]
    values = cosines(rows, query)
    if allowed is not None:
        values.masked_fill_(torch.from_numpy(~allowed), -torch.inf)
    best = values
    if groups is not None:
        codes = torch.from_numpy(groups)
        empty = values.new_full((int(groups.max(initial=-1)) + 1,), -torch.inf)
        best = empty.scatter_reduce(0, codes, values, "amax")
    bound = best.topk(min(k, len(best))).values.min() if len(best) else values.new_zeros(())
    if not torch.isfinite(bound):  # fewer than k
        bound = values.new_tensor(-2.0)
    near = torch.nonzero(values >= bound - NEAR)[:, 0]
    exact = _exact(rows.states, near, query[None], torch.zeros_like(near))
    order = exact.argsort(descending=True, stable=True)
    found, similarities = near[order].numpy(), exact[order].numpy()
    if groups is not None:
        _, first = np.unique(groups[found], return_index=True)
        kept = np.sort(first)
        found, similarities = found[kept], similarities[kept]
    return similarities[:k], found[:k]


def _exact(states: Tensor, chosen: Tensor, queries: Tensor, of: Tensor) -> Tensor:
    """Cosines of rows and their queries in double precision, each computed alone.

    # [rows, width], [chosen], [queries, width], [chosen] -> [chosen]
    """
    parts = []
    for row, query in zip(torch.split(chosen, EXACT), torch.split(of, EXACT), strict=True):
        one, other = states[row].double(), queries[query].double()  # [part, width] each
        norms = torch.linalg.vector_norm(one, dim=1) * torch.linalg.vector_norm(other, dim=1)
        parts.append((one * other).sum(1) / norms)
    return torch.cat(parts)


# --- many queries ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pairs:
    """The nearest rows of many queries; the weights of one query add up to 1.

    Where several rows are equally near and not all belong to the k nearest, they share the rest of
    the weight: no order decides between equal rows.
    """

    queries: Ints  # [pairs], indices of rows
    neighbours: Ints  # [pairs], indices of rows
    weights: Floats  # [pairs]

    def shares(self, matches: NDArray[np.bool_], n_rows: int) -> Floats:
        """The weighted share of matching neighbours of each row; NaN without neighbours.

        # [pairs] -> [rows]
        """
        whole = np.bincount(self.queries, self.weights, n_rows)
        part = np.bincount(self.queries, self.weights * matches, n_rows)
        shares: Floats = np.full(n_rows, np.nan)
        return np.divide(part, whole, out=shares, where=whole > 0)


def nearest_pairs(rows: Rows, queries: Ints, k: int, apart: Sequence[Ints]) -> Pairs:
    """The k nearest rows of some rows, among those with another code in each array of `apart`.

    A row is never its own neighbour.  # [rows] each
    """
    unit, real = rows.unit, rows.norms > 0
    codes = [torch.from_numpy(each) for each in apart]
    parts: list[tuple[Ints, Ints, Floats]] = []
    for chunk in torch.split(torch.from_numpy(queries), max(1, AT_ONCE // max(1, len(rows)))):
        values = unit[chunk] @ unit.T  # [chunk, rows]
        values[:, ~real] = -torch.inf
        values[torch.arange(len(chunk)), chunk] = -torch.inf
        for code in codes:
            values.masked_fill_(code[chunk][:, None] == code[None], -torch.inf)
        best = values.topk(min(k, len(rows)), dim=1).values  # [chunk, k]
        counts = (best > -torch.inf).sum(1)  # [chunk], of neighbours
        last = best.gather(1, (counts - 1).clamp(min=0)[:, None])  # [chunk, 1], of the k-th
        last[(counts == 0) | ~real[chunk]] = torch.inf  # a query without neighbours
        query, row = torch.nonzero(values >= last - NEAR, as_tuple=True)
        exact = _exact(rows.states, row, rows.states[chunk], query).numpy()
        weights = _weights(exact, query.numpy(), k)
        parts.append((chunk[query].numpy(), row.numpy(), weights))
    if not parts:
        return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    return Pairs(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _weights(cosines: Floats, queries: Ints, k: int) -> Floats:
    """The weight of each candidate among the k nearest of its query; queries are in order.

    Candidates are equally near if their difference to the k-th one may be rounding of states.
    # [candidates], [candidates] -> [candidates]
    """
    _, start, place, counts = np.unique(
        queries, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.lexsort((-cosines, queries))
    wanted = np.minimum(counts, k)
    last = cosines[order][start + wanted - 1][place]  # [candidates], of the k-th of the query
    rounding = ROUNDING * np.sqrt(np.clip(1 - last**2, 0, None)) + 1e-12
    is_above = cosines > last + rounding
    is_tied = ~is_above & (cosines >= last - rounding)
    n_above, n_tied = (np.bincount(place, each, len(counts)) for each in (is_above, is_tied))
    rest = (wanted - n_above) / np.maximum(n_tied, 1)  # [queries], weight of each that is tied
    return np.where(is_above, 1.0, is_tied * rest[place]) / wanted[place]
