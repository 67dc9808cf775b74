"""The tab Which direction? of the page Predict & explain: steering and erasure of its models.

It shows the most thorough results over the chosen corpus, and the page adds links that start
others. Costs: those of opening a stored run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.predictions.views.results import Side
from workbench.app import choice, navigation
from workbench.app.runs import context, run_list, verdicts
from workbench.app.runs.result_page import main_figure
from workbench.app.tables_and_figures import claims_in_view, draw_figure, figures_of
from workbench.app.text import errors_shown, plain
from workbench.core.findings import headline

if TYPE_CHECKING:
    from workbench.runs.run import Run

ASKED = {
    "steering": "**Steering** adds the difference of two sets of texts to the states of a layer. "
    "Does it move what is predicted?",
    "erasure": "**Erasure** removes what a linear probe finds in the states of a layer. Does the "
    "model predict words worse without it?",
}


def which_direction(sides: Sequence[Side]) -> None:
    """Draw the tab Which direction?: what was found of each model, next to random directions."""
    st.caption("Both are measured over a corpus, with random directions as the null.")
    for experiment, asked in ASKED.items():
        st.markdown(asked)
        for side in sides:
            with errors_shown():
                run = context.best_result(experiment, side.ref, choice.corpus())
                if run is None:
                    st.caption(f"{plain(side.name)}: no result yet.")
                else:
                    _result(run, side)


def _result(run: "Run", side: Side) -> None:
    """Draw the finding that stands for a run, its main figure, and a link to all of it."""
    st.markdown(f"{plain(side.name)} on {plain(', '.join(run.status.corpora))}")
    first = headline(run.findings)
    if first is not None:
        verdicts.strip(first)
    if name := main_figure(run):
        with claims_in_view([first.claim] if first else []):
            draw_figure(figures_of(run)[name], f"direction {side.ref} {run.name}")
    navigation.link(
        navigation.page_of(run.spec.experiment),
        "The whole result",
        icon=":material/arrow_forward:",
        query_params={run_list.OPENED: run.name},
    )
