"""The chosen model: facts, stacks and parameters; and ways to open another model.

Costs: a new model is opened once in a process of its own, in seconds.
"""

import streamlit as st

from workbench.app import choice
from workbench.app.library import model_facts, uploads

st.title("Models")
st.markdown("Architecture, objective and parameters of the model chosen in the top bar.")
uploads.draw_news("model-news")
top = st.container()  # filled last: it may take seconds

st.header("Open another model")
by_name, by_upload = st.columns(2, gap="large")
with by_name:
    st.text_input(
        "Folder, GGUF file, hub id or run",
        key="typed-model",
        placeholder="/data/my-bert, or bert-base-uncased",
        help="A folder or file is read in place. A hub id that is not in the cache is "
        "downloaded only after you confirm.",
    )
    st.button("Use this model", on_click=uploads.use_typed_model)
with by_upload:
    uploads.draw_model_upload()

st.subheader("Uploaded models")
uploads.draw_list("models")
with st.expander("Supported models", type="compact"):
    uploads.draw_openable()
with top:
    model_facts.draw_chosen(choice.model())
