"""Asking what every head does, and choosing among the runs that told.

The question is the one of the page Experiments. Costs what asking costs.
"""

from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.experiment import EXPERIMENTS, Experiment
from workbench.view.parts import asking, chosen, earlier, forms
from workbench.view.parts.heads_run import HEAD, NAME

if TYPE_CHECKING:
    from workbench.runs.run import Run


def experiment() -> Experiment[Any]:
    """What heads do."""
    return EXPERIMENTS[NAME]


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this experiment is said."""
    return asking.opened_or_told(kind, "the experiment heads")


def choose(opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    earlier.choose(NAME, opened, (HEAD,))


def ask(kind: Experiment[Any], run: "Run | None") -> None:
    """The question: in view where no run is opened, else behind a fold."""
    if run is None:
        _question(kind, None)
    else:
        with st.expander("Ask a question", icon=":material/science:"):
            _question(kind, run)


def _question(kind: Experiment[Any], run: "Run | None") -> None:
    models, corpora = asking.inputs(kind, chosen.model(), chosen.corpus())
    settings = forms.settings(kind, run.spec.settings if run else {})
    options = asking.options(kind)
    asking.offer(kind, models, corpora, settings, options)
