"""Which heads can go: four questions, of which one is open, and runs that told before.

Costs a look at the runs' statuses.
"""

from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS, Experiment
from workbench.view.parts import asking, earlier, listing

if TYPE_CHECKING:
    from workbench.runs.run import Run

QUESTION = "question"  # in the address
QUESTIONS = {
    "Importance": "head-importance",
    "Ablation": "head-ablation",
    "Curves": "head-pruning",
    "Gates": "head-gates",
}


def experiment() -> Experiment[Any]:
    """The question that is open: that of the run in the address, else the one that is chosen."""
    names = list(QUESTIONS)
    asked = _of_run() or st.query_params.get(QUESTION)
    first = asked if asked in names else names[0]
    key = f"{QUESTION} {first}"
    picked = st.segmented_control(
        "Question",
        names,
        default=first,
        required=True,
        key=key,
        on_change=lambda: _chosen(st.session_state.get(key)),
    )
    return EXPERIMENTS[QUESTIONS[picked if picked in QUESTIONS else first]]


def _chosen(name: object) -> None:
    """Another question is asked: the run before is not its."""
    if name in QUESTIONS:
        st.query_params[QUESTION] = str(name)
        st.query_params.pop(listing.OPENED, None)


def _of_run() -> str:
    """The question that the run in the address answers; "" where there is none of the four."""
    names = listing.opened()
    if not names:
        return ""
    try:
        asked = listing.open_named(names[0]).spec.experiment
    except WorkbenchError:
        return ""
    return next((name for name, kind in QUESTIONS.items() if kind == asked), "")


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this question is said."""
    return asking.opened_or_told(kind, f"the experiment {kind.name}")


def choose(kind: Experiment[Any], opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    earlier.choose(kind.name, opened)
