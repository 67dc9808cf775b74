"""Boxes that several pages have above a text: where it comes from, and a second model.

Costs: nothing.
"""

from typing import TYPE_CHECKING, Literal

import streamlit as st

from workbench.app import choice

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
