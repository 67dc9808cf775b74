"""Receiving models and corpora on a page: unpacked or written whole, checked, and listed.

A model is opened once, in a process of its own, before it is kept; a corpus is read to its end.
Costs that, and the memory of what was uploaded.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import sidebar
from workbench.app.text import facts, plain, size, told
from workbench.core.errors import WorkbenchError
from workbench.models.references import catalogue
from workbench.uploads import Kind, Upload, receive, remove, safe_name, uploads

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from workbench.corpora.validate import Fault

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
    from workbench.runs.isolated import look
    from workbench.uploads import unpack

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
        from workbench.corpora.validate import faults

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

    from workbench.corpora.validate import MOST

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
    use = sidebar.choose_model if kind == "models" else sidebar.choose_corpus
    now = sidebar.model() if kind == "models" else sidebar.corpus()
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
    if sidebar.model() == str(upload.path):
        sidebar.choose_model(sidebar.FIRST_MODEL)
    if sidebar.corpus() == str(upload.path):
        sidebar.choose_corpus(sidebar.CORPORA[0])


def draw_news(key: str) -> None:
    """What became of the last upload, told once; and what went wrong on removing."""
    if good := st.session_state.pop(key, None):
        st.success(good, icon=":material/check:")
    if wrong := st.session_state.pop("upload-problem", None):
        st.error("This did not work.", icon=":material/error:")
        st.code(wrong, language=None, wrap_lines=True)


def news(kind: str, upload: Upload) -> str:
    """What is said of an upload that was kept."""
    return f"{plain(upload.name)} was kept as a {kind}, and is in use now."


# --- uploading a corpus ---------------------------------------------------------------------------
#
# Costs the reading of what is uploaded, to its end.


def use_typed_corpus() -> None:
    """Choose what was typed."""
    if typed := str(st.session_state.get("typed-corpus") or "").strip():
        sidebar.choose_corpus(typed)


def draw_corpus_upload() -> None:
    """Files that become one corpus."""
    turn = st.session_state.setdefault("corpus-turn", 0)
    files = st.file_uploader(
        "Files of one corpus",
        type=ENDINGS,
        accept_multiple_files=True,
        key=f"corpus-upload-{turn}",
        help="CoNLL-U, CSV or TSV with a first row that names the columns, JSON lines, plain text, "
        "spaCy's .spacy, or Penn brackets. Several files are the splits of one corpus, and are "
        f"named so: train, dev, test. Up to {limit()} MB each; for larger ones, type the "
        "folder instead.",
    )
    if not files:
        return
    from workbench.corpora.tables import ENOUGH, columns

    named = columns(files[0].name, bytes(files[0].getbuffer()[:ENOUGH]))
    text, labels = draw_columns(named.names, named.text, named.labels) if named.names else ((), ())
    missing = bool(named.names) and not (text or named.text)
    if not st.button("Read and keep them", type="primary", disabled=missing):
        return
    with told(), st.spinner("Reading to the end …"):
        try:
            upload = receive_corpus(files, text, labels)
        except FaultyError as faulty:
            draw_faults(faulty)
            return
        sidebar.choose_corpus(str(upload.path))
        st.session_state["corpus-turn"] = turn + 1
        st.session_state["corpus-news"] = news("corpus", upload)
        st.rerun()


def draw_columns(
    names: Sequence[str], text: Sequence[str], labels: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Which columns are what; nothing where it is as their names tell already."""
    if not text:
        st.info("Which column is the text? Their names do not tell.")
    st.caption(f"The first row names the columns: {plain(', '.join(names), 200)}.")
    texts = st.multiselect(
        "Text columns",
        names,
        default=list(text),
        max_selections=2,
        help="The column with the text, or the two with a pair of texts.",
    )
    said = st.multiselect(
        "Label columns",
        [name for name in names if name not in texts],
        default=[name for name in labels if name not in texts],
        help="What is said of each text: classes or scores.",
    )
    if tuple(texts) == tuple(text) and set(said) == set(labels):
        return (), ()
    return tuple(texts), tuple(said)


# --- uploading a model ----------------------------------------------------------------------------
#
# Opening another model: a reference that is typed, or a zip that is uploaded; and what there is.
#
# Costs nothing until something is uploaded: that is unpacked, and opened once.


def use_typed_model() -> None:
    """Choose what was typed."""
    if typed := str(st.session_state.get("typed-model") or "").strip():
        sidebar.choose_model(typed)


def draw_model_upload() -> None:
    """A zip of a model's folder."""
    turn = st.session_state.setdefault("model-turn", 0)
    file = st.file_uploader(
        "A zip of a model's folder",
        type="zip",
        key=f"model-upload-{turn}",
        help="config.json, model.safetensors and the tokenizer's files; pickled weights are "
        f"refused. Up to {limit()} MB; for a larger one, type its folder instead.",
    )
    if file is None or not st.button("Unpack and open it", type="primary"):
        return
    with told(), st.spinner("Unpacking it, and opening it once …"):
        upload = receive_model(file)
        sidebar.choose_model(str(upload.path))
        st.session_state["model-turn"] = turn + 1
        st.session_state["model-news"] = news("model", upload)
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


# --- disk use of folders --------------------------------------------------------------------------

SECONDS = 3.0  # for each folder
REMEMBERED = 300  # seconds


def folders(where: Mapping[str, str], free: Mapping[str, int]) -> None:
    """Folders, what they hold, and what is free on their disks."""
    rows = []
    for name, folder in where.items():
        held = "nothing yet"
        if Path(folder).is_dir():
            number, whole = taken(folder)
            held = size(number) if whole else f"more than {size(number)}"
        rows.append((name, f"{folder}\n{held}; {size(free[name])} free"))
    facts(rows)


@st.cache_data(ttl=REMEMBERED, show_spinner="Measuring folders …")
def taken(folder: str) -> tuple[int, bool]:
    """Bytes of the files in a folder, links not followed; and whether all of it was looked at."""
    total, waiting, deadline = 0, [folder], time.monotonic() + SECONDS
    while waiting:
        if time.monotonic() > deadline:
            return total, False
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total, True
