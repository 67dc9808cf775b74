"""Thumbnails of all maps of a grid, a few scores of each map, and groups of similar ones.

A thumbnail is the max-pooled map, so that large values stay visible, as bytes with 255 for the
map's largest value. Costs: a pass over every map; with many heads, k-means of the thumbnails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from workbench.analyses.attention.grids import MANY, Grid
from workbench.analyses.attention.maps_of_text import Floats
from workbench.analyses.attention.overlays import Overlay, drawn

MAX_BYTES = 900_000  # of all thumbnails together
LARGEST = 72  # pixels of a thumbnail's side
GROUPS, COARSE = 12, 12  # of similar maps; pixels of the thumbnails that are compared
GROUP = "group"
ABOUT_GROUP = (
    "Groups of heads whose maps of this text look alike, by k-means of the thumbnails; A is the "
    "largest. In the order by value, heads of a group are next to each other."
)

ABOUT = {
    "confidence": "Mean of each row's largest weight (1: all attention on one item).",
    "entropy": "Mean normalised entropy of the rows (0: one item, 1: uniform).",
    "distance": "Mean distance to the attended items, in items.",
    "special mass": "Share of attention on special tokens.",
}


@dataclass(frozen=True)
class Score:
    """A number or a word for each map; None if it is undefined."""

    name: str
    about: str
    kind: str  # number or text
    values: tuple[tuple[Any, ...], ...]  # rows of columns
    source: str = ""  # the run and table it is from; "": computed here, for this text


@dataclass(frozen=True)
class Overview:
    """Thumbnails and scores of all maps of a grid."""

    pictures: NDArray[np.uint8]  # [grid rows, grid columns, height, width]
    tops: tuple[tuple[float | None, ...], ...]  # largest values; None: there is no such map
    scores: tuple[Score, ...]

    @property
    def size(self) -> int:
        return self.pictures.nbytes


def overview(grid: Grid, overlays: Sequence[Overlay] = ()) -> Overview:
    """Thumbnails and scores of every map; `overlays` by words, for maps within one text."""
    down, across = len(grid.rows), len(grid.columns)
    rows, columns = len(grid.sides.rows), len(grid.sides.columns)
    side = int(min(LARGEST, max(8, (MAX_BYTES / (down * across)) ** 0.5)))
    height, width = max(1, min(rows, side)), max(1, min(columns, side))
    pictures = np.zeros((down, across, height, width), dtype=np.uint8)
    tops: list[list[float | None]] = [[None] * across for _ in range(down)]
    names = [*_measures(grid), *(f"draws {overlay.name}" for overlay in overlays)]
    values: dict[str, list[list[Any]]] = {
        name: [[None] * across for _ in range(down)] for name in names
    }
    for row, first, maps in grid.parts():
        part = slice(first, first + len(maps))
        pictures[row, part], largest = bytes_of(pooled(maps, height, width))
        tops[row][part] = largest.tolist()
        for name, found in measured(grid, row, maps).items():
            values[name][row][part] = found
        for overlay in overlays:
            shares = [drawn(overlay, grid.sides, shown).share for shown in maps]
            values[f"draws {overlay.name}"][row][part] = shares
    about = ABOUT | {
        f"draws {overlay.name}": "Share of pairs whose attending word has its largest weight on "
        f"the other word (better direction). {overlay.about}"
        for overlay in overlays
    }
    scores = [
        Score(name, about[name], "number", tuple(map(tuple, rows_of_values)))
        for name, rows_of_values in values.items()
    ]
    if down * across > MANY**2:
        scores.append(Score(GROUP, ABOUT_GROUP, "text", groups_of(pictures, tops)))
    return Overview(pictures, tuple(map(tuple, tops)), tuple(scores))


def groups_of(
    pictures: NDArray[np.uint8], tops: Sequence[Sequence[float | None]]
) -> tuple[tuple[str | None, ...], ...]:
    """The group of similar maps of each map, by k-means of the thumbnails; A is the largest."""
    down, across, height, width = pictures.shape
    whole = pictures.reshape(down * across, height, width)
    rows, columns = min(height, COARSE), min(width, COARSE)
    small = pooled(whole.astype(np.float32), rows, columns).reshape(len(whole), -1) / 255
    known = np.array([top is not None for line in tops for top in line])
    n_groups = min(GROUPS, len(np.unique(small[known], axis=0)))
    _, own = kmeans2(small[known], n_groups, minit="++", rng=0)
    order = np.argsort(-np.bincount(own, minlength=n_groups), kind="stable")
    letters = np.array([*ascii_uppercase[:n_groups]])[np.argsort(order)]
    found = np.full(down * across, None, dtype=object)
    found[known] = letters[own].tolist()
    return tuple(map(tuple, found.reshape(down, across).tolist()))


def measured(grid: Grid, row: int, maps: Floats) -> dict[str, list[float | None]]:
    """The scores of some maps of a row.  # [maps, rows, columns]"""
    mass = maps.sum(-1)  # [maps, rows]
    mask = mass > 0

    def mean(values: Floats, mask: NDArray[np.bool_] = mask) -> list[float | None]:
        count, total = mask.sum(-1), np.where(mask, values, 0).sum(-1, dtype=np.float64)
        return [float(t / n) if n else None for t, n in zip(total, count, strict=True)]

    share = np.where(mask, mass, 1)
    logs = np.log(np.maximum(maps, np.finfo(np.float32).tiny))
    n_keys = grid.seen(row).sum(-1)  # [rows]
    entropy = np.log(share) - np.einsum("hij,hij->hi", maps, logs) / share
    found = {"confidence": mean(maps.max(-1, initial=0))}
    evenness = mean(entropy / np.log(np.maximum(n_keys, 2)), mask & (n_keys > 1))
    found["entropy"] = [
        None if one is None else each or 0.0
        for one, each in zip(found["confidence"], evenness, strict=True)
    ]
    measures = _measures(grid)
    if "distance" in measures:
        apart = np.abs(np.arange(maps.shape[1])[:, None] - np.arange(maps.shape[2])[None])
        found["distance"] = mean(np.einsum("hij,ij->hi", maps, apart.astype(np.float32)) / share)
    if "special mass" in measures:
        special = np.array(grid.sides.columns.special, bool)
        found["special mass"] = mean(maps[..., special].sum(-1))
    return found


def pooled(shown: Floats, height: int, width: int) -> Floats:
    """The largest value of each block.  # [..., rows, columns] -> [..., height, width]"""
    rows, columns = shown.shape[-2:]
    if not shown.size:
        return np.zeros((*shown.shape[:-2], height, width), dtype=np.float32)
    if rows > height:
        shown = np.maximum.reduceat(shown, np.arange(height) * rows // height, axis=-2)
    if columns > width:
        shown = np.maximum.reduceat(shown, np.arange(width) * columns // width, axis=-1)
    return shown


def bytes_of(shown: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Maps as bytes, and the values of the byte 255.  # [..., rows, columns]"""
    top = shown.max((-2, -1), initial=0, keepdims=True)
    scale = np.divide(255.0, top, out=np.zeros(top.shape), where=top > 0).astype(np.float32)
    return np.rint(shown * scale).astype(np.uint8), top[..., 0, 0]


def _measures(grid: Grid) -> list[str]:
    names = ["confidence", "entropy"]
    if grid.group[1] != "cross":
        names.append("distance")
    if any(grid.sides.columns.special):
        names.append("special mass")
    return names
