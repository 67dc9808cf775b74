"""What a run of `heads` found: its head line, and views of it one by one, each in the address.

Only the view that is open is drawn. Costs milliseconds.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts import heads_views as views
from workbench.view.parts import results
from workbench.view.parts.heads_grid import grid
from workbench.view.parts.heads_head import evidence
from workbench.view.parts.heads_run import Looked, looked
from workbench.view.parts.problems import told

if TYPE_CHECKING:
    from workbench.runs.run import Run


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
    results.heading(run)
    results.caveats(run)
    seen = looked(run)
    has_cross = (seen.heads["kind"] == "cross").any()
    there = [name for name in VIEWS if has_cross or name != "Cross-attention"]
    tabs = st.tabs(there, key="view", bind="query-params")
    for name, tab in zip(there, tabs, strict=True):
        if tab.open:
            with tab, told():
                VIEWS[name](seen)
