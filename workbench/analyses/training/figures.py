"""Training curves: loss and pace. Pure functions of the tables of `train`. Costs: milliseconds."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import curve, panels, plot
from workbench.drawing.theme import MODEL, TUNED


def loss(tables: Tables) -> go.Figure:
    """Loss in nats by number of training tokens.

    How to read: the lower, the better; where the loss on held-out text rises while the loss on the
    training text (mean since the point before) falls, the model over-fits.
    """
    table = tables["curves"]
    held = table[table["held_out"].notna()]
    lines = [
        _line(table, "loss", "training", "%{y:.3f} nats", mode=_mode(table), line={"width": 1}),
        _line(held, "held_out", "held out", "%{y:.3f} nats", TUNED, line={"width": 2.5}),
    ]
    return plot(lines, 380, {"title": "training tokens"}, {"title": "loss, nats"})


def pace(tables: Tables) -> go.Figure:
    """Learning rate, tokens per second and, if the peak of the device is known, model FLOP
    utilisation (MFU) in %, by number of training tokens.

    How to read: the learning rate follows its schedule; tokens per second should stay even.
    """
    table = tables["curves"]
    shown = [("rate", "learning rate", "%{y:.2e}"), ("tokens_per_second", "tokens/s", "%{y:,.0f}")]
    if table["mfu"].notna().any():
        shown.append(("mfu", "MFU", "%{y:.1%}"))
    parts = [("", [_line(table, column, "", form, mode=_mode(table))]) for column, _, form in shown]
    y = [{"title": title, "rangemode": "tozero"} for _, title, _ in shown]
    x = {"title": "training tokens"}
    return panels(parts, 150, gap=30, x=x, y=y, shared=True, top=20, showlegend=False)


def _line(
    table: pd.DataFrame, column: str, name: str, form: str, colour: str = MODEL, **look: Any
) -> go.Scatter:
    hover = f"{form} at step %{{customdata:,}}"
    x, y = table["tokens"], table[column]
    return curve(x, y, hover, name, 0, colour, customdata=table["step"], **look)


def _mode(table: pd.DataFrame) -> str:
    return "lines" if len(table) > 1 else "markers"


FIGURES = {"loss": loss, "pace": pace}
