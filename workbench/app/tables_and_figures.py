"""A run's tables on a page: a thousand rows at a time, differences with their sign.

Cells are drawn on a canvas, so that nothing in them is markup. Costs reading the table once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app.text import told
from workbench.figures.theme import Kind, template

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.report.content import Drawing
    from workbench.report.format import Grid
    from workbench.runs.run import Run

ROWS = 1_000  # at a time
VIEW = 15  # rows in view
_DIFFERENCE = re.compile(r"[B-Z] − A ")


def table_of(run: "Run", name: str) -> "pd.DataFrame":
    """A table of a run that is done."""
    return _read(str(run.path), run.status.ended, name)


@st.cache_data(max_entries=32, show_spinner=False)
def _read(path: str, ended: str, name: str) -> "pd.DataFrame":
    from workbench.runs.run import Run

    found: pd.DataFrame = Run(Path(path)).tables[name]
    return found


def draw_table(table: "pd.DataFrame", key: str) -> None:
    """A table, page by page where it is long."""
    first = 0
    if len(table) > ROWS:
        pages = -(-len(table) // ROWS)
        first = (st.pagination(pages, key=f"{key} page") - 1) * ROWS
        last = min(first + ROWS, len(table))
        st.caption(f"Rows {first + 1:,} to {last:,} of {len(table):,}.")
    head = table.iloc[first : first + ROWS]
    st.dataframe(
        head,
        hide_index=True,
        column_config={str(name): _column(str(name)) for name in head.columns},
        height=min(len(head) + 1, VIEW + 1) * 35 + 3,
        placeholder="–",
        key=key,
    )


def draw_grid(grid: "Grid", key: str) -> None:
    """A table that is text already."""
    import pandas as pd

    names = [column.name or "setting" for column in grid.columns]
    draw_table(pd.DataFrame(list(grid.rows), columns=names), key)


def _column(name: str) -> Any:
    from workbench.figures.sanitize import visible

    if _DIFFERENCE.match(name):
        return st.column_config.NumberColumn(visible(name), format="%+.4g")
    return st.column_config.Column(visible(name))


def about(table: "pd.DataFrame") -> Sequence[str]:
    """What a table says of itself, where it does."""
    from workbench.report.format import attributes

    said, _ = attributes(table)
    return [said] if said else []


# --- figures --------------------------------------------------------------------------------------

CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}


def kind() -> Kind:
    """Whether the page is light or dark."""
    return "dark" if st.context.theme.type == "dark" else "light"


def figures_of(run: "Run") -> "Mapping[str, Drawing]":
    """The figures of a run that is done."""
    return _drawn(str(run.path), run.status.ended)


@st.cache_data(max_entries=16, show_spinner=False)
def _drawn(path: str, ended: str) -> "Mapping[str, Drawing]":
    from pathlib import Path

    from workbench.report.content import drawings
    from workbench.runs.run import Run

    return dict(drawings(Run(Path(path))))


def draw_figure(drawing: "Drawing", key: str, pointed: "Callable[[], None] | None" = None) -> None:
    """One figure, which is harmless already, with its caption.

    Where one may point at something, `pointed` is called, and `points` tells what it was.
    """
    import plotly.graph_objects as go

    figure: Any = go.Figure(dict(drawing.plain), skip_invalid=True)
    figure.update_layout(template=template(kind()), height=drawing.height)
    st.plotly_chart(
        figure,
        theme=None,
        key=key,
        config=CONFIG,
        alt=drawing.about or drawing.name,
        on_select=pointed or "ignore",
        selection_mode="points",
    )
    if drawing.about:
        st.text(drawing.about)


def points(key: str) -> list[Any]:
    """What is told of the marks that were pointed at in a figure: their `customdata`."""
    state = st.session_state.get(key) or {}
    found = state.get("selection", {}).get("points", [])
    return [point["customdata"] for point in found if point.get("customdata")]


# --- views: a table, a figure and its data --------------------------------------------------------
#
# Views of a run one by one, and figures of its tables: what pages of several experiments share.
#
# Only the view that is open is drawn. Costs milliseconds.

View = Callable[["Run"], None]


def show(run: "Run", views: Mapping[str, View]) -> None:
    """The open one of these; which one is in the address."""
    tabs = st.tabs(list(views), key="view", bind="query-params")
    for tab, view in zip(tabs, views.values(), strict=True):
        if tab.open:
            with tab, told():
                view(run)


def draw_view(run: "Run", name: str, figure: "go.Figure", about: str) -> None:
    """A figure on a run's page, with what leaves the app as a file."""
    from workbench.figures.sanitize import harmless
    from workbench.report.content import Drawing

    draw_figure(Drawing(name, about, harmless(figure)), f"{name} {run.name}")


def view_of(
    run: "Run",
    name: str,
    drawing: "Callable[[Mapping[str, pd.DataFrame]], go.Figure]",
    there: "Mapping[str, pd.DataFrame] | None" = None,
) -> None:
    """One of the run's own figures; of some rows alone where they are given."""
    there = {table: table_of(run, table) for table in run.tables} if there is None else there
    draw_view(run, name, drawing(there), " ".join((drawing.__doc__ or "").split()))
