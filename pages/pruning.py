"""Pruning: which heads matter, which can go, and what is left; asked, watched, and looked at.

What is looked at is in the address: the question, the run, the view. Costs what asking costs;
looking reads a run's tables, and the slider opens the model.
"""

import streamlit as st

from workbench.view.parts import asking, jobs, pruning, pruning_shown, question, sources
from workbench.view.parts.problems import told

st.title("Pruning", anchor=False)
with told(stop=True), st.spinner("Getting ready …"):
    sources.ready()
st.markdown(
    "Which heads matter to first order, what exactly is lost without each, how many can go and "
    "which first, and which stay open when each must pay for it."
)
kind = pruning.experiment()
run = pruning.opened(kind)
pruning.choose(kind, run.name if run else "")
question.ask(kind, run, kind.about)
if run is not None:
    st.divider()
    with told():
        if jobs.watched(run):
            asking.answered(run)
            pruning_shown.show(run)
