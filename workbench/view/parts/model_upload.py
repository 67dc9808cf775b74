"""Opening another model: a reference that is typed, or a zip that is uploaded; and what there is.

Costs nothing until something is uploaded: that is unpacked, and opened once.
"""

import streamlit as st

from workbench.models.catalogue import catalogue
from workbench.view.parts import chosen, problems, uploads
from workbench.view.parts.plain import plain


def use_typed() -> None:
    """Choose what was typed."""
    if typed := str(st.session_state.get("typed-model") or "").strip():
        chosen.choose_model(typed)


def draw_upload() -> None:
    """A zip of a model's folder."""
    turn = st.session_state.setdefault("model-turn", 0)
    file = st.file_uploader(
        "A zip of a model's folder",
        type="zip",
        key=f"model-upload-{turn}",
        help="config.json, model.safetensors and the tokenizer's files; pickled weights are "
        f"refused. Up to {uploads.limit()} MB; for a larger one, type its folder instead.",
    )
    if file is None or not st.button("Unpack and open it", type="primary"):
        return
    with problems.told(), st.spinner("Unpacking it, and opening it once …"):
        upload = uploads.receive_model(file)
        chosen.choose_model(str(upload.path))
        st.session_state["model-turn"] = turn + 1
        st.session_state["model-news"] = uploads.news("model", upload)
        st.rerun()


def draw_openable() -> None:
    """What can be opened at all."""
    known = catalogue()
    st.markdown("Name a model by any of these:")
    st.table(
        [
            {"name": plain(name), "what it is": plain(about)}
            for name, about in known["references"].items()
        ],
        border="horizontal",
        hide_index=True,
    )
    st.markdown("These families are known to work; `@random` gives any of them fresh weights.")
    st.table(
        [
            {
                "family": plain(family["name"]),
                "stacks": plain(family["stacks"]),
                "what it is": plain(family["about"]),
                "limits": plain(family["limits"]) or "none",
            }
            for family in known["families"]
        ],
        border="horizontal",
        hide_index=True,
    )
