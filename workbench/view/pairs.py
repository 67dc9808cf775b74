"""Figures of minimal pairs. Pure functions of the tables; they cost milliseconds."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.view.theme import EITHER

CHANCE = 0.5  # of two sentences
OPEN = "rgba(0,0,0,0)"  # the inside of a bar that is not above chance

Tables = Mapping[str, pd.DataFrame]


def accuracy(tables: Tables) -> go.Figure:
    """Accuracy by phenomenon, with its 95 % interval. The dotted line is chance; a hollow
    bar is not above it."""
    return _bars(tables["pairs"], "phenomenon", "phenomena")


def fields(tables: Tables) -> go.Figure:
    """Accuracy by field of linguistics, with its 95 % interval. The dotted line is chance; a hollow
    bar is not above it."""
    return _bars(tables["fields"], "field", "fields")


def paradigms(tables: Tables) -> go.Figure:
    """Accuracy by paradigm, with its 95 % interval. The dotted line is chance; a hollow
    bar is not above it."""
    return _bars(tables["paradigms"], "paradigm", "paradigms")


def _bars(table: pd.DataFrame, key: str, several: str) -> go.Figure:
    above = table["above_chance"].astype(bool)
    bars = go.Bar(
        x=table["accuracy"],
        y=table[key],
        orientation="h",
        marker={
            "color": [EITHER if each else OPEN for each in above],
            "line": {"color": EITHER, "width": 1},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": table["upper"] - table["accuracy"],
            "arrayminus": table["accuracy"] - table["lower"],
        },
        customdata=table[["n", "exchanges", "p", "fewer_pieces"]],
        hovertemplate="%{y}: %{x:.1%} of %{customdata[0]:,} pairs, %{customdata[1]:,} exchanges of "
        "words, p = %{customdata[2]:.2g}; fewer pieces %{customdata[3]:.1%}<extra></extra>",
    )
    own = table[key] != "all"
    figure = go.Figure(bars)
    figure.add_vline(x=CHANCE, line_dash="dot")
    figure.update_layout(
        title=f"{int((above & own).sum())} of {int(own.sum())} {several} above chance",
        height=210 + 30 * len(table),
    )
    figure.update_xaxes(title="right sentence likelier", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


FIGURES = {"accuracy": accuracy, "fields": fields, "paradigms": paradigms}
