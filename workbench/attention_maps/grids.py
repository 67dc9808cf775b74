"""All maps of one kind of attention as a grid: layers by heads, or what they come to together.

    grid = grid_of(look, ("encoder", "self"), Options(unit="words", together="mean over heads"))
    grid.map(2, 5)            # [rows, columns] of the third row and sixth column of the grid

Layers and heads keep their numbers whatever is chosen of them. Rollout (Abnar and Zuidema 2020) is
the product, from the lowest layer up, of each layer's mean map with half of it passed straight on.
A map costs a pass over it when it is asked for; nothing is held but the look's own.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, cast, get_args

import numpy as np
import torch

from workbench.attention_maps.capture import Floats, Look, Text
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.public import public
from workbench.engine.taps import Kind, Site, StackName
from workbench.engine.words import Owned, merged

# --- what stands along the sides of a map: pieces, or words; special pieces shown or hidden -------
#
# Word by word, attention is summed over the pieces looked at and averaged over the pieces that
# look, so rows still sum to 1. A special piece, or one that no word owns, stays an item of its
# own. Hidden special pieces leave rows that sum to less; renormalised, rows sum to 1 again, and a
# row of which nothing is left stays empty. Costs a pass over the map.

Unit = Literal["pieces", "words"]
Special = Literal["shown", "hidden", "renormalised"]
LEFT = 1e-6  # of a row's mass: less is nothing, and is not blown up to 1


@dataclass(frozen=True)
class Items:
    """One side of a map."""

    names: tuple[str, ...]
    words: tuple[int, ...]  # the word of each; -1: none
    special: tuple[bool, ...]
    places: tuple[int, ...]  # where each begins, in pieces
    owned: Owned  # the pieces of each

    def __len__(self) -> int:
        return len(self.names)

    @property
    def alike(self) -> tuple[tuple[str, int], ...]:
        """What two sides must have in common to be compared item by item."""
        return tuple(zip(self.names, self.words, strict=True))


def items(text: Text, unit: Unit, special: Special) -> Items:
    """The pieces of a text, or its words."""
    hidden = [is_special and special != "shown" for is_special in text.special]
    groups = np.full(len(text.pieces), -1, dtype=np.int64)
    found: dict[tuple[str, int], int] = {}
    names: list[str] = []
    words: list[int] = []
    specials: list[bool] = []
    places: list[int] = []
    for place, (piece, owner) in enumerate(zip(text.pieces, text.owners, strict=True)):
        if hidden[place]:
            continue
        whole = unit == "words" and owner >= 0
        key = ("word", owner) if whole else ("piece", place)
        if key not in found:
            found[key] = len(names)
            names.append(text.words[owner] if whole else piece)
            words.append(owner)
            specials.append(text.special[place])
            places.append(place)
        groups[place] = found[key]
    there = torch.from_numpy(groups) == torch.arange(len(names))[:, None]  # [items, pieces]
    return Items(tuple(names), tuple(words), tuple(specials), tuple(places), Owned.of(there[None]))


@dataclass(frozen=True)
class Sides:
    """How maps of one kind are shown: what looks, what is looked at, and what becomes of rows."""

    rows: Items
    columns: Items
    renormalised: bool

    def merged(self, maps: Floats) -> Floats:
        """Maps of pieces as maps of items.  # [queries, keys] -> [rows, columns]"""
        found = merged(torch.from_numpy(maps)[None, None], self.rows.owned, self.columns.owned)
        return found[0, 0].numpy()

    def finished(self, maps: Floats) -> Floats:
        """Merged maps as they are shown, alone or several joined.  # [..., rows, columns]"""
        if not self.renormalised:
            return maps
        mass = maps.sum(-1, keepdims=True)
        return np.where(mass > LEFT, maps / np.maximum(mass, LEFT), 0).astype(np.float32)


def sides(look: Look, site: Site, unit: Unit, special: Special) -> Sides:
    """Both sides of a site's maps."""
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

    def __repr__(self) -> str:
        """Its attention, size and options; not its numbers."""
        size = f"{len(self.rows)} rows x {len(self.columns)} columns"
        items = f"{len(self.sides.rows)} x {len(self.sides.columns)} {self.options.unit}"
        return f"<Grid {self.look.model} {' '.join(self.group)}: {size}; maps of {items}>"

    @public
    def map(self, row: int, column: int) -> Floats:
        """One map as it is shown.  # [rows, columns]"""
        for what, index, names in (("row", row, self.rows), ("column", column, self.columns)):
            if not 0 <= index < len(names):
                raise WorkbenchError(
                    f"the grid has no {what} {index}.",
                    code="head-unknown",
                    where=self.look.model,
                    remedy=f"Choose 0 to {len(names) - 1}.",
                )
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


@public
def head_grid(look: Look, group: Group | None = None, **options: Any) -> Grid:
    """Arrange the maps of one kind of attention as a grid of layers by heads.

    Args:
        look: What `wb.attention` captured.
        group: Stack and kind, such as `("decoder", "cross")` (default: the first there is).
        **options: `unit` (`pieces` or `words`), `special` (`shown`, `hidden`, `renormalised`),
            `weigh` (`attention`, or `norms`: times the norm of each value), `together`
            (`each head`, `mean over heads`, `max over layers`, `rollout` …), and `layers` and
            `heads` to choose from.

    Returns:
        A `Grid`; `grid.map(row, column)` is one map, [rows, columns].

    Raises:
        WorkbenchError: The model has no such attention, layer or head, or an option is unknown.

    Example:
        >>> seen = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
        >>> grid = wb.head_grid(seen, unit="words", special="renormalised")
        >>> grid.sides.rows.names
        ('Ben', 'walks', 'to', 'the', 'hill', '.')
        >>> grid.map(0, 3).shape  # layer 0, head 3
        (6, 6)
    """
    for name, value in options.items():
        if name not in _CHOICES:
            raise WorkbenchError(
                f"there is no option {name!r}.", remedy=did_you_mean(name, _CHOICES)
            )
        if not _CHOICES[name] and (
            isinstance(value, str | bytes) or not hasattr(value, "__iter__")
        ):
            raise WorkbenchError(
                f"{name} is {value!r:.60}, not a list of indices.",
                code="wrong-type",
                where="wb.head_grid",
                remedy=f"Pass a list, such as {name}=[2].",
            )
        if (known := _CHOICES[name]) and value not in known:
            raise WorkbenchError(
                f"{name} is {value!r:.60}.", remedy=did_you_mean(str(value), known)
            )
    return grid_of(look, group or groups(look)[0], Options(**options))


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


# --- two grids side by side: whether they can be laid on one another, and if not, why -------------
#
# Items must agree one by one, in what they say and in the word they belong to, and both grids
# must have the same rows and columns; nothing is guessed. Costs a pass over the items.


def apart(one: Grid, other: Grid) -> str:
    """Why no difference can be taken, as a sentence; "" where one can."""
    if one.options.weigh != other.options.weigh:
        return (
            "One side is attention, the other attention times the norm of what is written: "
            "they are not in one unit, so there is no difference to take."
        )
    for what, mine, yours in (
        ("row", one.sides.rows, other.sides.rows),
        ("column", one.sides.columns, other.sides.columns),
    ):
        if why := _unlike(what, mine, yours):
            return why
    if (one.rows, one.columns) != (other.rows, other.columns):
        return (
            f"{one.look.model} has {len(one.rows)} x {len(one.columns)} maps here and "
            f"{other.look.model} {len(other.rows)} x {len(other.columns)}: maps that both have are "
            "shown side by side, without a difference."
        )
    return ""


def _unlike(what: str, mine: Items, yours: Items) -> str:
    pairs = zip_longest(mine.alike, yours.alike)
    for place, (here, there) in enumerate(pairs):
        if here == there:
            continue
        if here is None or there is None:
            longer, rest = (mine, "the first") if there is None else (yours, "the second")
            return (
                f"The texts do not align: there are {len(mine)} {what}s here and {len(yours)} "
                f"there; {longer.names[place]!r} is in {rest} alone."
            )
        if here[0] != there[0]:
            special = (*mine.special[place : place + 1], *yours.special[place : place + 1])
            hint = " Hide special tokens to compare." if any(special) else _by_words(mine, yours)
            return (
                f"The texts do not align: {what} {place} is {here[0]!r} here and {there[0]!r} "
                f"there.{hint}"
            )
        return (
            f"The texts do not align: {what} {place} is {here[0]!r} in both, but of word "
            f"{here[1]} here and word {there[1]} there."
        )
    return ""


def _by_words(mine: Items, yours: Items) -> str:
    """A way out, where two tokenizers cut the same words differently."""
    ours = [max(side.words, default=-1) for side in (mine, yours)]
    cut = len(mine) > len(set(mine.words)) or len(yours) > len(set(yours.words))
    return " By words they may." if ours[0] == ours[1] and cut else ""
