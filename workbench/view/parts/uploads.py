"""Receiving models and corpora on a page: unpacked or written whole, checked, and listed.

A model is opened once, in a process of its own, before it is kept; a corpus is read to its end.
Costs that, and the memory of what was uploaded.
"""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.uploads.store import Kind, Upload, receive, remove, safe_name, uploads
from workbench.view.parts import chosen
from workbench.view.parts.plain import plain, size

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from workbench.corpora.faults import Fault

ENDINGS = [
    "conllu",
    "conll",
    "bio",
    "csv",
    "tsv",
    "jsonl",
    "json",
    "txt",
    "spacy",
    "mrg",
    "ptb",
    "parse",
]


class FaultyError(Exception):
    """A corpus file with faults, which is not kept."""

    def __init__(self, name: str, faults: "Sequence[Fault]") -> None:
        self.name, self.faults = name, faults
        super().__init__(name)


def limit() -> int:
    """The largest upload the app takes, in MB."""
    return int(st.get_option("server.maxUploadSize"))


def receive_model(file: "UploadedFile") -> Upload:
    """Unpack a zip and keep it if it is a model."""
    from workbench.runs.apart import look
    from workbench.uploads.archives import unpack

    def fill(draft: Path) -> None:
        unpack(file, draft)
        look(str(draft), "facts")

    return receive("models", PurePosixPath(file.name).stem, fill)


def receive_corpus(
    files: "Sequence[UploadedFile]", text: Sequence[str] = (), labels: Sequence[str] = ()
) -> Upload:
    """Keep files as one corpus if each can be read to its end.

    With columns named, tables become .spacy files: the choice is then part of the corpus.
    """

    def fill(draft: Path) -> None:
        from workbench.corpora import read, write
        from workbench.corpora.faults import faults

        paths = []
        for file in files:
            path = draft / safe_name(file.name)
            if path.exists():
                raise WorkbenchError(
                    "two files have this name.",
                    where=path.name,
                    remedy="Rename one of them, and upload both again.",
                )
            path.write_bytes(file.getbuffer())
            if wrong := faults(path, text=text, labels=labels):
                raise FaultyError(file.name, wrong)
            paths.append(path)
        if text or labels:
            for path in paths:
                write(read(path, text=text, labels=labels).docs(), path.with_suffix(".spacy"))
                path.unlink()
        if next(iter(read(draft)), None) is None:
            raise WorkbenchError("there is nothing in it.", remedy="Upload a file with sentences.")

    name = files[0].name if len(files) == 1 else _common(files)
    return receive("corpora", name, fill)


def _common(files: "Sequence[UploadedFile]") -> str:
    """What several files' names begin with, or the first one's."""
    names = [safe_name(file.name) for file in files]
    shared = ""
    for signs in zip(*names, strict=False):
        if len(set(signs)) > 1:
            break
        shared += signs[0]
    return shared.strip("-_.") or PurePosixPath(names[0]).stem


def draw_faults(faulty: FaultyError) -> None:
    """A table of what is wrong on which line."""
    import pandas as pd

    from workbench.corpora.faults import MOST

    number = len(faulty.faults)
    many = f"at least {MOST} faults" if number >= MOST else f"{number} faults"
    st.error(
        f"{plain(faulty.name, 80)} has {'a fault' if number == 1 else many}, and was not kept.",
        icon=":material/error:",
    )
    rows = [(fault.line or None, fault.what, fault.remedy) for fault in faulty.faults]
    table = pd.DataFrame(rows, columns=["line", "what is wrong", "what to do"])
    table["line"] = table["line"].astype("Int64")
    for row in rows[:8]:
        line = f"Line {row[0]:,}: " if row[0] else ""
        st.text(f"{line}{row[1]}")
    for remedy in dict.fromkeys(fault.remedy for fault in faulty.faults[:8] if fault.remedy):
        st.text(remedy)
    st.dataframe(table, hide_index=True, width="stretch")


def draw_list(kind: Kind) -> None:
    """What was uploaded, each with a button to use it and one to remove it."""
    found = uploads(kind)
    if not found:
        st.caption("Nothing has been uploaded yet.")
        return
    use = chosen.choose_model if kind == "models" else chosen.choose_corpus
    now = chosen.model() if kind == "models" else chosen.corpus()
    for upload in found:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(
                f"**{plain(upload.name)}**  \n{size(upload.size)}, `{upload.hash[:8]}`",
                width="stretch",
            )
            used = now == str(upload.path)
            st.button(
                "In use" if used else "Use",
                key=f"use-{upload.path.name}",
                disabled=used,
                on_click=use,
                args=(str(upload.path),),
                help=f"Look at this one on all pages: {plain(upload.name)}",
            )
            st.button(
                "Remove",
                key=f"remove-{upload.path.name}",
                icon=":material/delete:",
                on_click=_removed,
                args=(kind, upload),
                help="Delete the uploaded copy. Finished runs keep their results.",
            )


def _removed(kind: Kind, upload: Upload) -> None:
    """Remove it; whoever was looking at it looks at the first there is."""
    try:
        remove(kind, upload.path.name)
    except WorkbenchError as error:
        st.session_state["upload-problem"] = str(error)
        return
    if chosen.model() == str(upload.path):
        chosen.choose_model(chosen.FIRST_MODEL)
    if chosen.corpus() == str(upload.path):
        chosen.choose_corpus(chosen.CORPORA[0])


def draw_news(key: str) -> None:
    """What became of the last upload, told once; and what went wrong on removing."""
    if told := st.session_state.pop(key, None):
        st.success(told, icon=":material/check:")
    if wrong := st.session_state.pop("upload-problem", None):
        st.error("This did not work.", icon=":material/error:")
        st.code(wrong, language=None, wrap_lines=True)


def news(kind: str, upload: Upload) -> str:
    """What is said of an upload that was kept."""
    return f"{plain(upload.name)} was kept as a {kind}, and is in use now."
