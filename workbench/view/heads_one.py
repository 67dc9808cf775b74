"""Figures of one head: where it looks, and which relations it follows beside simple rules.

Pure functions of the rows of `offsets` and `relations` that speak of it. Costs milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.view.heads import ROW, bars
from workbench.view.theme import EITHER


def offsets(own: pd.DataFrame) -> go.Figure:
    """Where it looks: words that look so far to the left (negative) or to the right, of those that
    have a word there."""
    if own.empty:
        raise KeyError("no offsets")
    figure = go.Figure(
        go.Bar(
            x=own["offset"],
            y=own["share"],
            marker={"color": EITHER},
            customdata=own["n"],
            hovertemplate="%{x:+d}: %{y:.1%} of %{customdata:,} words<extra></extra>",
        )
    )
    figure.update_layout(height=300, bargap=0.15)
    figure.update_xaxes(title="offset, in words", dtick=2, zeroline=False, fixedrange=True)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero", fixedrange=True)
    return figure


def relations(own: pd.DataFrame) -> go.Figure:
    """Its relations, the furthest above the simple rules on top."""
    if own.empty:
        raise KeyError("no relations")
    rows = own.sort_values("difference", ascending=False, kind="stable")
    figure = go.Figure().set_subplots(1, 1)
    bars(figure, rows, [str(name) for name in rows["relation"]])
    figure.update_layout(height=140 + ROW * len(rows), margin={"t": 64})
    return figure
