"""Heads: what every attention head does; asked, watched, and looked at head by head.

What is looked at is in the address: the run, the head, the colours, the relation. Costs what asking
costs; looking reads a run's tables.
"""

import streamlit as st

from workbench.app import cache, heads, run_form, run_view
from workbench.app.text import told

st.title("Heads", anchor=False)
with told(stop=True), st.spinner("Getting ready …"):
    cache.ready()
kind = heads.experiment()
st.markdown(
    "What each attention head does: which offset, relation or kind of word it looks at, beside "
    "what fixed offsets and shuffled trees come to. Asked of a whole corpus in about one pass."
)
run = heads.opened(kind)
heads.choose(run.name if run else "")
run_form.ask(kind, run)
if run is not None:
    st.divider()
    with told():
        if run_view.watched(run):
            run_form.answered(run)
            heads.show(run)
