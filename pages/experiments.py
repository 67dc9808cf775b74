"""Run an experiment: choose it, set it, see whether it fits, start it, watch it, read its answer.

The run is a process of its own and its name is in the address, so a reload or another browser finds
it again. Costs what asking costs: the bytes of the model and the corpus are read.
"""

import streamlit as st

from workbench.app import cache, run_form, run_list, run_view, text
from workbench.app.text import told

st.title("Run an experiment", anchor=False)
with told(stop=True):
    with st.spinner("Getting ready …"):
        cache.ready()
    kind = run_form.experiment()
st.text(kind.about)
run_form.needs(kind)

run = run_form.opened(kind)
run_form.question(kind, run)

if run is not None:
    st.divider()
    with told():
        st.header("The answer" if run.status.state == "done" else "The run", anchor=False)
        if run_view.watched(run):
            run_form.answered(run)
            st.page_link(
                "pages/runs.py",
                label="Everything about this run; save a report or a table",
                icon=":material/open_in_new:",
                query_params={run_list.OPENED: run.name},
            )
            text.facts([("run", run.name)])
            run_view.show_results(run)
