"""The tap `Reduce`: statistics of attention maps, as sums over the attending pieces.

Each statistic turns maps `[batch, heads, queries, keys]` into `[heads, numbers]` on the device and
ignores padding. Divided by `count`, sums over a corpus are means. Costs: one pass over the map per
statistic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workbench.core.public import check_fields, require_choice
from workbench.engine.taps import Site, Tap, View

Statistic = Callable[[View], Tensor]  # -> [heads, numbers]

FARTHEST = 8  # maximum offset that is counted separately
OFFSETS = tuple(range(-FARTHEST, FARTHEST + 1))


def _not_padding(view: View) -> Tensor:
    """1 for each attending piece that is not padding.  # [batch, 1, queries]"""
    maps = view.probabilities
    if view.queries is None:
        return maps.new_ones(maps.shape[0], 1, maps.shape[2])
    return view.queries.mask[:, None].to(maps.dtype)


def _summed(by_query: Tensor, view: View) -> Tensor:
    """Sums over all attending pieces.  # [batch, heads, queries] -> [heads, 1]"""
    return (by_query * _not_padding(view)).sum((0, 2), dtype=torch.float64)[:, None]


def count(view: View) -> Tensor:
    """The number of attending pieces."""
    number = _not_padding(view).sum(dtype=torch.float64)
    return number.expand(view.probabilities.shape[1])[:, None]


def confidence(view: View) -> Tensor:
    """The largest attention weight of each row."""
    return _summed(view.probabilities.amax(-1), view)


def entropy(view: View) -> Tensor:
    """The entropy of each row, in nats."""
    return _summed(torch.special.entr(view.probabilities).sum(-1), view)


def distance(view: View) -> Tensor:
    """The mean distance of each row's attention, in pieces."""
    queries, keys = view.probabilities.shape[-2:]
    positions = torch.arange(max(queries, keys), device=view.probabilities.device)
    distances = (positions[:queries, None] - positions[None, :keys]).abs()  # [queries, keys]
    means = torch.einsum("bhqk,qk->bhq", view.probabilities, distances.to(view.probabilities.dtype))
    return _summed(means, view)


def special_mass(view: View) -> Tensor:
    """The attention of each row on special pieces."""
    if view.keys is None:
        return torch.zeros_like(count(view))
    special = view.keys.special.to(view.probabilities.dtype)  # [batch, keys]
    return _summed(torch.einsum("bhqk,bk->bhq", view.probabilities, special), view)


def offsets(view: View) -> Tensor:
    """The number of rows with their largest weight at each offset in -8..8.  # [heads, 17]"""
    maps = view.probabilities
    heads, queries = maps.shape[1:3]
    offset = maps.argmax(-1) - torch.arange(queries, device=maps.device)  # [batch, heads, queries]
    near = (offset.abs() <= FARTHEST) & (_not_padding(view) > 0)
    head = torch.arange(heads, device=maps.device)[None, :, None]
    cell = head * len(OFFSETS) + offset + FARTHEST  # [batch, heads, queries]
    flat = torch.zeros(heads * len(OFFSETS), dtype=torch.float64, device=maps.device)
    flat.scatter_add_(0, cell.clamp(0, len(flat) - 1).flatten(), near.flatten().double())
    return flat.view(heads, len(OFFSETS))


ALL: Sequence[Statistic] = (count, confidence, entropy, distance, special_mass, offsets)
STATISTICS = {statistic.__name__: statistic for statistic in ALL}


def together(statistics: Sequence[Statistic] = ALL) -> Statistic:
    """Several statistics as one: their columns in the given order.  # [heads, numbers of all]"""

    def all_of(view: View) -> Tensor:
        return torch.cat([statistic(view) for statistic in statistics], dim=1)

    return all_of


@dataclass(eq=False)
class Reduce(Tap):
    """Sum statistics of each head's maps on the device.

    Args:
        statistic: Names of statistics, in a list: `count` of attending pieces, `confidence` (the
            largest weight of a row), `entropy`, `distance` in pieces, `special_mass`, and `offsets`
            (17 numbers). Divided by the count, sums are means. Or a function from a `View` of one
            site to [heads, numbers] (default: all, in this order).

    `total[site]` is [heads, numbers], for any size of the corpus.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> sums = wb.Reduce(["count", "confidence"])
        >>> batch = wb.encode(wb.read("primer").docs("test", limit=5))
        >>> _ = wb.forward(model, batch, taps=[sums], hidden=False)
        >>> sums.total[model.sites[0]].shape
        torch.Size([4, 2])
    """

    statistic: Statistic | Sequence[str] = tuple(STATISTICS)
    total: dict[Site, Tensor] = field(default_factory=dict)
    _pending: dict[Site, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        if callable(self.statistic):
            self._statistic = self.statistic
            return
        for name in self.statistic:
            require_choice("statistic", name, STATISTICS)
        self._statistic = together([STATISTICS[name] for name in self.statistic])

    @torch.no_grad()
    def see(self, view: View) -> None:
        self._pending[view.site] = self._statistic(view).to(torch.float64)  # [heads, numbers]

    def close(self, whole: bool) -> None:
        for site, numbers in self._pending.items() if whole else ():
            self.total[site] = self.total[site] + numbers if site in self.total else numbers
        self._pending.clear()
