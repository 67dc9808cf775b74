"""The smaller model that a run of `head-pruning` kept: how it does, and the files to take away.

Costs reading tables; packing the model when it is asked for.
"""

import io
import zipfile
from typing import TYPE_CHECKING

import streamlit as st

from workbench.models.references import TRAINED
from workbench.view import pruning as drawn
from workbench.view.parts import figures, tables
from workbench.view.parts.plain import plain, size

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.runs.run import Run

PACKED = "model that was packed"


def kept_model(run: "Run") -> None:
    """How it does beside the whole one, which heads it has, and the way to open it."""
    from workbench.report.drawings import Drawing
    from workbench.view.harmless import harmless

    st.dataframe(tables.of(run, "kept"), hide_index=True, key=f"kept {run.name}")
    for name, draw in (("kept", drawn.kept), ("speed", drawn.speed)):
        figure = draw({table: tables.of(run, table) for table in ("heads", "speed")})
        about = " ".join((draw.__doc__ or "").split())
        figures.draw(Drawing(name, about, harmless(figure)), f"{name} {run.name}")
    folder = run.path / TRAINED
    if not folder.is_dir():
        st.text("The model is gone: it was removed from the run's folder.")
        return
    st.subheader("The model itself", anchor=False)
    st.code(f'import workbench as wb\nmodel = wb.load("{run.name}")', language="python")
    st.caption("Or choose the run as the model, beside any page.")
    if st.button("Pack it", icon=":material/archive:", key=f"pack {run.name}"):
        with st.spinner("Packing …"):
            st.session_state[PACKED] = (run.name, _packed(folder))
    packed = st.session_state.get(PACKED)
    if packed is not None and packed[0] == run.name:
        st.download_button(
            plain(f"Save {run.name}.zip ({size(len(packed[1]))})"),
            packed[1],
            file_name=f"{run.name}.zip",
            mime="application/zip",
            on_click="ignore",
            type="primary",
            icon=":material/download:",
        )


def _packed(folder: "Path") -> bytes:
    """Every file of the model's folder, as a zip."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return made.getvalue()
