"""Views of tokens, predictions and grids as a Streamlit component, and as a stand-alone page.

Views are plain data (`views.py` makes them). A choice of the visitor comes back as one mapping: the
name of the view, and the index of a token, the id of a choice, or a cell. Costs: nothing.
"""

import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import streamlit as st

from workbench.drawing import SHARED, js_file, theme

Views = Sequence[Mapping[str, Any]]
_OWN = ("strip", "bars", "grid", "contexts", "pieces", "steps", "views")


def token_views(views: Views, key: str, chosen: Callable[[Mapping[str, Any]], None]) -> None:
    """Draw views; `chosen` is called with what the visitor chooses, before the page runs again."""
    message = message_of(views)

    def changed() -> None:
        pick = (st.session_state.get(key) or {}).get("pick")
        if isinstance(pick, Mapping) and pick.get("id") == message["id"]:
            chosen(pick)

    _component()(key=key, data=message, on_pick_change=changed)


def message_of(views: Views) -> dict[str, Any]:
    """The data of views for the browser, with the colours of both themes."""
    shape = [(view["kind"], view["name"], _shape(view)) for view in views]
    digest = hashlib.blake2b(repr(shape).encode("utf-8", "surrogatepass"), digest_size=8)
    return {
        "id": digest.hexdigest(),
        "views": [dict(view) for view in views],
        "palette": theme.palettes(),
    }


def standalone(title: str, blocks: Sequence[tuple[str, Views]]) -> bytes:
    """A stand-alone HTML page of views under headings, which loads nothing from the network."""
    parts = {
        "title": html.escape(title),
        "style": _text("tokens.css"),
        "blocks": "\n".join(_block(heading, views) for heading, views in blocks),
        "script": _joined("standalone"),
    }
    page = _text("standalone.html")
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], page).encode("utf-8", "replace")


def _block(heading: str, views: Views) -> str:
    data = json.dumps(message_of([{**view, "pickable": False, "tools": None} for view in views]))
    safe = data.replace("<", "\\u003c")  # no text can end the script element
    return f'<h2>{html.escape(heading)}</h2>\n<script type="application/json">{safe}</script>'


def _shape(view: Mapping[str, Any]) -> object:
    """What a choice refers to: the tokens, the choices or the cells of a view."""
    if view["kind"] == "strip":
        return [(item["t"], item["i"]) for item in view["items"]]
    if view["kind"] in ("bars", "contexts"):
        return [(each["name"], [row["id"] for row in each["rows"]]) for each in view["lists"]]
    if view["kind"] == "steps":
        return [each["name"] for each in view["lists"]]
    return [list(view["rows"]), list(view["columns"])]


@cache
def _component() -> Any:
    return st.components.v2.component(
        "workbench.tokens", css=_text("tokens.css"), js=_joined("streamlit")
    )


@cache
def _joined(last: str) -> str:
    return "\n".join(_text(f"{name}.js") for name in (*SHARED, *_OWN, last))


def _text(name: str) -> str:
    return js_file(name, __package__)
