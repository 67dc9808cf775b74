"""The page of an experiment that the address names; the box of questions chooses another.

Costs: as the page of an analysis.
"""

from dataclasses import replace

import streamlit as st

from workbench.app import navigation
from workbench.app.runs import new_run, run_list
from workbench.app.text import plain
from workbench.core.errors import WorkbenchError
from workbench.experiment.definition import EXPERIMENTS

EXPERIMENT = "experiment"  # in the address
LAST = "experiment of the run that was opened last"  # in the session: it may be closed or removed


def page() -> None:
    """Draw the page of the experiment in the address, or of the opened run."""
    named, opened = st.query_params.get(EXPERIMENT), _of_opened()
    if opened in list(EXPERIMENTS):
        st.session_state[LAST] = opened
    name = named or opened or st.session_state.get(LAST) or next(iter(EXPERIMENTS))
    if name not in list(EXPERIMENTS):
        if not named:
            st.warning(
                f"This run is of the experiment {plain(opened)}, which no installed package has. "
                "In a terminal, workbench runs show and workbench report have its results."
            )
            st.page_link("pages/runs.py", label="All runs", icon=":material/list:")
            return
        st.warning("The address names an experiment that does not exist. Choose a question.")
        name = next(iter(EXPERIMENTS))
    picked = EXPERIMENTS[name]
    shown = navigation.result_page_of(picked.name)
    replace(
        shown,
        title=new_run.question_of(picked),
        about="",
        experiments={picked.name: picked.name},
        on_question=_changed,
    ).page()


def _of_opened() -> str:
    try:
        names = run_list.opened()
        return run_list.open_named(names[0]).spec.experiment if names else ""
    except WorkbenchError:  # the page says so
        return ""


def _changed(name: str) -> None:
    """Choose another experiment: the opened run is of this one."""
    run_list.set_query(EXPERIMENT, name, (run_list.OPENED,))
