"""Boxes that several pages have above a text: where it comes from, and a second model.

Costs: nothing.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import streamlit as st

from workbench.app import choice
from workbench.app.runs import run_list

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

OWN, CORPUS = "Your own text", "Corpus sentence"
OTHER = "model2"  # in the address
NOTHING = "nothing"
TYPED_AT = "400ms"  # pause after which what is shown follows a typed text

LabelVisibility = Literal["visible", "hidden", "collapsed"]


def row(key: str) -> "DeltaGenerator":
    """A container for boxes next to each other, as many as fit; a presentation hides it."""
    return st.container(key=f"controls-{key}", horizontal=True, vertical_alignment="bottom")


def text_in_address(
    label: str, default: str, key: str, cleared: Iterable[str] = (), **look: Any
) -> str:
    """Draw a box for a text that is in the address, where Back takes it back; return the text.

    A bound box would write over the former address. Another text removes the `cleared` choices.
    """
    page = choice.open_page()  # what a box of another page has is not in this one
    current, box, shown = st.query_params.get(key, default), f"{key} box", f"{key} in the box"
    if st.session_state.get(shown) != (page, current) or box not in st.session_state:
        st.session_state[box], st.session_state[shown] = current, (page, current)

    def typed() -> None:
        if box not in st.session_state:  # of a page or view that is gone
            return
        text = str(st.session_state[box] or " ")  # "" would be the default
        st.session_state[shown] = page, text
        run_list.set_query(key, None if text == default else text, cleared)

    st.text_input(label, key=box, live=TYPED_AT, on_change=typed, **look)
    return current


def second_model(width: int = 200, label_visibility: LabelVisibility = "visible") -> str:
    """Draw a box for a second model; return its reference, or "" for none."""
    current = st.session_state.get(OTHER)
    options = [NOTHING, *choice.models(), *([str(current)] if current else [])]
    picked = st.selectbox(
        "Compare with",
        list(dict.fromkeys(options)),
        key=OTHER,
        bind="query-params",
        accept_new_options=True,
        label_visibility=label_visibility,
        format_func=lambda name: _named(str(name), label_visibility == "collapsed"),
        width=width,
        help="A second model on the same text: a built-in model, a run that trained a model, a "
        "folder, or a hub id.",
    )
    return "" if picked in (None, NOTHING) else str(picked)


def _named(ref: str, without_label: bool) -> str:
    return "Compare with …" if without_label and ref == NOTHING else ref
