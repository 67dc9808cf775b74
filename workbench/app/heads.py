"""Runs that told what every head does, and choosing among them. Costs a look at their statuses."""

from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import heads_views as views
from workbench.app import run_form, run_view
from workbench.app.heads_views import HEAD, NAME, Looked, grid, looked
from workbench.app.one_head import evidence
from workbench.app.text import told
from workbench.core.experiment import EXPERIMENTS, Experiment

if TYPE_CHECKING:
    from workbench.runs.run import Run


def experiment() -> Experiment[Any]:
    """What heads do."""
    return EXPERIMENTS[NAME]


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this experiment is said."""
    return run_form.opened_or_told(kind, "the experiment heads")


def choose(opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    run_form.choose(NAME, opened, (HEAD,))


# --- the page -------------------------------------------------------------------------------------
#
# What a run of `heads` found: its head line, and views of it one by one, each in the address.
#
# Only the view that is open is drawn. Costs milliseconds.


def _heads(seen: Looked) -> None:
    """All heads, and what one of them does."""
    grid(seen)
    evidence(seen)


VIEWS = {
    "Heads": _heads,
    "Relations": views.relations,
    "Kin": views.kin,
    "Offsets": views.offsets,
    "Cross-attention": views.cross,
    "Tables": views.all_tables,
}


def show(run: "Run") -> None:
    """A run that is done."""
    run_view.heading(run)
    run_view.caveats(run)
    seen = looked(run)
    has_cross = (seen.heads["kind"] == "cross").any()
    there = [name for name in VIEWS if has_cross or name != "Cross-attention"]
    tabs = st.tabs(there, key="view", bind="query-params")
    for name, tab in zip(there, tabs, strict=True):
        if tab.open:
            with tab, told():
                VIEWS[name](seen)
