"""Run an experiment: choose it, set it, see whether it fits, start it, watch it, read its answer.

The run is a process of its own and its name is in the address, so a reload or another browser finds
it again. Costs what asking costs: the bytes of the model and the corpus are read.
"""

import streamlit as st

from workbench.view.parts import asking, chosen, forms, jobs, listing, sources, words
from workbench.view.parts.problems import tell, told

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

preview = asking.preview(kind.name, models, corpora, settings, options)
for problem in preview.problems:
    tell(problem)
if preview.name and not preview.problems:
    st.badge("It fits", icon=":material/check:", color="green")
if st.button(
    "Show the answer" if preview.answered else "Run",
    type="primary",
    icon=":material/play_arrow:",
    disabled=bool(preview.problems),
):
    asking.start(kind.name, models, corpora, settings, options)
if preview.command:
    with st.expander("The same from the command line"):
        st.code(preview.command, language="bash", wrap_lines=True)

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
