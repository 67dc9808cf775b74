"""Responses to the browser's requests: a map, exact values, query and key, or a file.

    respond(scene, request)             # an invalid request gives an error message, no exception

`MESSAGES.md` in this folder describes the messages. Nothing here runs a model. Costs: a pass over
one map for a response, and over all maps in a file.
"""

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.analyses.attention.browser.frames import (
    cell_of,
    framed,
    is_small,
    no_neurons,
    overview_of,
    standalone,
)
from workbench.analyses.attention.browser.scene import Scene, Side
from workbench.analyses.attention.maps_of_text import Floats
from workbench.core.errors import WorkbenchError, require_one_of

Request = Mapping[str, Any]
Answers = Mapping[str, Callable[[Request], Mapping[str, Any]]]
LOOKS = ("lines", "map", "query", "norms")
MAX_ALSO = 5  # heads that are shown next to the open one
_RELOAD = "Reload the page: it is older than the state of the app."


def respond(scene: Scene, request: Request, answers: Answers | None = None) -> bytes:
    """The response to one request.

    `answers` are functions for requests that need the model or the corpus, by `what`; each returns
    the head of a response.
    """
    client_id = request.get("id")
    request_id: int = client_id if isinstance(client_id, int) else 0
    try:
        what = request.get("what")
        if what == "overview":
            return overview_of(scene, state_in(scene, request))
        if what == "state":
            return framed({"kind": "ok", "id": request_id, "view": scene.id})
        if what == "export":
            return _file(scene, request, request_id)
        if answers and isinstance(what, str) and what in answers:
            found = answers[what](request)
            return framed({"kind": what, "id": request_id, "view": scene.id, **found})
        row, column = _cell(scene, request)
        head = {"id": request_id, "view": scene.id, "row": row, "column": column}
        if what == "cell":
            return cell_of(scene, row, column, request_id, norms=request.get("norms") is True)
        i, j = _pair(scene, request)
        if what == "exact":
            return _exact(scene, head, i, j)
        if what == "neurons":
            return _neurons(scene, head, i, j)
        raise WorkbenchError(
            f"Unknown request {str(what)!r:.40}.", code="request-invalid", remedy=_RELOAD
        )
    except WorkbenchError as error:
        return framed({"kind": "problem", "id": request_id, "view": scene.id, "text": str(error)})


def state_in(scene: Scene, request: Request) -> dict[str, Any]:
    """The state in a request or an address; parts that this scene does not have are ignored."""
    sent = request.get("state")
    state: dict[str, Any] = {
        "cell": None, "also": [], "pin": None, "look": "lines", "score": None, "order": "grid",
        "over": [], "word": None, "place": None,
    }  # fmt: skip
    if not isinstance(sent, Mapping):
        return state
    if sent.get("look") in LOOKS:
        state["look"] = sent["look"]
    first = scene.sides[0]
    if sent.get("score") in [score.name for score in first.scores]:
        state["score"] = sent["score"]
    if sent.get("order") in ("up", "down"):
        state["order"] = sent["order"]
    over = sent.get("over")
    if isinstance(over, list):
        state["over"] = [each.name for each in first.overlays if each.name in over]
    cell, pin = sent.get("cell"), sent.get("pin")
    if cell is not None and _are_indices(cell, (scene.rows, scene.columns)):
        state["cell"] = list(cell)
        also = sent.get("also")
        others = also if isinstance(also, list) else []
        size = (scene.rows, scene.columns)
        state["also"] = [
            list(each) for each in others if _are_indices(each, size) and list(each) != list(cell)
        ][:MAX_ALSO]
    if isinstance(pin, Mapping) and _are_indices([pin.get("i"), pin.get("j")], _size(scene)):
        axis = "column" if pin.get("axis") == "column" else "row"
        state["pin"] = {"i": pin["i"], "j": pin["j"], "axis": axis}
    word = sent.get("word")
    if type(word) is int and word in first.grid.sides.rows.words:
        state["word"] = word
    place = sent.get("place")
    if type(place) is int and first.predicts is not None and place in first.predicts.places:
        state["place"] = place
    return state


# --- one request ----------------------------------------------------------------------------------


def _exact(scene: Scene, message: dict[str, Any], i: int, j: int) -> bytes:
    arrays = {}
    for s, side in enumerate(scene.sides):
        shown = side.grid.map(message["row"], message["column"])
        if i < shown.shape[0] and j < shown.shape[1]:
            arrays[f"row{s}"] = np.ascontiguousarray(shown[i])
            arrays[f"column{s}"] = np.ascontiguousarray(shown[:, j])
    return framed({"kind": "exact", **message, "i": i, "j": j}, arrays)


def _neurons(scene: Scene, message: dict[str, Any], i: int, j: int) -> bytes:
    sides: list[dict[str, Any]] = []
    arrays: dict[str, Floats] = {}
    for s, side in enumerate(scene.sides):
        grid, why = side.grid, no_neurons(side.grid)
        located = grid.site(message["row"], message["column"])
        if why or located is None or i >= len(grid.sides.rows) or j >= len(grid.sides.columns):
            sides.append({"why": why or "This side has no such pair."})
            continue
        site, head = located
        from_piece, to_piece = grid.sides.rows.places[i], grid.sides.columns.places[j]
        scores = grid.look.scores[site]
        query = scores.query[head, from_piece]
        key = scores.key[head // (site.heads // site.groups), to_piece]
        bias = 0.0
        if scores.bias is not None:
            bias = float(scores.bias[min(head, len(scores.bias) - 1), from_piece, to_piece])
        score = scores.scale * float(query.astype(np.float64) @ key) + bias
        weight = float(grid.look.maps[site][head, from_piece, to_piece])
        sides.append(
            {"score": score, "scale": scores.scale, "rest": bias, "weight": weight, "why": ""}
        )
        arrays |= {f"query{s}": query, f"key{s}": key}
    return framed({"kind": "neurons", **message, "i": i, "j": j, "sides": sides}, arrays)


def _file(scene: Scene, request: Request, request_id: int) -> bytes:
    cell = None
    if request.get("row") is not None or request.get("column") is not None:
        cell = _cell(scene, request)
    file = export_file(scene, str(request.get("form")), cell, state_in(scene, request))
    head = {
        "kind": "file", "id": request_id, "view": scene.id, "name": file.name, "type": file.type
    }  # fmt: skip
    return framed(head, {"file": np.frombuffer(file.content, dtype=np.uint8)})


def _cell(scene: Scene, request: Request) -> tuple[int, int]:
    cell = [request.get("row"), request.get("column")]
    if not _are_indices(cell, (scene.rows, scene.columns)):
        raise WorkbenchError(
            f"There is no map {str(cell)!r:.40}.", code="request-invalid", remedy=_RELOAD
        )
    return int(cell[0]), int(cell[1])  # type: ignore[arg-type]


def _pair(scene: Scene, request: Request) -> tuple[int, int]:
    pair = [request.get("i"), request.get("j")]
    if not _are_indices(pair, _size(scene)):
        raise WorkbenchError(
            f"There is no pair {str(pair)!r:.40}.", code="request-invalid", remedy=_RELOAD
        )
    return int(pair[0]), int(pair[1])  # type: ignore[arg-type]


def _size(scene: Scene) -> tuple[int, int]:
    grids = [side.grid.sides for side in scene.sides]
    return max(len(g.rows) for g in grids), max(len(g.columns) for g in grids)


def _are_indices(values: Any, bounds: tuple[int, int]) -> bool:
    """Whether the values are two integers, each from 0 to below its bound."""
    return (
        isinstance(values, list | tuple)
        and len(values) == 2
        and all(type(n) is int and 0 <= n < bound for n, bound in zip(values, bounds, strict=True))
    )


# --- export: values as CSV or NPZ, or one stand-alone HTML page -----------------------------------
#
# The open map of each side is saved; if none is open, the scores of all maps (CSV) or all maps
# (NPZ). The page holds the overview and as many maps as fit, the open one first. Costs: a pass over
# the maps that are saved.

MAX_FILE = 100 << 20  # bytes of maps in one file
MAX_PAGE = 12 << 20  # bytes of maps in a page
Cell = tuple[int, int] | None


@dataclass(frozen=True)
class Export:
    """A file to download."""

    name: str
    type: str
    content: bytes


def export_file(scene: Scene, form: str, cell: Cell, state: dict[str, Any]) -> Export:
    """The file in this format."""
    forms = {"csv": "text/csv", "npz": "application/zip", "html": "text/html"}
    require_one_of(form, forms, f"There is no file format {form!r:.40}.", code="request-invalid")
    if form == "csv":
        table = _scores(scene) if cell is None else _values(scene, cell)
        content = table.to_csv(index=False).encode("utf-8", "surrogatepass")
    elif form == "npz":
        content = _arrays(scene, cell)
    else:
        content = _page(scene, cell, state)
    return Export(f"{_name(scene, cell)}.{form}", forms[form], content)


def _values(scene: Scene, cell: tuple[int, int]) -> pd.DataFrame:
    """A table with one row for each pair of items."""
    parts = []
    for side in scene.sides:
        shown, rows, columns = side.grid.map(*cell), side.grid.sides.rows, side.grid.sides.columns
        n_rows, n_columns = shown.shape
        parts.append(
            pd.DataFrame(
                {
                    "model": side.grid.look.model,
                    **_head_columns(side, *cell),
                    **_option_columns(side),
                    "row": np.repeat(np.array(rows.places), n_columns),
                    "row_token": np.repeat(np.array(rows.names, dtype=object), n_columns),
                    "column": np.tile(np.array(columns.places), n_rows),
                    "column_token": np.tile(np.array(columns.names, dtype=object), n_rows),
                    "value": shown.ravel(),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def _scores(scene: Scene) -> pd.DataFrame:
    """A table with one row for each map, with all its scores."""
    rows = [
        {
            "model": side.grid.look.model,
            **_head_columns(side, row, column),
            **{score.name: score.values[row][column] for score in side.scores},
        }
        for side in scene.sides
        for row in range(len(side.grid.rows))
        for column in range(len(side.grid.columns))
        if side.overview.tops[row][column] is not None
    ]
    return pd.DataFrame(rows)


def _head_columns(side: Side, row: int, column: int) -> dict[str, str | int]:
    """The head of a map, by its indices as in all tables, or how maps are combined."""
    grid, (stack, kind) = side.grid, side.grid.group
    layer = grid.layers[row] if grid.layers else grid.rows[row]
    head = grid.heads[column] if grid.heads else grid.columns[column]
    return {"stack": stack, "kind": kind, "layer": layer, "head": head}


def _option_columns(side: Side) -> dict[str, str]:
    """How the values were computed."""
    options = side.grid.options
    return {"by": options.unit, "special": options.special, "value_of": options.weigh}


def _arrays(scene: Scene, cell: Cell) -> bytes:
    arrays: dict[str, Any] = {}
    for s, side in enumerate(scene.sides):
        end = "" if len(scene.sides) == 1 else str(s)
        sides = side.grid.sides
        arrays[f"rows{end}"] = np.array(sides.rows.names)
        arrays[f"columns{end}"] = np.array(sides.columns.names)
        arrays[f"layers{end}"] = np.array(side.grid.layers or side.grid.rows)
        arrays[f"heads{end}"] = np.array(side.grid.heads or side.grid.columns)
        arrays[f"model{end}"] = np.array(side.grid.look.model)
        arrays[f"text{end}"] = np.array(side.caption)
        options = _option_columns(side).items()
        arrays |= {f"{name}{end}": np.array(value) for name, value in options}
        if cell is not None:
            arrays[f"map{end}"] = side.grid.map(*cell)  # [rows, columns]
            arrays[f"place{end}"] = np.array(cell)
            continue
        down, across = len(side.grid.rows), len(side.grid.columns)
        if 4 * down * across * len(sides.rows) * len(sides.columns) > MAX_FILE:
            raise WorkbenchError(
                f"All maps together exceed the maximum size of a file ({MAX_FILE >> 20} MB).",
                code="file-too-large",
                remedy="Open a head and save its map, or use wb.attention in Python.",
            )
        maps = np.full((down, across, len(sides.rows), len(sides.columns)), np.nan, np.float32)
        for row, column, shown in side.grid.each():
            maps[row, column] = shown
        arrays[f"maps{end}"] = maps  # [layers, heads, rows, columns]
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _page(scene: Scene, cell: Cell, state: dict[str, Any]) -> bytes:
    frames, _ = stored_frames(scene, {**state, "cell": cell or state["cell"]}, MAX_PAGE)
    return standalone(frames, f"Attention of {scene.sides[0].grid.look.model}")


def stored_frames(
    scene: Scene, state: dict[str, Any], most: int, *, as_bytes: bool = False
) -> tuple[list[bytes], int]:
    """The messages of a page without Python, up to so many bytes; and the number of maps left out.

    The overview, and the maps nearest to the open one unless the overview has them all.
    """
    frames = [overview_of(scene, state, offline=True)]
    size, left_out = len(frames[0]), 0
    for row, column in () if is_small(scene) else _nearest_first(scene, state["cell"]):
        if any(side.overview.tops[row][column] is None for side in scene.sides):
            continue
        frame = b"" if size >= most else cell_of(scene, row, column, as_bytes=as_bytes)
        if not frame or size + len(frame) > most:
            left_out, size = left_out + 1, most
            continue
        frames.append(frame)
        size += len(frame)
    return frames, left_out


def _nearest_first(scene: Scene, cell: Cell) -> Iterator[tuple[int, int]]:
    """All cells of the grid, the open one and its neighbours first."""
    down, across = cell or (0, 0)
    cells = [(row, column) for row in range(scene.rows) for column in range(scene.columns)]
    yield from sorted(cells, key=lambda at: (abs(at[0] - down) + abs(at[1] - across), at))


def _name(scene: Scene, cell: Cell) -> str:
    grid = scene.sides[0].grid
    model = re.sub(r"[^A-Za-z0-9.]+", "-", grid.look.model).strip("-")[-60:] or "model"
    head = "" if cell is None else f"-head-{grid.rows[cell[0]]}.{grid.columns[cell[1]]}"
    return f"attention-{model}-{'-'.join(grid.group)}{head}".replace(" ", "-")
