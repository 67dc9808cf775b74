"""The attention browser as a Streamlit component, with its state in the address.

Moving from head to head runs only the fragment here, never the page and never the model. Responses
use a second component, which does not carry the browser's script. Costs: an overview when the page
changes the view, and one map for a response.
"""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.attention_browser.frames import carrier, overview_of, script, style
from workbench.attention_browser.requests import respond, state_in
from workbench.attention_browser.scene import Scene

KEY = "attention-answers"
CELL, PIN, LOOK, SCORE, ORDER, OVER = "cell", "pin", "look", "score", "order", "over"
_browser = st.components.v2.component("workbench.attention", css=style(), js=script())
_carrier = st.components.v2.component("workbench.attention.answers", js=carrier())


def attention_browser(scene: Scene) -> None:
    """Draw a scene, and respond to the browser's requests."""
    state = state_in(scene, {"state": _from_address()})
    _browser(key="attention-browser", data=overview_of(scene, state, carried=True))
    _respond(scene)


@st.fragment
def _respond(scene: Scene) -> None:
    """Respond to the last request for this scene, if there is one."""
    request = (st.session_state.get(KEY) or {}).get("ask")
    message = None
    if isinstance(request, Mapping) and request.get("view") == scene.id:
        _to_address(scene, state_in(scene, request))
        message = respond(scene, request)
    _carrier(key=KEY, data=message, on_ask_change=lambda: None)


def _to_address(scene: Scene, state: Mapping[str, Any]) -> None:
    """Put the state that differs from the defaults into the address."""
    first = scene.sides[0].scores[0].name if scene.sides[0].scores else None
    cell, pin = state["cell"], state["pin"]
    values = {
        CELL: cell and f"{cell[0]}.{cell[1]}",
        PIN: pin and f"{pin['i']}.{pin['j']}.{pin['axis']}",
        LOOK: "" if state["look"] == "map" else state["look"],
        SCORE: "" if state["score"] == first else state["score"],
        ORDER: "" if state["order"] == "grid" else state["order"],
        OVER: ".".join(state["over"]),
    }
    for name, value in values.items():
        if value:
            st.query_params[name] = value
        elif name in st.query_params:
            del st.query_params[name]


def _from_address() -> dict[str, Any]:
    """The state in the address, not yet validated: `state_in` does that."""
    pin = st.query_params.get(PIN, "").split(".")
    pair: list[Any] = list(_numbers(pin[:2]) or (None, None))
    return {
        "cell": _numbers(st.query_params.get(CELL, "").split(".")),
        "pin": {"i": pair[0], "j": pair[-1], "axis": pin[-1]},
        "look": st.query_params.get(LOOK, "map"),
        "score": st.query_params.get(SCORE),
        "order": st.query_params.get(ORDER),
        "over": st.query_params.get(OVER, "").split("."),
    }


def _numbers(parts: list[str]) -> list[int] | None:
    """The integers of an address; None if one is invalid."""
    are_valid = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    return [int(part) for part in parts] if are_valid else None
