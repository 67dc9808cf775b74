"""The tab Which direction? of the page Predict & explain: steering and erasure of its models.

It shows the most thorough results over the chosen corpus, else over any, and adds a direction to
the model; the page adds links that start others. Costs: those of opening a stored run.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.predictions.views.results import Side
from workbench.app import choice, navigation, tables_and_figures
from workbench.app.runs import context, run_list, verdicts
from workbench.app.runs.result_page import main_figure
from workbench.app.tables_and_figures import claims_in_view, draw_figure, figures_of
from workbench.app.text import errors_shown, plain
from workbench.core.findings import headline
from workbench.core.head_names import EMBEDDINGS, at_state
from workbench.models.directions import NAME
from workbench.models.edit_terms import merged
from workbench.models.references import split_ref, with_edit

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
                run = _found(experiment, side.ref)
                if run is None:
                    st.caption(f"{plain(side.name)}: no result yet.")
                else:
                    _result(run, side)
                if experiment == "steering":
                    _add(run, side)


def _found(experiment: str, ref: str) -> "Run | None":
    """The most thorough result over the chosen corpus, else over any: it says over which."""
    if (found := context.best_result(experiment, ref, choice.corpus())) is not None:
        return found
    of_any = context.results_of(experiment, (ref,), ())
    return next((run for run in of_any if run.status.state == "done"), None)


def _add(run: "Run | None", side: Side) -> None:
    """Draw boxes for a direction of a run, and a button that adds it to the model on all pages."""
    whole = split_ref(side.ref)
    run = run or _found("steering", whole.unedited)
    if run is None or NAME not in run.arrays:
        return
    table = tables_and_figures.table_of(run, "directions")
    pairs = list(table["words"].unique())
    with st.container(horizontal=True, vertical_alignment="bottom"):
        pair = st.selectbox("Direction", pairs, key=f"pair {side.ref}", width=200)
        own = table[table["words"] == pair].set_index("layer")["effect"]
        layers = [int(layer) for layer in own.index]
        layer = st.selectbox(
            "Added to", layers, layers.index(int(own.idxmax())), format_func=at_state,
            key=f"layer of {pair} {side.ref}", width=180,
            help="The states after this layer (default: where the effect is largest).",
        )  # fmt: skip
        strength = st.number_input(
            "Strength", -100.0, 100.0, 2.0, 0.5, key=f"strength {side.ref}", width=140,
            help="How many times the direction is added; 0 removes it.",
        )  # fmt: skip
        of_stack = f"{side.model.stacks[-1].name}." if len(side.model.stacks) > 1 else ""
        number = f".{pairs.index(pair) + 1}" if pairs.index(pair) else ""
        place = f"{of_stack}{layer or EMBEDDINGS}.{run.path.name}{number}"
        st.button(
            "Add it to the model",
            icon=":material/add:",
            key=f"steer {side.ref}",
            help="The model with the direction in every pass is chosen on all pages.",
            on_click=choice.choose_model,
            args=(with_edit(whole.unedited, merged(whole.edit, f"{place}={strength:.12g}")),),
        )


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
