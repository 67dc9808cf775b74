"""All maps of one kind of attention as a grid: layers by heads, or what they come to together.

    grid = grid_of(look, ("encoder", "self"), Options(unit="words", together="mean over heads"))
    grid.map(2, 5)            # [rows, columns] of the third row and sixth column of the grid

Layers and heads keep their numbers whatever is chosen of them. Rollout (Abnar and Zuidema 2020) is
the product, from the lowest layer up, of each layer's mean map with half of it passed straight on.
A map costs a pass over it when it is asked for; nothing is held but the look's own.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

from workbench.engine.taps import Kind, Site, StackName
from workbench.errors import WorkbenchError
from workbench.maps.items import Sides, Special, Unit, sides
from workbench.maps.look import Floats, Look

Group = tuple[StackName, Kind]
Weigh = Literal["attention", "norms"]
Together = Literal[
    "each head",
    "mean over heads",
    "max over heads",
    "mean over layers",
    "max over layers",
    "mean over both",
    "max over both",
    "rollout",
]
TOGETHER: tuple[Together, ...] = get_args(Together)


@dataclass(frozen=True)
class Options:
    """How maps are shown."""

    unit: Unit = "pieces"
    special: Special = "shown"
    weigh: Weigh = "attention"  # norms: times the norm of each value through the output map
    together: Together = "each head"
    layers: tuple[int, ...] = ()  # none: all
    heads: tuple[int, ...] = ()


@dataclass(frozen=True)
class Grid:
    """Maps by row and column, each with its name."""

    look: Look
    group: Group
    options: Options
    rows: tuple[str, ...]  # the layers, or what they come to
    columns: tuple[str, ...]
    sides: Sides
    _make: Callable[[int, int], Floats | None]  # pieces: [queries, keys]

    def map(self, row: int, column: int) -> Floats:
        """One map as it is shown.  # [rows, columns]"""
        found = self._make(row, column)
        if found is None:
            raise WorkbenchError(
                f"layer {self.rows[row]} has no head {self.columns[column]}.",
                where=self.look.model,
                remedy="Choose another head.",
            )
        return found

    def each(self) -> Iterator[tuple[int, int, Floats]]:
        """Every map there is, row by row."""
        for row in range(len(self.rows)):
            for column in range(len(self.columns)):
                found = self._make(row, column)
                if found is not None:
                    yield row, column, found

    def site(self, row: int, column: int) -> tuple[Site, int] | None:
        """The site and head of one map; None for what several come to."""
        if self.options.together != "each head":
            return None
        layer, head = int(self.rows[row]), int(self.columns[column])
        return next((s, head) for s in self.look.maps if _is(s, self.group) and s.layer == layer)


def groups(look: Look) -> list[Group]:
    """The kinds of attention there are, in the order of the calls."""
    return list(dict.fromkeys((site.stack, site.kind) for site in look.maps))


def numbers(look: Look, group: Group) -> tuple[list[int], list[int]]:
    """The layers and the heads of a kind of attention."""
    own = [site for site in look.maps if _is(site, group)]
    return [site.layer for site in own], list(range(max(site.heads for site in own)))


def grid_of(look: Look, group: Group, options: Options) -> Grid:
    """The grid of one kind of attention."""
    own = {site.layer: site for site in look.maps if _is(site, group)}
    if not own:
        raise WorkbenchError(
            f"{look.model} has no {group[0]} {group[1]} attention.",
            remedy=f"It has {', '.join(' '.join(g) for g in groups(look))}.",
        )
    if options.weigh == "norms" and any(site not in look.norms for site in own.values()):
        raise WorkbenchError(
            f"{look.model} does not show its value vectors, so attention cannot be weighted by "
            "their norms.",
            remedy="Look at plain attention.",
        )
    layers = _chosen("layer", options.layers, list(own))
    heads = _chosen("head", options.heads, list(range(max(s.heads for s in own.values()))))
    shown = sides(look, own[layers[0]], options.unit, options.special)
    rows, columns = tuple(map(str, layers)), tuple(map(str, heads))

    def weighted(layer: int, head: int) -> Floats | None:  # [queries, keys]
        site = own[layer]
        if head >= site.heads:
            return None
        weights: Floats = look.maps[site][head]
        return weights * look.norms[site][head] if options.weigh == "norms" else weights

    how, _, across = options.together.partition(" over ")
    if options.together == "rollout":
        rolled = _rollout([_there(weighted(n, head) for head in heads) for n in layers], group)
        return Grid(
            look,
            group,
            options,
            rows,
            ("rollout",),
            shown,
            lambda row, _: shown.finished(shown.merged(rolled[row])),
        )
    if across in ("layers", "both"):
        rows = (how,)
    if across in ("heads", "both"):
        columns = (how,)

    def make(row: int, column: int) -> Floats | None:
        below = layers if across in ("layers", "both") else layers[row : row + 1]
        beside = heads if across in ("heads", "both") else heads[column : column + 1]
        found = _there(weighted(layer, head) for layer in below for head in beside)
        return shown.finished(_joined(list(map(shown.merged, found)), how)) if found else None

    return Grid(look, group, options, rows, columns, shown, make)


def _there(found: Iterable[Floats | None]) -> list[Floats]:
    return [each for each in found if each is not None]


def _joined(maps: list[Floats], how: str) -> Floats:
    """What several maps come to; one alone is itself."""
    if len(maps) == 1:
        return maps[0]
    if how == "max":
        return cast(Floats, np.maximum.reduce(maps))
    mean: Floats = np.stack(maps).mean(0, dtype=np.float64).astype(np.float32)
    return mean


def _rollout(maps: list[list[Floats]], group: Group) -> list[Floats]:
    """Layer by layer, from the lowest chosen one up.  # [queries, keys] each"""
    if group[1] == "cross":
        raise WorkbenchError(
            "rollout follows attention within one text; cross-attention joins two.",
            remedy="Choose self-attention, or another way to put heads together.",
        )
    rolled: list[Floats] = []
    for each in maps:
        mean = np.stack(each).mean(0, dtype=np.float64)
        mixed = 0.5 * mean + 0.5 * np.eye(len(mean))
        mixed /= mixed.sum(-1, keepdims=True)
        rolled.append((mixed @ rolled[-1] if rolled else mixed).astype(np.float32))
    return rolled


def _chosen(what: str, asked: tuple[int, ...], there: list[int]) -> list[int]:
    """Those asked for, in their own order; all where none are."""
    unknown = sorted(set(asked) - set(there))
    if unknown:
        raise WorkbenchError(
            f"there is no {what} {unknown[0]}.", remedy=f"There are 0 to {max(there)}."
        )
    return [number for number in there if number in asked] if asked else there


def _is(site: Site, group: Group) -> bool:
    return (site.stack, site.kind) == group
