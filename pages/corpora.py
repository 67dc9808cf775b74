"""Corpora: what the chosen one holds, its sentences one by one, and how to bring another."""

import streamlit as st

from workbench.app import cache, corpus_browser, sidebar, text, uploads
from workbench.app.text import plain

st.title("Corpora")
uploads.draw_news("corpus-news")
st.subheader(plain(sidebar.named(sidebar.corpus(), "corpora"), 120))
with st.spinner("Starting spaCy …"):
    cache.ready()
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
    st.button("Use this corpus", on_click=uploads.use_typed_corpus)
with by_upload:
    uploads.draw_corpus_upload()
st.subheader("Uploaded")
uploads.draw_list("corpora")

with top, text.told():
    ref = sidebar.corpus()
    if cache.is_remote_corpus(ref) and ref not in st.session_state.get("hub-corpora", ()):
        corpus_browser.draw_fetch(ref)
    else:
        sizes = corpus_browser.draw_chosen(ref)
        st.header("Sentences")
        corpus_browser.draw(ref, sizes)
