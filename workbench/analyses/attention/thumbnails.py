"""Thumbnails of all maps of a grid, and a few scores of each map.

A thumbnail is the max-pooled map, so that large values stay visible, as bytes with 255 for the
map's largest value. Costs: a pass over every map.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.analyses.attention.grids import Grid
from workbench.analyses.attention.maps_of_text import Floats
from workbench.analyses.attention.overlays import Overlay, drawn

MAX_BYTES = 900_000  # of all thumbnails together
LARGEST = 72  # pixels of a thumbnail's side

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
    for row, column, shown in grid.each():
        picture, tops[row][column] = bytes_of(pooled(shown, height, width))
        pictures[row, column] = picture
        for name, value in measured(grid, row, shown).items():
            values[name][row][column] = value
        for overlay in overlays:
            share = drawn(overlay, grid.sides, shown).share
            values[f"draws {overlay.name}"][row][column] = share
    about = ABOUT | {
        f"draws {overlay.name}": "Share of pairs whose attending word has its largest weight on "
        f"the other word (better direction). {overlay.about}"
        for overlay in overlays
    }
    scores = tuple(
        Score(name, about[name], "number", tuple(map(tuple, rows_of_values)))
        for name, rows_of_values in values.items()
    )
    return Overview(pictures, tuple(map(tuple, tops)), scores)


def measured(grid: Grid, row: int, shown: Floats) -> dict[str, float | None]:
    """The scores of one map.  # [rows, columns]"""
    scores: dict[str, float | None] = dict.fromkeys(_measures(grid))
    mass = shown.sum(-1)  # [rows]
    mask = mass > 0
    if not mask.any():
        return scores
    rows, mass = shown[mask], mass[mask]
    shares = rows / mass[:, None]
    scores["confidence"] = _mean(rows.max(-1))
    n_keys = grid.seen(row)[mask].sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(shares > 0, shares * np.log(shares), 0).sum(-1)
        uniform = np.log(n_keys)
    many = n_keys > 1
    scores["entropy"] = _mean(entropy[many] / uniform[many]) if many.any() else 0.0
    if "distance" in scores:
        distances = np.abs(np.flatnonzero(mask)[:, None] - np.arange(shown.shape[1])[None])
        scores["distance"] = _mean((shares * distances).sum(-1))
    if "special mass" in scores:
        scores["special mass"] = _mean(rows[:, np.array(grid.sides.columns.special, bool)].sum(-1))
    return scores


def pooled(shown: Floats, height: int, width: int) -> Floats:
    """The largest value of each block.  # [rows, columns] -> [height, width]"""
    rows, columns = shown.shape
    if not shown.size:
        return np.zeros((height, width), dtype=np.float32)
    if rows > height:
        shown = np.maximum.reduceat(shown, np.arange(height) * rows // height, axis=0)
    if columns > width:
        shown = np.maximum.reduceat(shown, np.arange(width) * columns // width, axis=1)
    return shown


def bytes_of(shown: Floats) -> tuple[NDArray[np.uint8], float]:
    """A map as bytes, and the value of the byte 255."""
    top = float(shown.max(initial=0))
    if top <= 0:
        return np.zeros(shown.shape, dtype=np.uint8), 0.0
    return np.rint(shown * (255 / top)).astype(np.uint8), top


def _measures(grid: Grid) -> list[str]:
    names = ["confidence", "entropy"]
    if grid.group[1] != "cross":
        names.append("distance")
    if any(grid.sides.columns.special):
        names.append("special mass")
    return names


def _mean(values: Floats) -> float:
    return float(values.mean(dtype=np.float64))
