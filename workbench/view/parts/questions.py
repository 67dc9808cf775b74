"""A page of several experiments: questions, of which one is open, by the run or by the address.

Costs a look at the opened run's spec.
"""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS, Experiment
from workbench.view.parts import listing

QUESTION = "question"  # in the address


def chosen(
    questions: Mapping[str, str], of: str, own: tuple[str, ...] = (), about: str | None = None
) -> Experiment[Any]:
    """The experiment of the question that is open: that of the run in the address, else the picked.

    `own` are choices of a run, in the address, that another question does not have.
    """
    names = list(questions)
    asked = _of_run(questions) or st.query_params.get(QUESTION)
    first = asked if asked in names else names[0]
    key = f"{QUESTION} of {of} {first}"

    def changed() -> None:
        """Another question is asked: the run before is not its."""
        name = st.session_state.get(key)
        if name in questions:
            st.query_params[QUESTION] = str(name)
            for each in (listing.OPENED, *own):
                st.query_params.pop(each, None)

    picked = st.segmented_control(
        "Question",
        names,
        default=first,
        required=True,
        key=key,
        on_change=changed,
        help=about,
    )
    return EXPERIMENTS[questions[picked if picked in questions else first]]


def _of_run(questions: Mapping[str, str]) -> str:
    """The question that the run in the address answers; "" where there is none of these."""
    names = listing.opened()
    if not names:
        return ""
    try:
        asked = listing.open_named(names[0]).spec.experiment
    except WorkbenchError:
        return ""
    return next((name for name, kind in questions.items() if kind == asked), "")
