"""Views of a run one by one, and figures of its tables: what pages of several experiments share.

Only the view that is open is drawn. Costs milliseconds.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts import figures, tables
from workbench.view.parts.problems import told

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.runs.run import Run

View = Callable[["Run"], None]


def show(run: "Run", views: Mapping[str, View]) -> None:
    """The open one of these; which one is in the address."""
    tabs = st.tabs(list(views), key="view", bind="query-params")
    for tab, view in zip(tabs, views.values(), strict=True):
        if tab.open:
            with tab, told():
                view(run)


def draw(run: "Run", name: str, figure: "go.Figure", about: str) -> None:
    """A figure on a run's page, with what leaves the app as a file."""
    from workbench.report.drawings import Drawing
    from workbench.view.harmless import harmless

    figures.draw(Drawing(name, about, harmless(figure)), f"{name} {run.name}")


def of(
    run: "Run",
    name: str,
    drawing: "Callable[[Mapping[str, pd.DataFrame]], go.Figure]",
    there: "Mapping[str, pd.DataFrame] | None" = None,
) -> None:
    """One of the run's own figures; of some rows alone where they are given."""
    there = {table: tables.of(run, table) for table in run.tables} if there is None else there
    draw(run, name, drawing(there), " ".join((drawing.__doc__ or "").split()))
