"""What stands along the sides of a map: pieces, or words; special pieces shown or hidden.

Word by word, attention is summed over the pieces looked at and averaged over the pieces that look,
so rows still sum to 1. A special piece, or one that no word owns, stays an item of its own. Hidden
special pieces leave rows that sum to less; renormalised, rows sum to 1 again, and a row of which
nothing is left stays empty. Costs a pass over the map.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from workbench.engine.taps import Site
from workbench.maps.look import Floats, Look, Text

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
    _groups: NDArray[np.int64]  # [pieces], the item of each; -1: hidden

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
    return Items(tuple(names), tuple(words), tuple(specials), tuple(places), groups)


@dataclass(frozen=True)
class Sides:
    """How maps of one kind are shown: what looks, what is looked at, and what becomes of rows."""

    rows: Items
    columns: Items
    renormalised: bool

    def merged(self, maps: Floats) -> Floats:
        """Maps of pieces as maps of items.  # [..., queries, keys] -> [..., rows, columns]"""
        return _merged(_merged(maps, self.columns, -1, mean=False), self.rows, -2, mean=True)

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


def _merged(maps: Floats, side: Items, axis: int, mean: bool) -> Floats:
    """Pieces of one axis summed, or averaged, into items; hidden ones left out."""
    groups = side._groups
    if len(side) == len(groups):
        return maps
    order = np.argsort(groups, kind="stable")
    order = order[groups[order] >= 0]
    taken = np.take(maps, order, axis=axis)
    counts = np.bincount(groups[order], minlength=len(side))
    if (counts == 1).all():
        return taken
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    summed: Floats = np.add.reduceat(taken, starts, axis=axis)
    if mean:
        times = counts.astype(np.float32)  # [items]
        summed /= times if axis == -1 else times[:, None]
    return summed
