"""The answer of "Which model is better, and at what?": two runs of `errors`, paired by text.

Costs: reading the texts of both runs and their sign flips, once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.slices import figures, which
from workbench.app import cache, choice, tables_and_figures
from workbench.core.errors import WorkbenchError
from workbench.core.findings import Finding
from workbench.core.objectives import PREDICTED
from workbench.models.references import split_ref

if TYPE_CHECKING:
    from workbench.runs.run import Run

Asked = Mapping[str, str]


def require_same_pieces(models: Sequence[str], asked: Asked) -> Asked:
    """Refuse, before anything is run, models whose losses on pieces cannot be compared."""
    if (
        any(map(cache.is_remote_model, models))
        or len({split_ref(ref).source for ref in models}) < 2
    ):
        return {}
    first, second = (str((cache.facts(ref)["predicts"] or {}).get("kind")) for ref in models)
    if first != second or first == "causal" or first not in PREDICTED:
        return {}
    vocabularies = [set(cache.model(ref).vocabulary) for ref in models]
    if vocabularies[0] != vocabularies[1]:
        names = " and ".join(choice.named(ref, "models") for ref in models)
        raise WorkbenchError(
            f"{names} have different tokenizers: they predict different {PREDICTED[first]} of the "
            "same texts, so their losses cannot be compared.",
            code="model-unsupported",
            remedy="Choose two models with the same tokenizer, or ask “Which model knows more "
            "grammar?”, which compares any two language models.",
        )
    return {}


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
