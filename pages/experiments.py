"""Run an experiment: choose it, set it, check it, start it, watch it and read its result.

A run is a process of its own and its name is in the address, so a reload or another browser shows
it again. Costs: reading the bytes of the model and the corpus, to check the request.
"""

import streamlit as st

from workbench.app import cache, run_form, run_list, run_view, text
from workbench.app.text import errors_shown

st.title("Run an experiment", anchor=False)
with errors_shown(stop=True):
    with st.spinner("Loading …"):
        cache.ready()
    experiment = run_form.experiment()
st.text(experiment.about)
run_form.needs(experiment)

run = run_form.opened(experiment)
run_form.form(experiment, run)

run = run or run_form.built_in(experiment)
if run is not None:
    st.divider()
    with errors_shown():
        with st.container(horizontal=True, vertical_alignment="center"):
            title = "Result" if run.status.state == "done" else "Run"
            st.header(title, anchor=False, width="content")
            if run.is_builtin:
                run_view.badge(run)
        if run_view.watched(run):
            run_form.note_if_cached(run)
            st.page_link(
                "pages/runs.py",
                label="Open this run: settings, log, report and table export",
                icon=":material/open_in_new:",
                query_params={run_list.OPENED: run.name},
            )
            if run.is_builtin:
                run_view.built_in(run)
            else:
                text.facts([("run", run.name)])
            run_view.show_results(run)
