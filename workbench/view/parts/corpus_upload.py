"""Bringing a corpus: a path that is typed, or files that are uploaded, checked and kept.

Costs the reading of what is uploaded, to its end.
"""

from collections.abc import Sequence

import streamlit as st

from workbench.view.parts import chosen, problems, uploads
from workbench.view.parts.plain import plain


def use_typed() -> None:
    """Choose what was typed."""
    if typed := str(st.session_state.get("typed-corpus") or "").strip():
        chosen.choose_corpus(typed)


def draw_upload() -> None:
    """Files that become one corpus."""
    turn = st.session_state.setdefault("corpus-turn", 0)
    files = st.file_uploader(
        "Files of one corpus",
        type=uploads.ENDINGS,
        accept_multiple_files=True,
        key=f"corpus-upload-{turn}",
        help="CoNLL-U, CSV or TSV with a first row that names the columns, JSON lines, plain text, "
        "spaCy's .spacy, or Penn brackets. Several files are the splits of one corpus, and are "
        f"named so: train, dev, test. Up to {uploads.limit()} MB each; for larger ones, type the "
        "folder instead.",
    )
    if not files:
        return
    from workbench.corpora.columns import ENOUGH, columns

    told = columns(files[0].name, bytes(files[0].getbuffer()[:ENOUGH]))
    text, labels = draw_columns(told.names, told.text, told.labels) if told.names else ((), ())
    missing = bool(told.names) and not (text or told.text)
    if not st.button("Read and keep them", type="primary", disabled=missing):
        return
    with problems.told(), st.spinner("Reading to the end …"):
        try:
            upload = uploads.receive_corpus(files, text, labels)
        except uploads.FaultyError as faulty:
            uploads.draw_faults(faulty)
            return
        chosen.choose_corpus(str(upload.path))
        st.session_state["corpus-turn"] = turn + 1
        st.session_state["corpus-news"] = uploads.news("corpus", upload)
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
