"""Models: what the chosen one is, where its parameters are, and how to open another."""

import streamlit as st

from workbench.app import model_facts, sidebar, uploads

st.title("Models")
uploads.draw_news("model-news")
top = st.container()  # filled last, for it may take seconds

st.header("Open another")
by_name, by_upload = st.columns(2, gap="large")
with by_name:
    st.text_input(
        "A folder, a hub id, or a run",
        key="typed-model",
        placeholder="/data/my-bert, or bert-base-uncased",
        help="A folder is read where it lies, and nothing is fetched. A hub id that is not in the "
        "cache is fetched on a further click only.",
    )
    st.button("Use this model", on_click=uploads.use_typed_model)
with by_upload:
    uploads.draw_model_upload()

st.subheader("Uploaded")
uploads.draw_list("models")
with st.expander("What can be opened"):
    uploads.draw_openable()
with top:
    model_facts.draw_chosen(sidebar.model())
