"""Probing: what each layer knows of each task; asked, watched, and looked at from every side.

What is looked at is in the address: the run, the one beside it, the view and its choices. Costs
what asking costs; looking reads a run's tables.
"""

import streamlit as st

from workbench.app import cache, probing, probing_views, run_form, run_view
from workbench.app.text import told

st.title("Probing", anchor=False)
with told(stop=True), st.spinner("Getting ready …"):
    cache.ready()
kind = probing.experiment()
st.markdown(
    "A probe is a small classifier that reads a frozen layer. What it can tell, the layer knows; "
    "what it could tell anyway is told by the baselines and control tasks beside it."
)
run = probing.opened(kind)
probing_views.choose(run.name if run else "")
probing.ask(kind, run)
if run is not None:
    st.divider()
    with told():
        if run_view.watched(run):
            run_form.answered(run)
            probing.show(run)
