"""The view as a file: numbers as CSV or NPZ, or one HTML page that opens with no network.

What is open is saved, one map of each side; with none open, the scores of all maps (CSV) or all
maps (NPZ). The page carries the overview and as many maps as fit, the open one first. Costs a pass
over the maps that are saved.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import WorkbenchError, did_you_mean
from workbench.view.browser.assets import standalone
from workbench.view.browser.drawing import cell_of, overview_of
from workbench.view.browser.scene import Scene, Side

MOST = 100 << 20  # bytes of maps in one file
PAGE = 12 << 20  # bytes of maps in a page
Cell = tuple[int, int] | None


@dataclass(frozen=True)
class Made:
    """A file to be saved."""

    name: str
    type: str
    content: bytes


def made(scene: Scene, form: str, cell: Cell, state: dict[str, Any]) -> Made:
    """The file of this form."""
    forms = {"csv": "text/csv", "npz": "application/zip", "html": "text/html"}
    if form not in forms:
        raise WorkbenchError(f"there is no form {form!r:.40}.", remedy=did_you_mean(form, forms))
    if form == "csv":
        table = _scores(scene) if cell is None else _values(scene, cell)
        content = table.to_csv(index=False).encode("utf-8", "surrogatepass")
    elif form == "npz":
        content = _arrays(scene, cell)
    else:
        content = _page(scene, cell, state)
    return Made(f"{_name(scene, cell)}.{form}", forms[form], content)


def _values(scene: Scene, cell: tuple[int, int]) -> pd.DataFrame:
    """One row for each pair of items."""
    parts = []
    for side in scene.sides:
        shown, rows, columns = side.grid.map(*cell), side.grid.sides.rows, side.grid.sides.columns
        high, wide = shown.shape
        parts.append(
            pd.DataFrame(
                {
                    "model": side.grid.look.model,
                    **_where(side, *cell),
                    **_how(side),
                    "row": np.repeat(np.array(rows.places), wide),
                    "row_token": np.repeat(np.array(rows.names, dtype=object), wide),
                    "column": np.tile(np.array(columns.places), high),
                    "column_token": np.tile(np.array(columns.names, dtype=object), high),
                    "value": shown.ravel(),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _scores(scene: Scene) -> pd.DataFrame:
    """One row for each map, with all its scores."""
    rows = [
        {
            "model": side.grid.look.model,
            **_where(side, row, column),
            **{score.name: score.values[row][column] for score in side.scores},
        }
        for side in scene.sides
        for row in range(len(side.grid.rows))
        for column in range(len(side.grid.columns))
        if side.overview.tops[row][column] is not None
    ]
    return pd.DataFrame(rows)


def _where(side: Side, row: int, column: int) -> dict[str, str]:
    stack, kind = side.grid.group
    places = {"layer": side.grid.rows[row], "head": side.grid.columns[column]}
    return {"stack": stack, "kind": kind, **places}


def _how(side: Side) -> dict[str, str]:
    """What the numbers are."""
    options = side.grid.options
    return {"by": options.unit, "special": options.special, "value_of": options.weigh}


def _arrays(scene: Scene, cell: Cell) -> bytes:
    found: dict[str, Any] = {}
    for place, side in enumerate(scene.sides):
        end = "" if len(scene.sides) == 1 else str(place)
        sides = side.grid.sides
        found[f"rows{end}"] = np.array(sides.rows.names)
        found[f"columns{end}"] = np.array(sides.columns.names)
        found[f"layers{end}"] = np.array(side.grid.rows)
        found[f"heads{end}"] = np.array(side.grid.columns)
        found[f"model{end}"] = np.array(side.grid.look.model)
        found[f"text{end}"] = np.array(side.caption)
        found |= {f"{name}{end}": np.array(told) for name, told in _how(side).items()}
        if cell is not None:
            found[f"map{end}"] = side.grid.map(*cell)  # [rows, columns]
            found[f"place{end}"] = np.array(cell)
            continue
        down, across = len(side.grid.rows), len(side.grid.columns)
        if 4 * down * across * len(sides.rows) * len(sides.columns) > MOST:
            raise WorkbenchError(
                "all maps together are too much for one file.",
                remedy="Open a head and save that, or use workbench.maps from Python.",
            )
        maps = np.full((down, across, len(sides.rows), len(sides.columns)), np.nan, np.float32)
        for row, column, shown in side.grid.each():
            maps[row, column] = shown
        found[f"maps{end}"] = maps  # [layers, heads, rows, columns]
    file = io.BytesIO()
    np.savez_compressed(file, **found)
    return file.getvalue()


def _page(scene: Scene, cell: Cell, state: dict[str, Any]) -> bytes:
    frames, size = [overview_of(scene, state, offline=True)], 0
    for row, column in _nearest_first(scene, cell):
        if any(side.overview.tops[row][column] is None for side in scene.sides):
            continue
        frames.append(cell_of(scene, row, column))
        size += len(frames[-1])
        if size > PAGE:
            break
    return standalone(frames, f"Attention of {scene.sides[0].grid.look.model}")


def _nearest_first(scene: Scene, cell: Cell) -> Iterator[tuple[int, int]]:
    """All places of the grid, the open one and those by it first."""
    down, across = cell or (0, 0)
    places = [(row, column) for row in range(scene.rows) for column in range(scene.columns)]
    yield from sorted(places, key=lambda at: (abs(at[0] - down) + abs(at[1] - across), at))


def _name(scene: Scene, cell: Cell) -> str:
    grid = scene.sides[0].grid
    model = re.sub(r"[^A-Za-z0-9.]+", "-", grid.look.model).strip("-")[-60:] or "model"
    place = "" if cell is None else f"-layer-{grid.rows[cell[0]]}-head-{grid.columns[cell[1]]}"
    return f"attention-{model}-{'-'.join(grid.group)}{place}".replace(" ", "-")
