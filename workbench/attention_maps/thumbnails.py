"""All maps of a grid at a glance: small pictures of each, and what each comes to in a few numbers.

A picture is the map with the largest value of each block, so that what is bright stays seen, in
bytes of which 255 is the map's largest value. Costs a pass over every map.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.attention_maps.capture import Floats
from workbench.attention_maps.grids import Grid
from workbench.attention_maps.overlays import Overlay, drawn

MOST = 900_000  # bytes of all pictures together
LARGEST = 72  # pixels a side

ABOUT = {
    "confidence": "The largest weight of each row, on average: 1 looks at one thing only.",
    "entropy": "How evenly attention is spread, on average: 0 on one item, 1 on all alike.",
    "distance": "How many items away it looks, on average.",
    "special mass": "How much of the attention falls on special tokens.",
}


@dataclass(frozen=True)
class Score:
    """A number or a word for each map; None where there is none."""

    name: str
    about: str
    kind: str  # number or text
    values: tuple[tuple[Any, ...], ...]  # rows of columns
    source: str = ""  # the run and table it is from; "": measured here, of this text


@dataclass(frozen=True)
class Overview:
    """Pictures and numbers of every map of a grid."""

    pictures: NDArray[np.uint8]  # [grid rows, grid columns, height, width]
    tops: tuple[tuple[float | None, ...], ...]  # None: there is no such map
    scores: tuple[Score, ...]

    @property
    def size(self) -> int:
        return self.pictures.nbytes


def overview(grid: Grid, overlays: Sequence[Overlay] = ()) -> Overview:
    """Every map once; `overlays` by words, for maps within one text."""
    down, across = len(grid.rows), len(grid.columns)
    rows, columns = len(grid.sides.rows), len(grid.sides.columns)
    side = int(min(LARGEST, max(8, (MOST / (down * across)) ** 0.5)))
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
        for name, value in measured(grid, shown).items():
            values[name][row][column] = value
        for overlay in overlays:
            share = drawn(overlay, grid.sides, shown).share
            values[f"draws {overlay.name}"][row][column] = share
    about = ABOUT | {
        f"draws {overlay.name}": f"The share of pairs it draws, in its better direction. "
        f"{overlay.about}"
        for overlay in overlays
    }
    scores = tuple(
        Score(name, about[name], "number", tuple(map(tuple, found)))
        for name, found in values.items()
    )
    return Overview(pictures, tuple(map(tuple, tops)), scores)


def measured(grid: Grid, shown: Floats) -> dict[str, float | None]:
    """What one map comes to.  # [rows, columns]"""
    found: dict[str, float | None] = dict.fromkeys(_measures(grid))
    mass = shown.sum(-1)  # [rows]
    there = mass > 0
    if not there.any():
        return found
    rows, mass = shown[there], mass[there]
    shares = rows / mass[:, None]
    found["confidence"] = _mean(rows.max(-1))
    places = np.array(grid.sides.rows.places)[there]
    if grid.group[1] == "causal":
        seen = (np.array(grid.sides.columns.places)[None] <= places[:, None]).sum(-1)
    else:
        seen = np.full(len(rows), shown.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = -np.where(shares > 0, shares * np.log(shares), 0).sum(-1)
        even = np.log(seen)
    found["entropy"] = _mean(spread[seen > 1] / even[seen > 1]) if (seen > 1).any() else 0.0
    if "distance" in found:
        apart = np.abs(np.flatnonzero(there)[:, None] - np.arange(shown.shape[1])[None])
        found["distance"] = _mean((shares * apart).sum(-1))
    if "special mass" in found:
        found["special mass"] = _mean(rows[:, np.array(grid.sides.columns.special, bool)].sum(-1))
    return found


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
    """A map in bytes, and the value that 255 stands for."""
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
