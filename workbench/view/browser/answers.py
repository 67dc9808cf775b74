"""What the browser asks for, answered as frames: a map, exact values, query and key, a file.

    answered(scene, request)             what is wrong in a request is told, never raised

The form of the messages is told in `MESSAGES.md` beside this file. Nothing here runs a model. An
answer costs a pass over one map, a file over those in it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.errors import WorkbenchError
from workbench.maps.look import Floats
from workbench.view.browser import exports
from workbench.view.browser.drawing import cell_of, no_neurons, overview_of
from workbench.view.browser.frame import framed
from workbench.view.browser.scene import Scene

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
    made = exports.made(scene, str(request.get("form")), cell, state_in(scene, request))
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
