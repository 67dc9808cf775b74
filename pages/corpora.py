"""Corpora: what the chosen one holds, its sentences one by one, and how to bring another."""

import streamlit as st

from workbench.view.parts import (
    chosen,
    corpus_facts,
    corpus_upload,
    problems,
    sentences,
    sources,
    uploads,
)
from workbench.view.parts.plain import plain

st.title("Corpora")
uploads.draw_news("corpus-news")
st.subheader(plain(chosen.named(chosen.corpus(), "corpora"), 120))
with st.spinner("Starting spaCy …"):
    sources.ready()
top = st.container()  # filled last, for it may take seconds

st.header("Bring another")
by_name, by_upload = st.columns(2, gap="large")
with by_name:
    st.text_input(
        "A file or a folder",
        key="typed-corpus",
        placeholder="/data/en_ewt-ud-dev.conllu, or primer:size=500",
        help="Read where it lies. A folder holds the files of the splits: train, dev, test.",
    )
    st.button("Use this corpus", on_click=corpus_upload.use_typed)
with by_upload:
    corpus_upload.draw_upload()
st.subheader("Uploaded")
uploads.draw_list("corpora")

with top, problems.told():
    ref = chosen.corpus()
    if sources.is_remote_corpus(ref) and ref not in st.session_state.get("hub-corpora", ()):
        corpus_facts.draw_fetch(ref)
    else:
        sizes = corpus_facts.draw_chosen(ref)
        st.header("Sentences")
        sentences.draw(ref, sizes)
