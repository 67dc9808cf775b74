"""The chosen corpus: its splits, layers and sentences; and ways to add another corpus.

Costs: counting and reading a bounded part of the corpus.
"""

import streamlit as st

from workbench.app import cache, choice, text, unknown
from workbench.app.library import corpus_browser, uploads
from workbench.app.text import plain
from workbench.core.errors import WorkbenchError

st.title("Corpora")
st.markdown("Splits, annotation layers and sentences of the corpus chosen in the top bar.")
uploads.draw_news("corpus-news")
ref = choice.corpus()
st.subheader(plain(choice.name_of(ref, "corpora"), 120))
if choice.name_of(ref, "corpora") != ref:
    st.caption(plain(choice.details(ref, "corpora")))
top = st.container()  # filled last: it may take seconds

st.header("Add a corpus")
by_name, by_upload = st.columns(2, gap="large")
with by_name:
    st.text_input(
        "File or folder",
        key="typed-corpus",
        placeholder="/data/en_ewt-ud-dev.conllu, or primer:size=500",
        help="Read in place, not copied. A folder contains one file for each split: train, dev, "
        "test.",
    )
    st.button("Use this corpus", on_click=uploads.use_typed_corpus)
    uploads.draw_typed_table()
with by_upload:
    uploads.draw_corpus_upload()
st.subheader("Uploaded corpora")
uploads.draw_list("corpora")

with top, text.errors_shown():
    if error := unknown.problem("corpora", ref):
        raise error
    if cache.is_remote_corpus(ref) and ref not in st.session_state.get("hub-corpora", ()):
        corpus_browser.draw_fetch(ref)
    else:
        try:
            sizes = corpus_browser.draw_chosen(ref)
        except WorkbenchError:
            if not uploads.draw_columns_of(ref):
                raise
        else:
            st.header("Sentences")
            corpus_browser.draw(ref, sizes)
