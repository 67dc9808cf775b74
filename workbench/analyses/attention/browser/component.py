"""The attention browser as a Streamlit component, with its state in the address.

Moving from head to head runs only the fragment here, never the page and never the model. Responses
use a second component, which does not carry the browser's script. Costs: an overview when the page
changes the view, and one map for a response.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from workbench.analyses.attention.browser.frames import carrier, overview_of, script, style
from workbench.analyses.attention.browser.requests import Answers, respond, state_in
from workbench.analyses.attention.browser.scene import Scene, Side
from workbench.analyses.attention.grids import Grid
from workbench.app import navigation, selection
from workbench.app.frame.lessons import LESSON, STEP

KEY = "attention-answers"
ALSO, PIN, LOOK, SCORE, ORDER = "also", "pin", "look", "score", "order"
OVER, WORD = "over", "word"
_browser = st.components.v2.component("workbench.attention", css=style(), js=script())
_carrier = st.components.v2.component("workbench.attention.answers", js=carrier())


def attention_browser(
    scene: Scene, answers: Answers | None = None, below: Callable[[], None] = lambda: None
) -> None:
    """Draw a scene, and respond to the browser's requests.

    `answers` are functions for requests that need the model or the corpus, by `what`. `below` is
    drawn below the browser, again after each response.
    """
    state = state_in(scene, {"state": _from_address(scene.sides[0])})
    can_search = "similar" in (answers or {})
    overview = overview_of(
        scene,
        state,
        carried=True,
        can_search=can_search,
        present=navigation.is_presenting(),
        step=" ".join(st.query_params.get(name, "") for name in (LESSON, STEP)),
    )
    _browser(key="attention-browser", data=overview)
    _respond(scene, answers, below)


@st.fragment
def _respond(scene: Scene, answers: Answers | None, below: Callable[[], None]) -> None:
    """Respond to the last request for this scene, if there is one."""
    request = (st.session_state.get(KEY) or {}).get("ask")
    message = None
    if isinstance(request, Mapping) and request.get("view") == scene.id:
        _to_address(scene, state_in(scene, request))
        message = respond(scene, request, answers)
    _carrier(key=KEY, data=message, on_ask_change=lambda: None)
    below()


def _to_address(scene: Scene, state: Mapping[str, Any]) -> None:
    """Put the state that differs from the defaults into the address."""
    first = scene.sides[0].scores[0].name if scene.sides[0].scores else None
    cell, pin, grid = state["cell"], state["pin"], scene.sides[0].grid
    values = {
        selection.HEAD: cell and _name(grid, cell),
        selection.WORD: pin and _word_of(grid, pin),
        selection.AT: _at(scene.sides[0], state["place"]),
        ALSO: ",".join(_name(grid, each) for each in state["also"]),
        PIN: pin and f"{pin['i']}.{pin['j']}.{pin['axis']}",
        LOOK: "" if state["look"] == "lines" else state["look"],
        SCORE: "" if state["score"] == first else state["score"],
        ORDER: "" if state["order"] == "grid" else state["order"],
        OVER: ".".join(state["over"]),
        WORD: "" if state["word"] is None else str(state["word"]),
    }
    for name, value in values.items():
        if value:
            st.query_params[name] = value
        elif name in st.query_params:
            del st.query_params[name]


def _word_of(grid: Grid, pin: Mapping[str, Any]) -> str:
    """The index of the pinned word; "" for a special piece."""
    sides = grid.sides
    word = sides.rows.words[pin["i"]] if pin["axis"] == "row" else sides.columns.words[pin["j"]]
    return str(word) if word >= 0 else ""


def _at(side: Side, place: int | None) -> str:
    """The predicted place as other pages write it."""
    if place is None or side.predicts is None:
        return st.query_params.get(selection.AT, "")
    return "next" if place == side.predicts.next else f"word.{place}"


def _name(grid: Grid, cell: Sequence[int]) -> str:
    """A cell by the numbers of its layer and head: `3.7`."""
    return f"{grid.rows[cell[0]]}.{grid.columns[cell[1]]}"


def _cell(grid: Grid, name: str) -> list[int] | None:
    """The row and column of a name; None if the grid does not have it."""
    row, _, column = name.partition(".")
    has_it = row in grid.rows and column in grid.columns
    return [grid.rows.index(row), grid.columns.index(column)] if has_it else None


def _from_address(side: Side) -> dict[str, Any]:
    """The state in the address, not yet validated: `state_in` does that."""
    grid, at = side.grid, st.query_params.get(selection.AT, "")
    pin = st.query_params.get(PIN, "").split(".")
    words = grid.sides.rows.words, grid.sides.columns.words
    word = selection.word(1 + max(words[0], default=-1))
    if PIN not in st.query_params and word in words[0] and word in words[1]:
        pin = [str(words[0].index(word)), str(words[1].index(word)), "row"]
    place = next(iter(_numbers([at.partition(".")[2]]) or ()), None)  # of `word.3`
    if at == "next" and side.predicts is not None:
        place = side.predicts.next
    pair: list[Any] = list(_numbers(pin[:2]) or (None, None))
    return {
        "cell": _cell(grid, st.query_params.get(selection.HEAD, "").rpartition(" ")[2]),
        "also": [_cell(grid, name) for name in st.query_params.get(ALSO, "").split(",")],
        "word": _number(WORD),
        "place": place,
        "pin": {"i": pair[0], "j": pair[-1], "axis": pin[-1]},
        "look": st.query_params.get(LOOK, "lines"),
        "score": st.query_params.get(SCORE),
        "order": st.query_params.get(ORDER),
        "over": st.query_params.get(OVER, "").split("."),
    }


def _number(name: str) -> int | None:
    return next(iter(_numbers([st.query_params.get(name, "")]) or ()), None)


def _numbers(parts: list[str]) -> list[int] | None:
    """The integers of an address; None if one is invalid."""
    are_valid = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    return [int(part) for part in parts] if are_valid else None
