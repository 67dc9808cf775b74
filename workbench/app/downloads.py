"""The table of a view, and buttons that save it as CSV, SVG, PNG or HTML.

Costs: writing the table and the page; pictures are drawn on a click.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.app.tables_and_figures import draw_table
from workbench.app.token_views.component import Views, standalone

if TYPE_CHECKING:
    import plotly.graph_objects as go


def downloads(
    name: str,
    table: pd.DataFrame,
    blocks: Callable[[], Sequence[tuple[str, Views]]],
    figure: "Callable[[], go.Figure]",
    title: str,
) -> None:
    """Draw the table, and buttons that save it; pictures are drawn on a click."""
    from workbench.drawing.sanitize import harmless
    from workbench.drawing.vector import Format, picture
    from workbench.report.export import csv

    def pictured(kind: Format) -> Callable[[], bytes]:
        return lambda: picture(harmless(figure()), kind, title=title)

    with st.expander("Table and downloads", icon=":material/table:"):
        draw_table(table, f"table {title}")
        with st.container(horizontal=True):
            for label, data, mime in (
                ("CSV", csv(table), "text/csv"),
                ("SVG", pictured("svg"), "image/svg+xml"),
                ("PNG", pictured("png"), "image/png"),
                ("HTML", standalone(title, blocks()), "text/html"),
            ):
                st.download_button(
                    label,
                    data,
                    file_name=f"{name}.{label.lower()}",
                    mime=mime,
                    on_click="ignore",
                    icon=":material/download:",
                    key=f"{label} {title}",
                )
