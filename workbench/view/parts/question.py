"""A question as a page of one kind of analysis asks it: that of the page Experiments.

Costs what asking costs.
"""

from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.experiment import Experiment
from workbench.view.parts import asking, chosen, forms

if TYPE_CHECKING:
    from workbench.runs.run import Run


def ask(kind: Experiment[Any], run: "Run | None", about: str = "") -> None:
    """The question: in view where no run is opened, else behind a fold."""
    if run is None:
        _question(kind, None, about)
    else:
        with st.expander("Ask a question", icon=":material/science:"):
            _question(kind, run, about)


def _question(kind: Experiment[Any], run: "Run | None", about: str) -> None:
    if about:
        st.text(about)
    models, corpora = asking.inputs(kind, chosen.model(), chosen.corpus())
    settings = forms.settings(kind, run.spec.settings if run else {})
    options = asking.options(kind)
    asking.offer(kind, models, corpora, settings, options)
