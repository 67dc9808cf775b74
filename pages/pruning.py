"""Pruning: which heads matter, which can go, and what is left; asked, watched, and looked at.

What is looked at is in the address: the question, the run, the view. Costs what asking costs;
looking reads a run's tables, and the slider opens the model.
"""

import streamlit as st

from workbench.app import cache, pruning, run_form, run_view
from workbench.app.text import told

st.title("Pruning", anchor=False)
with told(stop=True), st.spinner("Getting ready …"):
    cache.ready()
st.markdown(
    "Which heads matter to first order, what exactly is lost without each, how many can go and "
    "which first, and which stay open when each must pay for it."
)
kind = pruning.experiment()
run = pruning.opened(kind)
pruning.choose(kind, run.name if run else "")
run_form.ask(kind, run, kind.about)
if run is not None:
    st.divider()
    with told():
        if run_view.watched(run):
            run_form.answered(run)
            pruning.show(run)
