"""Shares of an attribution by part, for the experiments that sum it (`attribution.parts`).

Pure functions of the tables; costs: milliseconds.
"""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.drawing.primitives import DOWN, interval, marks, panels
from workbench.drawing.theme import BASELINE, CONTROL, MODEL

ROW = 32  # pixels of a row


def part_shares(table: pd.DataFrame, group: str, names: str) -> go.Figure:
    """A panel for each value of `group`, with a row for each value of `names`."""

    def spread(rows: pd.DataFrame, column: str) -> dict[str, Any]:
        return {"error_x": {**interval(rows, column), "color": MODEL}} if column == "share" else {}

    parts = []
    for title, rows in table.groupby(group, sort=False):
        shown = [
            marks(
                rows[column], rows[names], f"%{{y}}: {said} %{{x:.1%}}", said, colour, symbol,
                size=10 if column == "share" else 8, **spread(rows, column),
            )
            for column, said, colour, symbol in (
                ("by_length", "share of pieces", BASELINE, "diamond"),
                ("random", "random weights", CONTROL, "x"),
                ("share", "attribution", MODEL, "circle"),
            )
        ]  # fmt: skip
        parts.append((str(title), shown))
    tall = [ROW * len(rows) + 20 for _, rows in table.groupby(group, sort=False)]
    x = {"title": "share of attribution", "tickformat": ".0%", "rangemode": "tozero"}
    return panels(parts, tall, x=x, y=DOWN)
