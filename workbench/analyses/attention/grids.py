"""All maps of one kind of attention as a grid: layers by heads, or combined over heads or layers.

    grid = grid_of(maps, ("encoder", "self"), Options(unit="words", together="mean over heads"))
    grid.map(2, 5)            # [rows, columns] of the third row and sixth column of the grid

Rows and columns are called by the numbers of layers and heads, counted from 1. They keep them if
only some are chosen. Rollout (Abnar and Zuidema 2020) is the product, from the lowest layer up, of
each layer's mean map, averaged with the identity. Costs: a pass over a map when it is requested; no
other copy of the maps is stored.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.analyses.attention.browsed import Browsed
from workbench.analyses.attention.maps_of_text import Floats, MapsOfText, Text
from workbench.analyses.attention.orders import seen_in
from workbench.core.display import figure_by
from workbench.core.errors import WorkbenchError, did_you_mean, listed, require_one_of
from workbench.core.head_names import FIRST
from workbench.core.public import public
from workbench.engine.taps import Kind, Site, StackName
from workbench.engine.words import PieceGroups, merged

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# --- the rows and columns of a map: pieces or words; special pieces shown or hidden ---------------
#
# Between words, attention is summed over the pieces of the attended word and averaged over those
# of the attending word, so rows still sum to 1. A special piece, or one that no word owns, stays an
# item of its own. If special pieces are hidden, rows sum to less than 1; renormalised, they sum to
# 1 again, and a row with no mass left stays zero.

Unit = Literal["pieces", "words"]
Special = Literal["shown", "hidden", "renormalised"]
MANY = 12  # layers or heads next to each other; the pictures of more are small
PART = 1 << 22  # weights of the maps that are made at a time
MIN_MASS = 1e-6  # of a row: a smaller mass counts as zero and is not renormalised


@dataclass(frozen=True)
class Items:
    """The rows or the columns of a map."""

    names: tuple[str, ...]
    words: tuple[int, ...]  # the index of the word of each item; -1: none
    special: tuple[bool, ...]
    places: tuple[int, ...]  # the index of the first piece of each item
    ends: tuple[int, ...]  # and of its last
    owned: PieceGroups  # the pieces of each item

    def __len__(self) -> int:
        return len(self.names)

    @property
    def alike(self) -> tuple[tuple[str, int], ...]:
        """Name and word of each item: equal in two maps that can be compared item by item."""
        return tuple(zip(self.names, self.words, strict=True))


def items(text: Text, unit: Unit, special: Special) -> Items:
    """The items of a text: its pieces or its words."""
    hidden = [is_special and special != "shown" for is_special in text.special]
    item_of_piece = np.full(len(text.pieces), -1, dtype=np.int64)
    item_of_key: dict[tuple[str, int], int] = {}
    names: list[str] = []
    words: list[int] = []
    specials: list[bool] = []
    places: list[int] = []
    ends: list[int] = []
    for i, (piece, owner) in enumerate(zip(text.pieces, text.owners, strict=True)):
        if hidden[i]:
            continue
        is_word = unit == "words" and owner >= 0
        key = ("word", owner) if is_word else ("piece", i)
        if key not in item_of_key:
            item_of_key[key] = len(names)
            names.append(text.words[owner] if is_word else piece)
            words.append(owner)
            specials.append(text.special[i])
            places.append(i)
            ends.append(i)
        item_of_piece[i] = item_of_key[key]
        ends[item_of_key[key]] = i
    # [items, pieces]
    mask = torch.from_numpy(item_of_piece) == torch.arange(len(names))[:, None]
    return Items(
        tuple(names), tuple(words), tuple(specials), tuple(places), tuple(ends),
        PieceGroups.of(mask[None]),
    )  # fmt: skip


@dataclass(frozen=True)
class Sides:
    """The rows (queries) and columns (keys) of maps, and whether rows are renormalised."""

    rows: Items
    columns: Items
    renormalised: bool

    def merged(self, maps: Floats) -> Floats:
        """Maps of pieces as maps of items.  # [maps, queries, keys] -> [maps, rows, columns]"""
        are_pieces = self.rows.owned.is_plain and self.columns.owned.is_plain
        if are_pieces and maps.shape[1:] == (len(self.rows), len(self.columns)):
            return maps
        by_items = merged(torch.from_numpy(maps)[None], self.rows.owned, self.columns.owned)
        return by_items[0].numpy()

    def finished(self, maps: Floats) -> Floats:
        """Merged maps, renormalised if that is chosen.  # [..., rows, columns]"""
        if not self.renormalised:
            return maps
        mass = maps.sum(-1, keepdims=True)
        return np.where(mass > MIN_MASS, maps / np.maximum(mass, MIN_MASS), 0).astype(np.float32)


def sides(look: MapsOfText, site: Site, unit: Unit, special: Special) -> Sides:
    """The rows and columns of a site's maps."""
    rows = items(look.queries(site), unit, special)
    columns = items(look.keys(site), unit, special)
    return Sides(rows, columns, special == "renormalised")


# --- grids ----------------------------------------------------------------------------------------

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
_CHOICES: dict[str, tuple[str, ...]] = {
    "unit": get_args(Unit), "special": get_args(Special), "weigh": get_args(Weigh),
    "together": TOGETHER, "layers": (), "heads": (),
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """How maps are displayed."""

    unit: Unit = "pieces"
    special: Special = "shown"
    weigh: Weigh = "attention"  # norms: times the norm of each value after the output projection
    together: Together = "each head"
    layers: tuple[int, ...] = ()  # empty: all
    heads: tuple[int, ...] = ()


@dataclass(frozen=True)
class Grid(Browsed):
    """Maps by row and column, each with its name.

    Example:
        >>> maps = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
        >>> maps.grid(together="mean over heads")
        <Grid mini:bert encoder self: 4 rows x 1 columns; maps of 8 x 8 pieces>
    """

    look: MapsOfText
    group: Group
    options: Options
    layers: tuple[int, ...]  # the index of the layer of each row; none if layers are combined
    heads: tuple[int, ...]  # the index of the head of each column
    sides: Sides
    # the maps of a row at some columns, without those of heads that it lacks, which are its last
    _make: Callable[[int, Sequence[int]], Floats]  # -> [maps, rows, columns]

    def __repr__(self) -> str:
        """Its attention, size and options; not its numbers."""
        size = f"{len(self.rows)} rows x {len(self.columns)} columns"
        items = f"{len(self.sides.rows)} x {len(self.sides.columns)} {self.options.unit}"
        return f"<Grid {self.look.model} {' '.join(self.group)}: {size}; maps of {items}>"

    @property
    def grids(self) -> "tuple[Grid, ...]":
        """This grid, for the browser."""
        return (self,)

    @property
    def rows(self) -> tuple[str, ...]:
        """The numbers of the layers, or how they are combined."""
        return _names(self.layers) or (self._combined,)

    @property
    def columns(self) -> tuple[str, ...]:
        """The numbers of the heads, or how they are combined."""
        return _names(self.heads) or (self._combined,)

    @property
    def _combined(self) -> str:
        return self.options.together.partition(" over ")[0]

    @property
    def windows(self) -> tuple[int, ...]:
        """For each row, how many pieces away attention goes at most; 0: no limit."""
        chosen = self.layers or self.options.layers
        sites = [s for s in self.look.maps if _is(s, self.group)]
        of = [site.window for site in sites if not chosen or site.layer in chosen]
        if self.options.together == "rollout":  # it goes from window to window
            return (0,) * len(self.rows)
        return tuple(of) if self.layers else (max(of) if all(of) else 0,)

    @property
    def n_global(self) -> int:
        """Number of first pieces that see all and that all see, whatever the window."""
        return max(site.n_global for site in self.look.maps if _is(site, self.group))

    def seen(self, row: int) -> NDArray[np.bool_]:
        """Which items may attend to which, by mask, window and order.  # [rows, columns]"""
        rows, columns = self.sides.rows, self.sides.columns
        first, last = (np.array(each, dtype=int)[:, None] for each in (rows.places, rows.ends))
        from_, to = (np.array(each, dtype=int)[None] for each in (columns.places, columns.ends))
        seen = np.ones((len(rows), len(columns)), dtype=bool)
        if self.group[1] == "causal":
            seen &= from_ <= first
        if window := self.windows[row]:
            near = (from_ - last <= window) & (first - to <= window)
            seen &= near | (np.minimum(first, from_) < self.n_global)
        if self.look.places:
            by_piece = seen_in(self.look.places, self.group[1]).astype(np.float32)
            seen &= self.sides.merged(by_piece[None])[0] > 0
        return seen

    @property
    def layers_across(self) -> bool:
        """Whether an overview has its layers across: they are many, and more than the heads."""
        return len(self.rows) > max(MANY, len(self.columns))

    @public
    def map(self, row: int, column: int) -> Floats:
        """One map as it is displayed.  # [rows, columns]"""
        rows, columns = ("row", "layers", row, self.rows), ("column", "heads", column, self.columns)
        for what, of, index, names in (rows, columns):
            if not 0 <= index < len(names):
                raise WorkbenchError(
                    f"the grid has no {what} {index}: its {what}s are the {of} {listed(names)}.",
                    code="head-missing",
                    where=self.look.model,
                    remedy=f"Choose an index from 0 to {len(names) - 1}.",
                )
        maps = self._make(row, [column])
        if not len(maps):
            raise WorkbenchError(
                f"Layer {self.rows[row]} has no head {self.columns[column]}.",
                code="head-missing",
                where=self.look.model,
                remedy="Choose another head.",
            )
        one: Floats = maps[0]
        return one

    def each(self) -> Iterator[tuple[int, int, Floats]]:
        """All maps of the grid, row by row."""
        for row, first, maps in self.parts():
            yield from ((row, first + n, shown) for n, shown in enumerate(maps))

    def parts(self) -> Iterator[tuple[int, int, Floats]]:
        """All maps, some of a row at a time, with the first column.  # [maps, rows, columns]"""
        size = max(1, PART // max(1, len(self.sides.rows) * len(self.sides.columns)))
        columns = range(len(self.columns))
        for row in range(len(self.rows)):
            for first in columns[::size]:
                yield row, first, self._make(row, columns[first : first + size])

    def figure(self) -> "Figure":
        """Draw the maps as heat maps: attending items are rows, attended items columns.

        Returns:
            A Plotly figure, with a panel for each map.

        Raises:
            WorkbenchError: The grid has more maps than can be read next to each other.

        Example:
            >>> maps = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
            >>> len(maps.grid(unit="words", layers=[0, 1]).figure().data)
            8
        """
        return figure_by("workbench.analyses.attention.figures:maps_of_text", self)

    def site(self, row: int, column: int) -> tuple[Site, int] | None:
        """The site and head of one map; None for a combination of several."""
        if self.options.together != "each head":
            return None
        layer, head = self.layers[row], self.heads[column]
        return next((s, head) for s in self.look.maps if _is(s, self.group) and s.layer == layer)


def _names(indices: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(str(index + FIRST) for index in indices)


def groups(look: MapsOfText) -> list[Group]:
    """The kinds of attention of a model, in the order of the forward pass."""
    return list(dict.fromkeys((site.stack, site.kind) for site in look.maps))


def numbers(look: MapsOfText, group: Group) -> tuple[list[int], list[int]]:
    """The layers and the heads of a kind of attention."""
    sites = [site for site in look.maps if _is(site, group)]
    return [site.layer for site in sites], list(range(max(site.heads for site in sites)))


def options_of(given: Mapping[str, Any]) -> Options:
    """Options by their names; an error names the one that is wrong."""
    for name, value in given.items():
        require_one_of(name, _CHOICES, f"There is no option {name!r}.", code="setting-unknown")
        if not _CHOICES[name] and (
            isinstance(value, str | bytes) or not hasattr(value, "__iter__")
        ):
            raise WorkbenchError(
                f"{name} is {value!r:.60}, not a list of indices.",
                code="wrong-type",
                where="AttentionMaps.grid",
                remedy=f"Pass a list, such as {name}=[2].",
            )
        if (known := _CHOICES[name]) and value not in known:
            raise WorkbenchError(
                f"{name} cannot be {value!r:.60}.",
                code="setting-invalid",
                remedy=did_you_mean(str(value), known),
            )
    lists = {name: tuple(given[name]) for name in given if not _CHOICES[name]}
    return Options(**{**given, **lists})


def grid_of(look: MapsOfText, group: Group, options: Options) -> Grid:
    """The grid of one kind of attention."""
    sites = {site.layer: site for site in look.maps if _is(site, group)}
    if not sites:
        raise WorkbenchError(
            f"{look.model} has no {group[0]} {group[1]} attention.",
            code="no-attention",
            remedy=f"Choose one of: {', '.join(' '.join(g) for g in groups(look))}.",
        )
    if options.weigh == "norms" and any(site not in look.norms for site in sites.values()):
        raise WorkbenchError(
            f"Value vectors of {look.model} are not available, so attention cannot be weighted by "
            "their norms.",
            code="model-unsupported",
            remedy="Choose attention as the value.",
        )
    layers = _chosen("layer", options.layers, list(sites))
    heads = _chosen("head", options.heads, list(range(max(s.heads for s in sites.values()))))
    shown = sides(look, sites[layers[0]], options.unit, options.special)

    def weighted(layer: int, chosen: Sequence[int]) -> Floats:  # [heads, queries, keys]
        site = sites[layer]
        present = [head for head in chosen if head < site.heads]
        weights: Floats = look.maps[site][present]
        return weights * look.norms[site][present, None] if options.weigh == "norms" else weights

    how, _, across = options.together.partition(" over ")
    if options.together == "rollout":
        rolled = _rollout([weighted(layer, heads) for layer in layers], group)
        return Grid(
            look,
            group,
            options,
            tuple(layers),
            (),
            shown,
            lambda row, _: shown.finished(shown.merged(rolled[row][None])),
        )

    def make(row: int, columns: Sequence[int]) -> Floats:
        row_layers = layers if across in ("layers", "both") else layers[row : row + 1]
        is_of_all = across in ("heads", "both")
        chosen = heads if is_of_all else [heads[column] for column in columns]
        found = [shown.merged(weighted(layer, chosen)) for layer in row_layers]
        if not across:
            return shown.finished(found[0])
        if is_of_all:
            parts = [[one for maps in found for one in maps]]
        else:
            parts = [
                [maps[n] for maps in found if n < len(maps)] for n in range(max(map(len, found)))
            ]
        combined = [shown.finished(_combined(maps, how)) for maps in parts if maps]
        return np.stack(combined) if combined else found[0]

    rows = () if across in ("layers", "both") else tuple(layers)
    columns = () if across in ("heads", "both") else tuple(heads)
    return Grid(look, group, options, rows, columns, shown, make)


def _combined(maps: list[Floats], how: str) -> Floats:
    """The mean or maximum of maps; a single map is unchanged."""
    if len(maps) == 1:
        return maps[0]
    if how == "max":
        return cast(Floats, np.maximum.reduce(maps))
    mean: Floats = np.stack(maps).mean(0, dtype=np.float64).astype(np.float32)
    return mean


def _rollout(maps: list[Floats], group: Group) -> list[Floats]:
    """The rollout after each layer, from the lowest chosen one up.  # [queries, keys] each"""
    if group[1] in ("cross", "query"):
        between = "cross-attention is between two texts"
        if group[1] == "query":
            between = "the query stream attends to the content stream"
        raise WorkbenchError(
            f"Rollout needs attention within one text; {between}.",
            code="setting-invalid",
            remedy="Choose self-attention, or another way to combine heads.",
        )
    rolled: list[Floats] = []
    for each in maps:
        mean = each.mean(0, dtype=np.float64)
        mixed = 0.5 * mean + 0.5 * np.eye(len(mean))
        mixed /= mixed.sum(-1, keepdims=True)
        rolled.append((mixed @ rolled[-1] if rolled else mixed).astype(np.float32))
    return rolled


def _chosen(what: str, chosen: tuple[int, ...], available: list[int]) -> list[int]:
    """The chosen layers or heads in the model's order; all by default."""
    unknown = sorted(set(chosen) - set(available))
    if unknown:
        raise WorkbenchError(
            f"There is no {what} with the index {unknown[0]}.",
            code=f"{what}-missing",
            remedy=f"Choose an index from 0 to {max(available)}.",
        )
    return [number for number in available if number in chosen] if chosen else available


def _is(site: Site, group: Group) -> bool:
    return (site.stack, site.kind) == group


# --- comparison of two grids ----------------------------------------------------------------------
#
# The difference needs items with equal names and words, one by one, and grids with equal rows and
# columns.


def apart(one: Grid, other: Grid) -> str:
    """Why the difference of two grids is undefined, as a sentence; "" if it is defined."""
    if one.options.weigh != other.options.weigh:
        return (
            "One side shows attention, the other attention × value norm. The units differ, so "
            "their difference is undefined."
        )
    for what, mine, yours in (
        ("row", one.sides.rows, other.sides.rows),
        ("column", one.sides.columns, other.sides.columns),
    ):
        if why := _unlike(what, mine, yours):
            return why
    if (one.rows, one.columns) != (other.rows, other.columns):
        return (
            f"{one.look.model} has {len(one.rows)} × {len(one.columns)} maps and "
            f"{other.look.model} {len(other.rows)} × {len(other.columns)}. Maps that both have are "
            "shown next to each other, without their difference."
        )
    return ""


def _unlike(what: str, mine: Items, yours: Items) -> str:
    pairs = zip_longest(mine.alike, yours.alike)
    for i, (first, second) in enumerate(pairs):
        if first == second:
            continue
        if first is None or second is None:
            longer, which = (mine, "first") if second is None else (yours, "second")
            return (
                f"The texts do not align: the first has {len(mine)} {what}s, the second "
                f"{len(yours)}; {longer.names[i]!r} is only in the {which}."
            )
        if first[0] != second[0]:
            special = (*mine.special[i : i + 1], *yours.special[i : i + 1])
            hint = " Hide special tokens to compare." if any(special) else _hint(mine, yours)
            return (
                f"The texts do not align: {what} {i} is {first[0]!r} in the first and "
                f"{second[0]!r} in the second.{hint}"
            )
        return (
            f"The texts do not align: {what} {i} is {first[0]!r} in both, but it is in word "
            f"{first[1]} of the first and word {second[1]} of the second."
        )
    return ""


def _hint(mine: Items, yours: Items) -> str:
    """A hint if two tokenizers split the same words differently."""
    last_words = [max(side.words, default=-1) for side in (mine, yours)]
    has_pieces = len(mine) > len(set(mine.words)) or len(yours) > len(set(yours.words))
    return (
        " Choose words as the unit to compare." if len(set(last_words)) == 1 and has_pieces else ""
    )
