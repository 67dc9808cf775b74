"""Uploads of models and corpora: unpacked, checked, stored and listed.

A model is opened once in a process of its own before it is stored; a corpus is read to its end.
Costs: opening the model or reading the corpus, and memory for the uploaded bytes.
"""

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import choice
from workbench.app.text import errors_shown, facts, plain, size
from workbench.app.uploaded_files import Upload, receive, remove, safe_name, uploads
from workbench.core import names
from workbench.core.errors import WorkbenchError
from workbench.core.files import open_regular
from workbench.core.names import Kind
from workbench.models.references import catalogue

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from workbench.corpora.readers.tables import ColumnNames
    from workbench.corpora.validate import Fault

PAGE = "page"  # the place of an upload that is not in the top bar


class FaultyError(Exception):
    """A corpus file with faults, which is not stored."""

    def __init__(self, name: str, faults: "Sequence[Fault]") -> None:
        self.name, self.faults = name, faults
        super().__init__(name)


def limit() -> int:
    """The maximum size of an upload in MB."""
    return int(st.get_option("server.maxUploadSize"))


def receive_model(file: "UploadedFile", name: str) -> Upload:
    """Unpack a zip and store it if it is a model."""
    from workbench.app.uploaded_files import unpack
    from workbench.runs.isolated import look

    def fill(draft: Path) -> None:
        unpack(file, draft)
        look(str(draft), "facts")

    return receive("models", name, fill)


def receive_corpus(
    files: "Sequence[UploadedFile | Path]",
    name: str,
    text: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> tuple[Upload, tuple[str, ...]]:
    """Store files as one corpus if each can be read to its end, and has sentences.

    If columns are named, tables are converted to .spacy files, so the choice is part of the corpus.
    The notes of the reader, such as the number of rows that are left out, are returned, too.
    """
    notes: list[str] = []

    def fill(draft: Path) -> None:
        from workbench.corpora import read, write
        from workbench.corpora.layers import LEFT_OUT
        from workbench.corpora.validate import faults

        paths = []
        for file in files:
            path = draft / safe_name(file.name)
            if path.exists():
                raise WorkbenchError(
                    "Two of the files have this name.",
                    code="name-repeated",
                    where=path.name,
                    remedy="Rename one of them, and upload both again.",
                )
            if isinstance(file, Path):
                with open_regular(file) as source, path.open("xb") as copy:
                    shutil.copyfileobj(source, copy)
            else:
                path.write_bytes(file.getbuffer())
            if file_faults := faults(path, text=text, labels=labels):
                raise FaultyError(file.name, file_faults)
            _require_sentences(path, file.name, text, labels)
            paths.append(path)
        if text or labels:
            for path in paths:
                corpus = read(path, text=text, labels=labels)
                notes.extend(corpus.notes)
                docs = list(corpus.docs())
                for note in corpus.notes:
                    if "left out" in note:
                        docs[0].user_data[LEFT_OUT] = note  # which the copy has no other place for
                write(docs, path.with_suffix(".spacy"))
                path.unlink()
        notes.extend(read(draft).notes)  # raises if the files are not those of one corpus

    return receive("corpora", name, fill), tuple(dict.fromkeys(notes))


def _require_sentences(path: Path, name: str, text: Sequence[str], labels: Sequence[str]) -> None:
    from workbench.corpora import read

    if next(iter(read(path, text=text, labels=labels)), None) is None:
        raise WorkbenchError(
            "This file has no sentences. Nothing was stored.",
            code="corpus-empty",
            where=name,
            remedy="Remove it from the upload, or upload it with its content.",
        )


def name_of_files(names: Sequence[str]) -> str:
    """A name for a corpus of these files: what their names have in common, else all of them.

    Whole words of the names, `children` of `children-train` and `children-test`; else letters.
    """
    stems = [PurePosixPath(safe_name(name)).stem for name in names]
    words = [re.findall(r"[-_. ]+|[^-_. ]+", stem) for stem in stems]
    for parts in (words, stems):
        same = takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))
        common = "".join(each[0] for each in same).strip("-_. ")
        if len(common) > 1:
            return common
    return " + ".join([*stems[:3], *([f"{len(stems) - 3} more"] if len(stems) > 3 else [])])


def draw_name(kind: Kind, place: str, proposed: str) -> str:
    """Draw the box for the name of an upload, and return the name."""
    return (
        st.text_input(
            "Name of the upload",
            value=names.free(kind, proposed),
            key=f"name of upload {kind} {place} {proposed}",
            max_chars=names.LONGEST,
            help="Shown in titles, reports and addresses. You can change it later.",
        ).strip()
        or proposed
    )


def draw_faults(faulty: FaultyError) -> None:
    """Draw the faults of a corpus file, line by line."""
    import pandas as pd

    from workbench.corpora.validate import MOST

    count = len(faulty.faults)
    counted = f"at least {MOST} faults" if count >= MOST else f"{count} faults"
    st.error(
        f"{plain(faulty.name, 80)} has {'1 fault' if count == 1 else counted} and was not stored.",
        icon=":material/error:",
    )
    rows = [(fault.line or None, fault.what, fault.remedy) for fault in faulty.faults]
    table = pd.DataFrame(rows, columns=["line", "problem", "remedy"])
    table["line"] = table["line"].astype("Int64")
    for row in rows[:8]:
        line = f"Line {row[0]:,}: " if row[0] else ""
        st.text(f"{line}{row[1]}")
    for remedy in dict.fromkeys(fault.remedy for fault in faulty.faults[:8] if fault.remedy):
        st.text(remedy)
    st.dataframe(table, hide_index=True, width="stretch")


def draw_list(kind: Kind) -> None:
    """Draw the uploads, each with buttons to use and to remove it."""
    stored = uploads(kind)
    if not stored:
        st.caption("No uploads yet.")
        return
    use = choice.CHOOSE[kind]
    current = choice.model() if kind == "models" else choice.corpus()
    for upload in stored:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f"**{plain(upload.name)}**  \n{size(upload.size)}, `{upload.hash[:8]}`",
                width="stretch",
            )
            with st.popover("Rename", key=f"rename-{upload.path.name}"):
                choice.offer_name(str(upload.path), kind, "list")
            in_use = current == str(upload.path)
            st.button(
                "In use" if in_use else "Use",
                key=f"use-{upload.path.name}",
                disabled=in_use,
                on_click=use,
                args=(str(upload.path),),
                help=f"Choose {plain(upload.name)} on all pages.",
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
    """Remove an upload; if it was chosen, choose the first model or corpus."""
    try:
        remove(kind, upload.path.name)
    except WorkbenchError as error:
        st.session_state["upload-problem"] = str(error)
        return
    if choice.model() == str(upload.path):
        choice.choose_model(choice.FIRST_MODEL)
    if choice.corpus() == str(upload.path):
        choice.choose_corpus(choice.CORPORA[0])


def draw_news(key: str) -> None:
    """Draw, once, that the last upload was stored, or why one could not be removed."""
    if message := st.session_state.pop(key, None):
        st.success(message, icon=":material/check:")
    if problem := st.session_state.pop("upload-problem", None):
        st.error("The upload could not be removed.", icon=":material/error:")
        st.code(problem, language=None, wrap_lines=True)


def news(kind: str, upload: Upload, notes: Sequence[str] = ()) -> str:
    """The message for an upload that was stored."""
    said = (plain(note, 300) for note in reversed(notes))  # first what is left out
    stored = f"Stored the {kind} {plain(upload.name)}."
    return " ".join([stored, *said, "It is now chosen in the top bar."])


# --- uploading a corpus ---------------------------------------------------------------------------
#
# Costs: reading the uploaded files to their end.


def use_typed_corpus() -> None:
    """Choose the corpus that was typed, or let the columns of its tables be chosen."""
    if (typed := str(st.session_state.get("typed-corpus") or "").strip()) and not is_open_table(
        typed, PAGE
    ):
        choice.choose_corpus(typed)


def is_open_table(path: str, place: str) -> bool:
    """Whether a path has tables with unknown text columns, which `draw_typed_table` then shows."""
    from workbench.corpora import read
    from workbench.corpora.formats import resolve

    files: list[Path] = []
    try:
        files = [file for split in resolve(Path(path)).splits.values() for file in split]
        read(path)
        is_open = False
    except WorkbenchError as error:  # any other is said where the corpus is opened
        is_open = error.code == "column-not-found" and bool(_header(files[0]).names)
    st.session_state[f"typed-table-{place}"] = files if is_open else []
    return is_open


def draw_typed_table(place: str = PAGE) -> None:
    """Draw the choice of the columns of typed tables; a copy with these columns is stored."""
    key = f"typed-table-{place}"
    if (files := st.session_state.get(key)) and _draw_storing(files, f"{place} typed"):
        st.session_state[key] = []
        st.rerun()


def draw_columns_of(ref: str) -> bool:
    """Draw the choice of columns of the chosen corpus; return whether that is what it lacks."""
    place = f"{PAGE} chosen"
    if is_open := is_open_table(names.path_of("corpora", ref), place):
        draw_typed_table(place)
    return is_open


def _header(file: "UploadedFile | Path") -> "ColumnNames":
    from workbench.corpora.readers.tables import ENOUGH, columns

    if isinstance(file, Path):
        with open_regular(file) as opened:
            return columns(file.name, opened.read(ENOUGH))
    return columns(file.name, bytes(file.getbuffer()[:ENOUGH]))


def draw_corpus_upload(place: str = PAGE) -> None:
    """Draw the upload of the files of one corpus, in one of the places that have it."""
    from workbench.corpora.formats import formats

    turn = st.session_state.setdefault("corpus-turn", 0)
    files = st.file_uploader(
        "Files of one corpus",
        accept_multiple_files=True,
        key=f"corpus-upload-{place}-{turn}",
        help="CoNLL-U, CSV or TSV with a header row, JSON lines, plain text, spaCy's .spacy, or "
        "Penn brackets. To upload several splits, name the files train, dev and test. Maximum "
        f"{limit()} MB for each file; for a larger corpus, type the path of its folder.",
    )
    if not files:
        return
    for file in files:
        if not file.name.lower().endswith(tuple(formats())):
            st.error(
                f"{plain(file.name, 80)}: the file extension is unknown. Known: "
                f"{', '.join(formats())}. Save a spreadsheet as CSV, in UTF-8.",
                icon=":material/error:",
            )
            return
    if _draw_storing(files, place):
        st.session_state["corpus-turn"] = turn + 1
        st.rerun()


def _draw_storing(files: "Sequence[UploadedFile | Path]", place: str) -> bool:
    """Draw the columns and the name of these files; whether they were stored, and are chosen."""
    header = _header(files[0])
    above = st.container()  # what is wrong: below the button, the box of the top bar hides it
    text, labels = (
        draw_columns(header.names, header.text, header.labels, place) if header.names else ((), ())
    )
    missing = bool(header.names) and not (text or header.text)
    name = draw_name("corpora", place, name_of_files([file.name for file in files]))
    if not st.button(
        "Check and store", key=f"store corpus {place}", type="primary", disabled=missing
    ):
        return False
    with above, errors_shown(), st.spinner("Reading the files …"):
        try:
            upload, notes = receive_corpus(files, name, text, labels)
        except FaultyError as faulty:
            draw_faults(faulty)
            return False
        choice.choose_corpus(str(upload.path))
        if place.startswith(PAGE):
            st.session_state["corpus-news"] = news("corpus", upload, notes)
        else:  # the box of the top bar closes
            st.toast(news("corpus", upload, notes), icon=":material/check:", duration="long")
        return True
    return False


def draw_columns(
    names: Sequence[str], text: Sequence[str], labels: Sequence[str], place: str
) -> tuple[Sequence[str], Sequence[str]]:
    """The chosen text and label columns; empty if they are those detected from the names."""
    key = f"text columns {place}"
    if not text and not st.session_state.get(key):
        st.info(
            "Choose the text column: it was not recognised by its name. The first row must name "
            "the columns: if it is a text already, add a row of names above it."
        )
    st.caption(f"Columns: {plain(', '.join(names), 200)}.")
    texts = st.multiselect(
        "Text columns",
        names,
        default=list(text),
        max_selections=2,
        key=key,
        help="The column with the text, or the two columns with a pair of texts.",
    )
    chosen_labels = st.multiselect(
        "Label columns",
        [name for name in names if name not in texts],
        default=[name for name in labels if name not in texts],
        key=f"label columns {place}",
        help="Columns with the labels of each text: classes or scores.",
    )
    if tuple(texts) == tuple(text) and set(chosen_labels) == set(labels):
        return (), ()
    return tuple(texts), tuple(chosen_labels)


# --- uploading a model ----------------------------------------------------------------------------
#
# Costs: an uploaded model is unpacked and opened once.


def use_typed_model() -> None:
    """Choose the model that was typed."""
    if typed := str(st.session_state.get("typed-model") or "").strip():
        choice.choose_model(typed)


def draw_model_upload(place: str = PAGE) -> None:
    """Draw the upload of a zip of a model's folder, in one of the places that have it."""
    turn = st.session_state.setdefault("model-turn", 0)
    file = st.file_uploader(
        "Zip file of a model's folder",
        type="zip",
        key=f"model-upload-{place}-{turn}",
        help="The zip holds config.json, model.safetensors and the tokenizer's files. Pickled "
        f"weights are refused. Maximum {limit()} MB; for a larger model, type the path of its "
        "folder.",
    )
    if file is None:
        return
    name = draw_name("models", place, PurePosixPath(file.name).stem)
    if not st.button("Check and store", key=f"store model {place}", type="primary"):
        return
    with errors_shown(), st.spinner("Unpacking and opening the model …"):
        upload = receive_model(file, name)
        choice.choose_model(str(upload.path))
        st.session_state["model-turn"] = turn + 1
        if place == PAGE:
            st.session_state["model-news"] = news("model", upload)
        st.rerun()


def draw_openable() -> None:
    """Draw the kinds of references and the supported model families."""
    known = catalogue()
    st.markdown("Ways to name a model:")
    st.table(
        [
            {"reference": plain(name), "description": plain(about)}
            for name, about in known["references"].items()
        ],
        border="horizontal",
        hide_index=True,
    )
    st.markdown("Supported families. Add `@random` to a name to get the model with random weights.")
    st.table(
        [
            {
                "family": plain(family["name"]),
                "stacks": plain(family["stacks"]),
                "description": plain(family["about"]),
                "limits": plain(family["limits"]) or "none",
            }
            for family in known["families"]
        ],
        border="horizontal",
        hide_index=True,
    )


# --- disk use of folders --------------------------------------------------------------------------

SECONDS = 3.0  # spent on each folder
CACHED = 300  # seconds


def folders(paths: Mapping[str, str], free: Mapping[str, int]) -> None:
    """Draw folders with their size and the free space on their disks."""
    rows = []
    for name, folder in paths.items():
        used = "empty"
        if Path(folder).is_dir():
            n_bytes, is_complete = disk_use(folder)
            used = size(n_bytes) if is_complete else f"more than {size(n_bytes)}"
        rows.append((name, f"{folder}\n{used}; {size(free[name])} free on its disk"))
    facts(rows)


@st.cache_data(ttl=CACHED, show_spinner="Measuring folders …")
def disk_use(folder: str) -> tuple[int, bool]:
    """Bytes of the files in a folder, links not followed; and whether all of it was measured."""
    total, unread, deadline = 0, [folder], time.monotonic() + SECONDS
    while unread:
        if time.monotonic() > deadline:
            return total, False
        try:
            with os.scandir(unread.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        unread.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total, True
