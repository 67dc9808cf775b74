"""Figures of a training: its curves. Pure functions of the tables of `train`; milliseconds."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.theme import EITHER

Tables = Mapping[str, pd.DataFrame]


def loss(tables: Tables) -> go.Figure:
    """Loss in nats over the tokens trained on: of training, the mean since the point before, and
    of the text that was held out."""
    table = tables["curves"]
    held = table[table["held_out"].notna()]
    figure = go.Figure(
        [
            _line(table, "loss", "training", "%{y:.3f} nats at step %{customdata:,}"),
            _line(held, "held_out", "held out", "%{y:.3f} nats at step %{customdata:,}"),
        ]
    )
    figure.data[1].update(mode="lines+markers")
    figure.update_layout(height=380)
    figure.update_xaxes(title="tokens")
    figure.update_yaxes(title="nats")
    return figure


def pace(tables: Tables) -> go.Figure:
    """Learning rate, tokens a second and, where the device's peak is known, model FLOP utilisation
    over the tokens trained on."""
    table = tables["curves"]
    panels = [("rate", "learning rate", "%{y:.2e}"), ("tokens_per_second", "tokens/s", "%{y:,.0f}")]
    if table["mfu"].notna().any():
        panels.append(("mfu", "MFU", "%{y:.1%}"))
    figure = make_subplots(len(panels), 1, shared_xaxes=True, vertical_spacing=0.08)
    for row, (column, title, shown) in enumerate(panels, start=1):
        hover = f"{shown} at step %{{customdata:,}}"
        line = _line(table, column, title, hover)
        figure.add_trace(line.update(line={"dash": "solid", "color": EITHER}), row, 1)
        figure.update_yaxes(title=title, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title="tokens", row=len(panels), col=1)
    figure.update_layout(height=80 + 180 * len(panels), showlegend=False)
    return figure


def _line(table: pd.DataFrame, column: str, name: str, hover: str) -> go.Scatter:
    return go.Scatter(
        x=table["tokens"],
        y=table[column],
        name=name,
        mode="lines" if len(table) > 1 else "markers",
        customdata=table["step"],
        hovertemplate=hover + "<extra></extra>",
    )


FIGURES = {"loss": loss, "pace": pace}
