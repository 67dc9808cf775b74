"""A run's tables on a page: a thousand rows at a time, differences with their sign.

Cells are drawn on a canvas, so that nothing in them is markup. Costs reading the table once.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

if TYPE_CHECKING:
    import pandas as pd

    from workbench.report.cells import Grid
    from workbench.runs.run import Run

ROWS = 1_000  # at a time
VIEW = 15  # rows in view
_DIFFERENCE = re.compile(r"[B-Z] − A ")


def of(run: "Run", name: str) -> "pd.DataFrame":
    """A table of a run that is done."""
    return _read(str(run.path), run.status.ended, name)


@st.cache_data(max_entries=32, show_spinner=False)
def _read(path: str, ended: str, name: str) -> "pd.DataFrame":
    from workbench.runs.run import Run

    found: pd.DataFrame = Run(Path(path)).tables[name]
    return found


def draw(table: "pd.DataFrame", key: str) -> None:
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
    draw(pd.DataFrame(list(grid.rows), columns=names), key)


def _column(name: str) -> Any:
    from workbench.view.harmless import visible

    if _DIFFERENCE.match(name):
        return st.column_config.NumberColumn(visible(name), format="%+.4g")
    return st.column_config.Column(visible(name))


def about(table: "pd.DataFrame") -> Sequence[str]:
    """What a table says of itself, where it does."""
    from workbench.report.cells import attributes

    said, _ = attributes(table)
    return [said] if said else []
