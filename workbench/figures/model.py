"""Figures of what a model is: where its parameters are, and its losses.

Pure functions of the tables of `profile`; they cost milliseconds.
"""

import math
from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.sanitize import escaped
from workbench.figures.theme import EITHER

Tables = Mapping[str, pd.DataFrame]


def modules(tables: Tables) -> go.Figure:
    """Parameters by part, in the order of the model, its input at the top."""
    table = tables["modules"]
    bars = go.Bar(
        x=table["parameters"],
        y=table["module"],
        orientation="h",
        hovertemplate="%{y}: %{x:,} parameters<extra></extra>",
    )
    figure = go.Figure(bars)
    figure.update_layout(height=200 + 26 * len(table))
    figure.update_xaxes(title="parameters")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def losses(tables: Tables) -> go.Figure:
    """Every measure as a number, named by what it is of."""
    table = tables["losses"]
    figure = go.Figure()
    columns = min(len(table), 3)
    for place, row in enumerate(table.to_dict("records")):
        metric = escaped(row["metric"]).replace("_", " ")
        split, value = escaped(row["split"]), float(row["value"])
        figure.add_trace(
            go.Indicator(
                mode="number",
                value=None if math.isnan(value) else value,
                number={"valueformat": ".4~g", "font": {"size": 32}},
                title={
                    "text": f"{metric}<br>{split}, n = {row['n']:,}",
                    "font": {"size": 14},
                },
                domain={"row": place // columns, "column": place % columns},
            )
        )
    rows = -(-len(table) // columns)
    figure.update_layout(
        grid={"rows": rows, "columns": columns, "pattern": "independent"}, height=150 + 130 * rows
    )
    return figure


PROFILE_FIGURES = {"modules": modules, "losses": losses}


# --- figures of minimal pairs. Pure functions of the tables; they cost milliseconds ---------------

CHANCE = 0.5  # of two sentences
OPEN = "rgba(0,0,0,0)"  # the inside of a bar that is not above chance


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


MINIMAL_PAIRS_FIGURES = {"accuracy": accuracy, "fields": fields, "paradigms": paradigms}


# --- figures of a model beside a trigram model. Pure functions of the tables of `trigram` ---------

FORMS = {"accuracy": ".1%"}  # how a measure is written; others with three digits


def scores(tables: Tables) -> go.Figure:
    """What the model and the trigram model make of the same pieces, a panel a measure. More is
    better of accuracy, less of perplexity."""
    table = tables["scores"]
    names = [escaped(measure) for measure in table["measure"]]
    figure = make_subplots(1, len(table), subplot_titles=names, horizontal_spacing=0.18)
    for column, row in enumerate(table.to_dict("records"), start=1):
        form = FORMS.get(str(row["measure"]), ".3g")
        bars = go.Bar(
            x=["model", "trigram"],
            y=[row["model"], row["trigram"]],
            texttemplate=f"%{{y:{form}}}",
            textposition="outside",
            cliponaxis=False,
            marker_color=EITHER,
            hovertemplate=f"%{{x}}: %{{y:{form}}}, n = {row['n']:,}<extra></extra>",
        )
        figure.add_trace(bars, 1, column)
        figure.update_yaxes(tickformat=form, row=1, col=column)
    figure.update_layout(height=320, showlegend=False, margin={"t": 48})
    return figure


TRIGRAM_FIGURES = {"scores": scores}


# --- figures of a training: its curves. Pure functions of the tables of `train`; milliseconds -----


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


TRAINING_FIGURES = {"loss": loss, "pace": pace}
