"""The attention browser in a notebook: the app's component in an output, with a line to the kernel.

The output has the thumbnails of all maps and as many maps as fit, in bytes if they are many, so it
works without a kernel and in exported HTML. Where anywidget is installed and a kernel runs, a
second output that shows nothing carries requests: then all heads open, the maps of an edited text
are computed, and Python knows what is chosen. Costs: a pass over all maps.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from importlib.util import find_spec
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.analyses.attention.browsed import Browsed, Selection
from workbench.analyses.attention.browser.frames import line_script, notebook_script, style
from workbench.analyses.attention.browser.requests import Request, respond, state_in, stored_frames
from workbench.analyses.attention.browser.scene import (
    Predicts,
    Scene,
    Side,
    predicts_at,
    scene_of,
    side_of,
)
from workbench.analyses.attention.capture import attention
from workbench.analyses.attention.edits import (
    edited,
    hidden_words,
    mask_of,
    predicted_at,
    word_in,
)
from workbench.analyses.attention.grids import Grid, grid_of
from workbench.analyses.attention.maps_of_text import Source
from workbench.analyses.attention.thumbnails import pooled
from workbench.analyses.predictions.predict import fill, predict
from workbench.analyses.predictions.prediction import words_to_predict
from workbench.analyses.predictions.results import TopChoices
from workbench.core.files import parse_json
from workbench.core.registry import imported
from workbench.report.html import as_json

MAX_OUTPUT = 2_000_000  # characters of an output
MAX_THUMBNAILS = 300_000  # bytes of all thumbnails; larger ones are halved
LONGEST = 20_000  # characters of a word in an edit
NEXT = ("causal", "bidirectional")  # objectives that predict what comes next
TOP = 5  # predictions in view
EXTRA = "pip install 'lm-workbench[notebook]'"
UNTRUSTED = "The attention browser needs scripts: trust the notebook, or run the cell."
MISSING = (
    "This head is not stored in the notebook. Install anywidget and run the cell again "
    f"({EXTRA}), or show fewer layers with maps.grid(layers=[…])."
)


def html(item: Browsed) -> str:
    """The browser of maps as HTML, which needs no kernel."""
    view: View = item.view
    return view.html(f"workbench-{token_hex(6)}")


def show(item: Browsed) -> None:
    """Display the browser of maps, and its line to the kernel; in a terminal, print the maps."""
    display = imported("IPython.display:display", "the display of notebooks")
    shell = imported("IPython:get_ipython", "IPython")()
    if getattr(shell, "kernel", None) is None:
        print(repr(item))
        return
    view: View = item.view
    place = f"workbench-{token_hex(6)}"
    display({"text/html": view.html(place), "text/plain": repr(item)}, raw=True)
    if find_spec("anywidget") is not None:
        display(line_to(view, place))


def line_to(view: "View", place: str) -> Any:
    """The widget that carries messages between the browser at a place and its view."""
    line = _line_class()(place=place)

    def answer(_: Any, request: Any, __: Any) -> None:
        if isinstance(request, Mapping):
            line.send({}, buffers=[view.respond(request)])

    line.on_msg(answer)
    return line


@cache
def _line_class() -> Any:
    import anywidget
    import traitlets

    members = {
        "_esm": line_script(),
        "place": traitlets.Unicode().tag(sync=True),
        "__repr__": lambda self: "",  # it shows nothing, also where there are no widgets
    }
    return type("Line", (anywidget.AnyWidget,), members)


class View:
    """A browser of one grid, or of two to compare; a word that is edited changes its grids."""

    def __init__(self, grids: Sequence[Grid]) -> None:
        self.grids = tuple(grids)
        self.scene = _scene(self.grids)
        self.state = state_in(self.scene, {"state": {"cell": _first(self.scene)}})

    @property
    def selection(self) -> Selection | None:
        """What is chosen; None if the maps are not those of heads."""
        cell, grid = self.state["cell"], self.grids[0]
        if cell is None or not (grid.layers and grid.heads):
            return None
        heads = tuple(
            (grid.layers[row], grid.heads[column]) for row, column in (cell, *self.state["also"])
        )
        chosen = Selection(self.scene.sides[0].caption, *grid.group, *heads[0], heads)
        pin, rows, columns = self.state["pin"], grid.sides.rows.names, grid.sides.columns.names
        if pin is None or pin["i"] >= len(rows) or pin["j"] >= len(columns):
            return chosen
        i, j = pin["i"], pin["j"]
        weight = float(grid.map(*cell)[i, j])
        return replace(
            chosen, query=i, key=j, query_token=rows[i], key_token=columns[j], weight=weight
        )

    def html(self, place: str) -> str:
        """The browser as an output of a notebook, in the element with this id."""
        script, css = notebook_script(), style()
        room = MAX_OUTPUT - len(script.encode()) - len(as_json(css)) - 5_000
        frames, left_out = stored_frames(
            _with_small_thumbnails(self.scene), self.state, room * 3 // 4, as_bytes=True
        )
        stored = [_stored(frame) for frame in frames]
        call = ", ".join(map(as_json, (place, css, stored, MISSING)))
        total, note = self.scene.rows * self.scene.columns, ""
        if left_out:
            note = (
                f"{total - left_out:,} of {total:,} heads open without a kernel. All of them do "
                f"where anywidget is installed ({EXTRA})."
            )
            note = f'<p style="font-size:12px;opacity:.8">{escape(note)}</p>'
        texts = "; ".join(f"{side.name}: {side.caption}" for side in self.scene.sides)
        return (
            f'<div id="{place}"><p>{escape(texts)}</p><p>{UNTRUSTED}</p></div>{note}\n'
            f'<script>\n(() => {{\n"use strict";\n{script}\nnotebookBrowser({call});\n}})();\n'
            "</script>"
        )

    def respond(self, request: Request) -> bytes:
        """The response to a request of the browser; to an edit, the overview of the new text."""
        scene = self.scene
        is_current = request.get("view") == scene.id
        if is_current and isinstance(request.get("state"), Mapping):
            self.state = state_in(scene, request)
        if is_current and request.get("what") != "overview":
            response = respond(scene, request, {"edit": self._edit, "predict": self._predict})
            if self.scene is scene:
                return response
        return respond(self.scene, {"what": "overview", "state": self.state})

    def _edit(self, request: Request) -> Mapping[str, Any]:
        """Edit a word of the first side, and of the second one if it shows the same text."""
        first = _source(self.grids[0]).doc
        word, how = word_in(first, request.get("word")), str(request.get("how"))
        text = str(request.get("text", ""))[:LONGEST]
        before = self.grids
        self.grids = tuple(
            _edited(grid, word, how, text) if _source(grid).doc.text == first.text else grid
            for grid in before
        )
        self.scene = _scene(self.grids, before)
        self.state = state_in(self.scene, {"state": self.state})
        return {}

    def _predict(self, request: Request) -> Mapping[str, Any]:
        """The most probable words at a place of the first side."""
        source = _source(self.grids[0])
        model, doc, place = source.model, source.doc, request.get("word")
        after = len(doc) if model.objective in NEXT else None
        hidden = hidden_words(model, doc)
        if place is None or place != after:
            place = word_in(doc, place)
        if place == after:
            found = predict(model, doc, top=TOP)
        elif place in hidden:
            found = fill(model, doc, TOP)
        else:
            found = fill(model, doc, TOP, hide=place)
        assert isinstance(found, TopChoices), "a language model predicts pieces"
        at = found.places[hidden.index(place) if place in hidden else 0]
        choices = [[choice.text, choice.probability] for choice in at.choices]
        return {"title": predicted_at(model, doc, place), "choices": choices, "was": [], "note": ""}


# --- the content of a browser ---------------------------------------------------------------------


def _source(grid: Grid) -> Source:
    source = grid.look.source
    assert source is not None, "maps of wb.attention know their source"
    return source


def _scene(grids: Sequence[Grid], before: Sequence[Grid] = ()) -> Scene:
    return scene_of(
        [_side(grid, before[index] if before else None) for index, grid in enumerate(grids)]
    )


def _side(grid: Grid, before: Grid | None) -> Side:
    source = _source(grid)
    former = None if before is None or before is grid else before.look
    return side_of(
        grid.look,
        grid.group,
        grid.options,
        source.of(grid.group[0]),
        before=former,
        mask=mask_of(source.model),
        predicts=_predicts(source),
    )


def _predicts(source: Source) -> Predicts | None:
    """Where the model predicts words; None if it is none that does."""
    model, doc = source.model, source.doc
    if not model.objective or model.task_head is not None:
        return None
    after = len(doc) if model.objective in NEXT else None
    return predicts_at(words_to_predict(model, doc), hidden_words(model, doc), after)


def _edited(grid: Grid, word: int, how: str, text: str) -> Grid:
    """The grid of the text with a word edited."""
    source = _source(grid)
    changed = edited(source.doc, word, how, text, mask_of(source.model))
    maps = attention(source.model, changed, source.target, order=source.order, seed=source.seed)
    return grid_of(maps, grid.group, grid.options)


def _first(scene: Scene) -> list[int] | None:
    """The head that is open at first: the one that draws most dependencies, else the first."""
    side = scene.sides[0]
    known = [
        (row, column)
        for row in range(scene.rows)
        for column in range(scene.columns)
        if all(each.overview.tops[row][column] is not None for each in scene.sides)
    ]
    draws = [score.values for score in side.scores if score.name == "draws dependencies"]
    if not known:
        return None
    best: tuple[int, int] = max(known, key=lambda at: (draws[0][at[0]][at[1]] or 0) if draws else 0)
    return list(best)


def _with_small_thumbnails(scene: Scene) -> Scene:
    """The scene with thumbnails of half the size, if there are many of them."""
    sides = []
    for side in scene.sides:
        pictures = side.overview.pictures  # [rows, columns, height, width]
        if pictures.nbytes * len(scene.sides) > MAX_THUMBNAILS:
            pictures = _halved(pictures)
        sides.append(replace(side, overview=replace(side.overview, pictures=pictures)))
    return replace(scene, sides=tuple(sides))


def _halved(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = (max(1, size // 2) for size in pictures.shape[2:])
    rows = [[pooled(picture, height, width) for picture in row] for row in pictures]
    return np.array(rows, dtype=np.uint8)


def _stored(frame: bytes) -> list[Any]:
    """A message as the page keeps it: what it is of, and its bytes in base64."""
    length = int.from_bytes(frame[:4], "little")
    head = parse_json(frame[4 : 4 + length])
    return [
        head["kind"], head.get("row"), head.get("column"), base64.b64encode(frame).decode()
    ]  # fmt: skip
