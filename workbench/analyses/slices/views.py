"""The answer of "Which model is better, and at what?": two runs of `errors`, paired by text.

Costs: reading the texts of both runs and their sign flips, once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.slices import figures, which
from workbench.app import tables_and_figures
from workbench.core.findings import Finding

if TYPE_CHECKING:
    from workbench.runs.run import Run

Asked = Mapping[str, str]


def answer(runs: "Sequence[Run]", asked: Asked) -> Iterator[Finding]:
    """Which of two models is better, and on which groups of texts."""
    return which.findings(_paired(runs), _names(runs))


def figure(runs: "Sequence[Run]", asked: Asked) -> None:
    """Draw by how much the second model is better on each group."""
    found = _paired(runs)
    if not found.groups.empty:
        first, second = _names(runs)
        drawn = figures.better(found.groups, first, second, found.measure)
        key = f"better {runs[0].name} {runs[1].name}"
        tables_and_figures.draw_view(runs[0], "better", drawn, figures.better, key)


def _names(runs: "Sequence[Run]") -> list[str]:
    return [run.spec.models[0].name for run in runs]


def _paired(runs: "Sequence[Run]") -> which.Paired:
    """Paired once: finished runs do not change."""
    first, second = runs
    return _compared(str(first.path), first.status.ended, str(second.path), second.status.ended)


@st.cache_data(max_entries=32, show_spinner="Comparing the models …")
def _compared(first: str, ended: str, second: str, second_ended: str) -> which.Paired:
    from pathlib import Path

    from workbench.runs.run import Run

    return which.paired(Run(Path(first)).tables, Run(Path(second)).tables)
