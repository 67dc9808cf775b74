"""What goes on from a result that left a model: its heads, its pruning, a folder for elsewhere.

Buttons under the findings of a finished run. A further run starts with the model and the corpus of
this one, read as it was; the exported model is a zip of a folder that plain transformers opens.
Costs: nothing until a button is clicked; then starting a run, or writing the weights.
"""

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import navigation
from workbench.app.runs import run_form, run_list
from workbench.app.text import errors_shown, plain, size
from workbench.core.analysis import analyses

if TYPE_CHECKING:
    from workbench.runs.run import Run

PACKED = "exported model"  # the name of its run, what was written, and the bytes of a zip


def draw(run: "Run") -> None:
    """Draw what goes on from the model of a run; nothing for a run that left none."""
    if run.is_builtin or run.model is None:
        return
    corpus = run.spec.corpora[0] if run.spec.corpora else None
    with st.container(horizontal=True, vertical_alignment="center", key="next-steps"):
        st.caption("Go on with its model:", width="content")
        further = [each for analysis in analyses().values() for each in analysis.goes_on]
        for each in further:
            if each.after != run.spec.experiment or corpus is None or corpus.ref is None:
                continue
            if st.button(each.label, icon=each.icon, key=f"next {each.experiment}"):
                _start(each.experiment, run.name, corpus.ref, corpus.options)
        if st.button(
            "Export model",
            icon=":material/archive:",
            key="next export",
            help="A folder that plain transformers opens, with a model card, as a zip.",
        ):
            with errors_shown(), st.spinner("Exporting the model …"):
                st.session_state[PACKED] = (run.name, *_exported(run.name))
        packed = st.session_state.get(PACKED)
        if packed is not None and packed[0] == run.name:
            st.download_button(
                plain(f"Save zip ({size(len(packed[2]))})"),
                packed[2],
                file_name=f"{run.name}.zip",
                mime="application/zip",
                on_click="ignore",
                type="primary",
                icon=":material/download:",
            )
            st.caption(plain(packed[1]))


def _start(experiment: str, model: str, corpus: str, reading: Mapping[str, Any]) -> None:
    """Start a run on the model, and show it on its page."""
    with errors_shown(), st.spinner("Starting …"):
        name = run_form.begin((experiment, (model,), (corpus,), {}, {"reading": reading}))
        navigation.switch(navigation.page_of(experiment), {run_list.OPENED: name})


def _exported(run: str) -> tuple[str, bytes]:
    """What was written, in a sentence, and the bytes of a zip of the folder."""
    from workbench.runs.exported_model import export_model

    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / run
        result = export_model(run, folder)
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, Path(run) / path.relative_to(folder))
    smaller = (
        " The tab Pruned model has the smaller files, for Workbench."
        if result.shape == "zeros"
        else ""
    )
    return f"{result}{smaller}", buffer.getvalue()
