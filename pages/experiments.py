"""Run an experiment: choose it, set it, see whether it fits, start it, watch it, read its answer.

The run is a process of its own and its name is in the address, so a reload or another browser finds
it again. Costs what asking costs: the bytes of the model and the corpus are read.
"""

import streamlit as st

from workbench.view.parts import asking, chosen, forms, jobs, listing, sources, words
from workbench.view.parts.problems import told

st.title("Run an experiment", anchor=False)
with told(stop=True):
    with st.spinner("Getting ready …"):
        sources.ready()
    kind = asking.experiment()
st.text(kind.about)
asking.needs(kind)

run = asking.opened(kind)
models, corpora = asking.inputs(kind, chosen.model(), chosen.corpus())
settings = forms.settings(kind, run.spec.settings if run else {})
options = asking.options(kind)
asking.offer(kind, models, corpora, settings, options)

if run is not None:
    from workbench.view.parts import results

    st.divider()
    with told():
        st.header("The answer" if run.status.state == "done" else "The run", anchor=False)
        if jobs.watched(run):
            asking.answered(run)
            st.page_link(
                "pages/runs.py",
                label="Everything about this run; save a report or a table",
                icon=":material/open_in_new:",
                query_params={listing.OPENED: run.name},
            )
            words.facts([("run", run.name)])
            results.show(run)
