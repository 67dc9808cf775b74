"""The menu Export of a result: a report or figure in one click, the command, and a link to share.

A file is made when its button is clicked, so that the menu costs nothing. Costs: writing the file.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st

from workbench.app.runs import run_list
from workbench.app.text import errors_shown

if TYPE_CHECKING:
    from workbench.runs.run import Run

REPORTS = {".html": "HTML", ".pdf": "PDF", ".tex": "LaTeX", ".md": "Markdown", ".zip": "zip"}
PICTURES = {".pdf": "PDF", ".svg": "SVG", ".png": "PNG"}
DATA = {".csv": "CSV", ".parquet": "Parquet", ".json": "JSON"}
WITH_PICTURES = (".tex", ".md")  # written as several files, so they are packed
HELP = {
    ".html": "One file for any browser, with figures that can be zoomed.",
    ".pdf": "The report as a paper, with the first rows of each table.",
    ".tex": "A zip with LaTeX, BibTeX and images.",
    ".md": "A zip with Markdown and images.",
    ".zip": "The report with all tables and figures as files.",
}


def menu(runs: "Sequence[Run]", figure: str = "", chosen: Mapping[str, str] | None = None) -> None:
    """Draw the menu; `figure` is the main figure of a single run, `chosen` what a link keeps."""
    key = f"export {runs[0].name}" if len(runs) == 1 else "export several"
    with st.popover("Export", icon=":material/download:", key=key), errors_shown():
        title, notes = (st.session_state.get(f"{key} {what}", "") for what in ("title", "notes"))
        st.markdown("**Report**")
        _buttons(REPORTS, key, partial(_report, runs, title, notes), HELP)
        if figure:
            st.markdown("**Main figure**")
            _buttons(PICTURES, f"{key} figure", partial(_figure, runs[0], figure))
        with st.expander("With your own title and notes …"):
            _own_words(key)
        st.markdown("**Share link**")
        st.code(link(runs, chosen), language=None, wrap_lines=True)
        st.caption(
            "It opens only where this app can be reached: localhost is this computer alone. To "
            "send the result to others, save the report as HTML or PDF."
        )
        if len(runs) == 1:
            from workbench.report.content import command

            st.markdown("**Copy as command**")
            st.code(command(runs[0].spec), language="bash", wrap_lines=True, height=160)


def tables(run: "Run", name: str) -> None:
    """Draw the buttons that save one table."""
    _buttons(DATA, f"table {run.name} {name}", partial(_table, run, name))


def link(runs: "Sequence[Run]", chosen: Mapping[str, str] | None = None) -> str:
    """The address of the open page with these runs; of what is chosen on it, only `chosen`."""
    url = urlsplit(str(st.context.url or ""))
    names = "&".join(f"{run_list.OPENED}={quote(run.name)}" for run in runs)
    if chosen:
        names = f"{urlencode(chosen, quote_via=quote)}&{names}"
    return f"{url.scheme}://{url.netloc}{url.path}?{names}" if url.netloc else f"?{names}"


File = tuple[str, Callable[[], bytes]]  # its name, and what makes it


def _buttons(
    formats: dict[str, str],
    key: str,
    file: Callable[[str], File],
    helps: dict[str, str] | None = None,
) -> None:
    with st.container(horizontal=True, gap="small"):
        for ending, label in formats.items():
            name, make = file(ending)
            st.download_button(
                label,
                make,
                file_name=name,
                mime="application/octet-stream",
                key=f"{key} {ending}",
                help=(helps or {}).get(ending),
                on_click="ignore",
            )


def _own_words(key: str) -> None:
    """Draw boxes for the user's title of a report and comments."""
    from workbench.report.content import LONGEST_NOTES, LONGEST_TITLE

    st.text_input(
        "Title",
        key=f"{key} title",
        max_chars=LONGEST_TITLE,
        placeholder="Default: the experiment, models and corpora",
    )
    st.text_area(
        "Notes",
        key=f"{key} notes",
        max_chars=LONGEST_NOTES,
        height=90,
        placeholder="Your own comments, shown below the title. A blank line separates paragraphs.",
    )


# --- files ----------------------------------------------------------------------------------------


def _report(runs: "Sequence[Run]", title: str, notes: str, ending: str) -> File:
    from workbench.report import write_report

    stem = runs[0].path.name if len(runs) == 1 else f"{len(runs)}-runs"
    return _file(
        stem, ending, lambda path: write_report(list(runs), path, title=title, notes=notes)
    )


def _figure(run: "Run", name: str, ending: str) -> File:
    from workbench.report.export import export_figure

    return _file(f"{run.path.name}-{name}", ending, lambda path: export_figure(run, name, path))


def _table(run: "Run", name: str, ending: str) -> File:
    from workbench.report.export import export_table

    return _file(f"{run.path.name}-{name}", ending, lambda path: export_table(run, name, path))


def _file(stem: str, ending: str, write: Callable[[Path], object]) -> File:
    packed = ending in WITH_PICTURES
    return f"{stem}{ending}{'.zip' if packed else ''}", partial(made, stem, ending, write, packed)


def made(stem: str, ending: str, write: Callable[[Path], object], packed: bool) -> bytes:
    """The bytes of a file that `write` writes; `packed`: a zip of it and what is next to it."""
    with tempfile.TemporaryDirectory(prefix="workbench-") as temporary:
        folder = Path(temporary) / stem
        folder.mkdir()
        path = folder / f"{stem}{ending}"
        write(path)
        if packed:
            path = Path(shutil.make_archive(str(folder), "zip", folder))
        return path.read_bytes()
