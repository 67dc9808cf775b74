"""A run's tables and figures on a page: a thousand rows at a time, figures in the page's looks.

Cells are drawn on a canvas, so that nothing in them is markup. Costs reading the table once.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from workbench.core.errors import WorkbenchError
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


def table_with(run: "Run", name: str, columns: Iterable[str]) -> "pd.DataFrame":
    """A table with these columns; an error where it is not as it is today."""
    table = table_of(run, name)
    missing = [column for column in columns if column not in table.columns]
    if missing or table.empty:
        what = f"has no column {missing[0]!r}" if missing else "is empty"
        raise WorkbenchError(
            f"its table {name!r} {what}.",
            where=run.name,
            remedy="It was made by another version; ask the same question again.",
        )
    return table


@st.cache_data(max_entries=32, show_spinner=False)
def _read(path: str, ended: str, name: str) -> "pd.DataFrame":
    from workbench.runs.run import Run

    found: pd.DataFrame = Run(Path(path)).tables[name]
    return found


def first_of_page(number: int, at_once: int, key: str) -> int:
    """The first that is in view, page by page where there are many."""
    if number <= at_once:
        return 0
    return (int(st.pagination(-(-number // at_once), key=key)) - 1) * at_once


def draw_table(table: "pd.DataFrame", key: str) -> None:
    """A table, page by page where it is long."""
    first = first_of_page(len(table), ROWS, f"{key} page")
    if len(table) > ROWS:
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


# --- what views of a run are made of --------------------------------------------------------------


def draw_view(
    run: "Run",
    name: str,
    figure: "go.Figure",
    about: object,
    key: str = "",
    pointed: "Callable[[], None] | None" = None,
) -> None:
    """A figure on a run's page; `about` is a caption, or the function that has it.

    Where one may point at something, `pointed` is called, and `points` of the `key` tells what.
    """
    from workbench.figures.sanitize import harmless
    from workbench.report.content import Drawing

    draw_figure(
        Drawing(name, caption_of(about), harmless(figure)), key or f"{name} {run.name}", pointed
    )


def caption_of(about: object) -> str:
    """A caption, or what a figure's function says of itself."""
    return about if isinstance(about, str) else " ".join((about.__doc__ or "").split())


def view_of(
    run: "Run",
    name: str,
    drawing: "Callable[[Mapping[str, pd.DataFrame]], go.Figure]",
    there: "Mapping[str, pd.DataFrame] | None" = None,
) -> None:
    """One of the run's own figures; of some rows alone where they are given."""
    draw_view(run, name, drawing(run.tables if there is None else there), drawing)


def one(label: str, there: Sequence[str], key: str, index: int = 0, **look: Any) -> str:
    """A box whose choice is in the address, where anybody may have written something else."""
    picked = st.selectbox(label, there, index, key=key, bind="query-params", **look)
    return str(picked) if picked in there else there[index]


def segment(label: str, there: Sequence[str], key: str, **look: Any) -> str:
    """The same as buttons side by side, the first one chosen to begin with."""
    picked = st.segmented_control(
        label, there, default=there[0], required=True, key=key, bind="query-params", **look
    )
    return str(picked) if picked in there else there[0]


class Column(NamedTuple):
    """How a column is shown: its heading, the form of its numbers, shares in per cent, its help."""

    heading: str
    form: str | None = None
    is_share: bool = False
    help: str | None = None


def draw_columns(
    table: "pd.DataFrame", columns: Mapping[str, Column], key: str, rows: int = VIEW, **look: Any
) -> None:
    """These columns of a table, where it has them, under their headings."""
    import pandas as pd

    there = {name: how for name, how in columns.items() if name in table}
    shown = {
        how.heading: 100 * table[name] if how.is_share else table[name]
        for name, how in there.items()
    }
    st.dataframe(
        pd.DataFrame(shown),
        hide_index=True,
        height=min(len(table) + 1, rows + 1) * 35 + 3,
        column_config={
            how.heading: st.column_config.NumberColumn(format=how.form, help=how.help)
            if how.form
            else st.column_config.Column(help=how.help)
            for how in there.values()
        },
        placeholder="–",
        key=key,
        **look,
    )


def intervals(table: "pd.DataFrame") -> list[str]:
    """The ends of each row's interval, in per cent."""
    ends = zip(table["lower"], table["upper"], strict=True)
    return [f"{100 * low:.1f}–{100 * high:.1f}" for low, high in ends]
