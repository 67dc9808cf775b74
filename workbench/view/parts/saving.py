"""What leaves the app as a file: reports of runs, their tables and figures; made when asked for.

Two steps: choose and make, then save. Only the last file made is kept, in the session. Costs what
the writing costs; for pictures the start of a browser.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts.plain import plain, size
from workbench.view.parts.problems import told

if TYPE_CHECKING:
    from workbench.runs.run import Run

REPORT = "Report"
FORMS = {
    ".html": "HTML, one page that opens anywhere",
    ".md": "Markdown, with pictures",
    ".tex": "LaTeX",
    ".zip": "zip, with all tables and figures",
    ".csv": "CSV",
    ".parquet": "Parquet",
    ".json": "JSON",
    ".svg": "SVG",
    ".png": "PNG",
    ".pdf": "PDF",
}
MADE = "file that was made"


def offer(runs: Sequence["Run"], key: str) -> None:
    """Choose what to save and how; make it; save it."""
    from workbench.report import ENDINGS
    from workbench.report.export import FIGURE_ENDINGS, TABLE_ENDINGS

    one = runs[0] if len(runs) == 1 else None
    things: dict[str, tuple[str, ...]] = {REPORT: ENDINGS}
    if one is not None:
        with told():
            things |= {f"Table {name}": TABLE_ENDINGS for name in one.tables}
            things |= {f"Figure {name}": FIGURE_ENDINGS for name in one.figures}
    what, how, make = st.columns([3, 3, 2], vertical_alignment="bottom")
    thing = what.selectbox("What to save", list(things), key=f"{key} what")
    ending = how.selectbox(
        "As", things.get(thing, ENDINGS), format_func=FORMS.__getitem__, key=f"{key} how"
    )
    chosen = (tuple(run.name for run in runs), thing, ending)
    if make.button("Make the file", icon=":material/draft:", key=f"{key} make", width="stretch"):
        st.session_state.pop(MADE, None)
        with told(), st.spinner("Writing …"):
            st.session_state[MADE] = (chosen, *_made(runs, thing, ending))
    made = st.session_state.get(MADE)
    if made is not None and made[0] == chosen:
        _, name, content = made
        st.download_button(
            plain(f"Save {name} ({size(len(content))})"),
            content,
            file_name=name,
            mime="application/octet-stream",
            key=f"{key} save",
            on_click="ignore",
            type="primary",
            icon=":material/download:",
        )


def _made(runs: Sequence["Run"], thing: str, ending: str) -> tuple[str, bytes]:
    """The file's name and its bytes; a zip of all where pictures lie beside it."""
    kind, _, name = thing.partition(" ")
    title = runs[0].name if len(runs) == 1 else f"{len(runs)}-runs"
    stem = f"{title}-{name}" if name else title
    with tempfile.TemporaryDirectory(prefix="workbench-") as made:
        folder = Path(made) / stem
        folder.mkdir()
        path = folder / f"{stem}{ending}"
        _writer(runs, kind, name)(path)
        if len(list(folder.iterdir())) == 1:
            return path.name, path.read_bytes()
        packed = shutil.make_archive(str(folder), "zip", folder)
        return f"{stem}{ending}.zip", Path(packed).read_bytes()


def _writer(runs: Sequence["Run"], kind: str, name: str) -> Callable[[Path], object]:
    from workbench.report import write_report
    from workbench.report.export import export_figure, export_table

    if kind == "Table":
        return lambda path: export_table(runs[0], name, path)
    if kind == "Figure":
        return lambda path: export_figure(runs[0], name, path)
    return lambda path: write_report(runs, path)
