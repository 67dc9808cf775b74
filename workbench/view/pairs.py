"""Figures of minimal pairs. Pure functions of the table; they cost milliseconds."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

CHANCE = 0.5  # of two sentences


def accuracy(tables: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Accuracy by phenomenon, with its interval, and chance as a line."""
    table = tables["pairs"]
    bars = go.Bar(
        x=table["accuracy"],
        y=table["phenomenon"],
        orientation="h",
        error_x={
            "type": "data",
            "symmetric": False,
            "array": table["upper"] - table["accuracy"],
            "arrayminus": table["accuracy"] - table["lower"],
        },
        hovertemplate="%{y}: %{x:.1%}<extra></extra>",
    )
    figure = go.Figure(bars)
    figure.add_vline(x=CHANCE, line_dash="dot")
    figure.update_layout(height=180 + 30 * len(table))
    figure.update_xaxes(title="right sentence likelier", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


FIGURES = {"accuracy": accuracy}
