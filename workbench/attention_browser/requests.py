"""What the browser asks for, answered as frames: a map, exact values, query and key, a file.

    answered(scene, request)             what is wrong in a request is told, never raised

The form of the messages is told in `MESSAGES.md` beside this file. Nothing here runs a model. An
answer costs a pass over one map, a file over those in it.
"""

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.attention_browser.frames import cell_of, framed, no_neurons, overview_of, standalone
from workbench.attention_browser.scene import Scene, Side
from workbench.attention_maps.capture import Floats
from workbench.core.errors import WorkbenchError, did_you_mean

Request = Mapping[str, Any]
_RELOAD = "Reload the page: what it shows and what the app has are not the same any more."


def answered(scene: Scene, request: Request) -> bytes:
    """The answer to one request."""
    given = request.get("id")
    number: int = given if isinstance(given, int) else 0
    try:
        what = request.get("what")
        if what == "overview":
            return overview_of(scene, state_in(scene, request))
        if what == "state":
            return framed({"kind": "ok", "id": number, "view": scene.id})
        if what == "export":
            return _file(scene, request, number)
        row, column = _place(scene, request)
        asked = {"id": number, "view": scene.id, "row": row, "column": column}
        if what == "cell":
            return cell_of(scene, row, column, number)
        i, j = _pair(scene, request)
        if what == "exact":
            return _exact(scene, asked, i, j)
        if what == "neurons":
            return _neurons(scene, asked, i, j)
        raise WorkbenchError(
            f"the browser asked for {str(what)!r:.40}, which is nothing known.", remedy=_RELOAD
        )
    except WorkbenchError as error:
        return framed({"kind": "problem", "id": number, "view": scene.id, "text": str(error)})


def state_in(scene: Scene, request: Request) -> dict[str, Any]:
    """The state that a request or an address carries, as far as this scene has such a place."""
    given = request.get("state")
    state: dict[str, Any] = {
        "cell": None, "pin": None, "look": "map", "score": None, "order": "grid", "over": []
    }  # fmt: skip
    if not isinstance(given, Mapping):
        return state
    if given.get("look") in ("map", "lines"):
        state["look"] = given["look"]
    first = scene.sides[0]
    if given.get("score") in [score.name for score in first.scores]:
        state["score"] = given["score"]
    if given.get("order") in ("up", "down"):
        state["order"] = given["order"]
    over = given.get("over")
    if isinstance(over, list):
        state["over"] = [each.name for each in first.overlays if each.name in over]
    cell, pin = given.get("cell"), given.get("pin")
    if cell is not None and _are_numbers(cell, (scene.rows, scene.columns)):
        state["cell"] = list(cell)
        if isinstance(pin, Mapping) and _are_numbers([pin.get("i"), pin.get("j")], _size(scene)):
            axis = "column" if pin.get("axis") == "column" else "row"
            state["pin"] = {"i": pin["i"], "j": pin["j"], "axis": axis}
    return state


# --- one request ----------------------------------------------------------------------------------


def _exact(scene: Scene, asked: dict[str, Any], i: int, j: int) -> bytes:
    arrays = {}
    for place, side in enumerate(scene.sides):
        shown = side.grid.map(asked["row"], asked["column"])
        if i < shown.shape[0] and j < shown.shape[1]:
            arrays[f"row{place}"] = np.ascontiguousarray(shown[i])
            arrays[f"column{place}"] = np.ascontiguousarray(shown[:, j])
    return framed({"kind": "exact", **asked, "i": i, "j": j}, arrays)


def _neurons(scene: Scene, asked: dict[str, Any], i: int, j: int) -> bytes:
    told: list[dict[str, Any]] = []
    arrays: dict[str, Floats] = {}
    for place, side in enumerate(scene.sides):
        grid, why = side.grid, no_neurons(side.grid)
        where = grid.site(asked["row"], asked["column"])
        if why or where is None or i >= len(grid.sides.rows) or j >= len(grid.sides.columns):
            told.append({"why": why or "There is no such pair here."})
            continue
        site, head = where
        at, to = grid.sides.rows.places[i], grid.sides.columns.places[j]
        made = grid.look.scores[site]
        query = made.query[head, at]
        key = made.key[head // (site.heads // site.groups), to]
        rest = 0.0 if made.bias is None else float(made.bias[min(head, len(made.bias) - 1), at, to])
        score = made.scale * float(query.astype(np.float64) @ key) + rest
        weight = float(grid.look.maps[site][head, at, to])
        told.append(
            {"score": score, "scale": made.scale, "rest": rest, "weight": weight, "why": ""}
        )
        arrays |= {f"query{place}": query, f"key{place}": key}
    return framed({"kind": "neurons", **asked, "i": i, "j": j, "sides": told}, arrays)


def _file(scene: Scene, request: Request, number: int) -> bytes:
    cell = None
    if request.get("row") is not None or request.get("column") is not None:
        cell = _place(scene, request)
    made = export_file(scene, str(request.get("form")), cell, state_in(scene, request))
    head = {"kind": "file", "id": number, "view": scene.id, "name": made.name, "type": made.type}
    return framed(head, {"file": np.frombuffer(made.content, dtype=np.uint8)})


def _place(scene: Scene, request: Request) -> tuple[int, int]:
    found = [request.get("row"), request.get("column")]
    if not _are_numbers(found, (scene.rows, scene.columns)):
        raise WorkbenchError(f"there is no map {str(found)!r:.40} here.", remedy=_RELOAD)
    return int(found[0]), int(found[1])  # type: ignore[arg-type]


def _pair(scene: Scene, request: Request) -> tuple[int, int]:
    found = [request.get("i"), request.get("j")]
    if not _are_numbers(found, _size(scene)):
        raise WorkbenchError(f"there is no pair {str(found)!r:.40} here.", remedy=_RELOAD)
    return int(found[0]), int(found[1])  # type: ignore[arg-type]


def _size(scene: Scene) -> tuple[int, int]:
    grids = [side.grid.sides for side in scene.sides]
    return max(len(g.rows) for g in grids), max(len(g.columns) for g in grids)


def _are_numbers(found: Any, bounds: tuple[int, int]) -> bool:
    """Two whole numbers, each from 0 to below its bound."""
    return (
        isinstance(found, list | tuple)
        and len(found) == 2
        and all(type(n) is int and 0 <= n < most for n, most in zip(found, bounds, strict=True))
    )


# --- the view as a file: numbers as CSV or NPZ, or one HTML page that opens with no network -------
#
# What is open is saved, one map of each side; with none open, the scores of all maps (CSV) or all
# maps (NPZ). The page carries the overview and as many maps as fit, the open one first. Costs a
# pass over the maps that are saved.

MOST = 100 << 20  # bytes of maps in one file
PAGE = 12 << 20  # bytes of maps in a page
Cell = tuple[int, int] | None


@dataclass(frozen=True)
class Made:
    """A file to be saved."""

    name: str
    type: str
    content: bytes


def export_file(scene: Scene, form: str, cell: Cell, state: dict[str, Any]) -> Made:
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
                remedy="Open a head and save that, or use workbench.attention_maps from Python.",
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
