"""Figures of what a model is: where its parameters are, and its losses.

Pure functions of the tables of `profile`; they cost milliseconds.
"""

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import DOWN, Tables, bars, curve, interval, panels, plot
from workbench.figures.sanitize import escaped
from workbench.figures.theme import EITHER


def modules(tables: Tables) -> go.Figure:
    """Parameters by part, in the order of the model, its input at the top."""
    table = tables["modules"]
    parts = bars(table["parameters"], table["module"], "%{y}: %{x:,} parameters", colour=None)
    return plot([parts], 200 + 26 * len(table), {"title": "parameters"}, DOWN)


def losses(tables: Tables) -> go.Figure:
    """Every measure as a number, named by what it is of."""
    table = tables["losses"]
    columns = min(len(table), 3)
    rows = -(-len(table) // columns)
    numbers = [
        go.Indicator(
            mode="number",
            value=None if math.isnan(row["value"]) else float(row["value"]),
            number={"valueformat": ".4~g", "font": {"size": 32}},
            title={
                "text": f"{escaped(row['metric']).replace('_', ' ')}<br>{escaped(row['split'])}, "
                f"n = {row['n']:,}",
                "font": {"size": 14},
            },
            domain={"row": place // columns, "column": place % columns},
        )
        for place, row in enumerate(table.to_dict("records"))
    ]
    grid = {"rows": rows, "columns": columns, "pattern": "independent"}
    return go.Figure(numbers, {"grid": grid, "height": 150 + 130 * rows})


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
    above, own = table["above_chance"].astype(bool), table[key] != "all"
    right = bars(
        table["accuracy"],
        table[key],
        "%{y}: %{x:.1%} of %{customdata[0]:,} pairs, %{customdata[1]:,} exchanges of words, "
        "p = %{customdata[2]:.2g}; fewer pieces %{customdata[3]:.1%}",
        spread=interval(table, "accuracy"),
        marker={
            "color": [EITHER if each else OPEN for each in above],
            "line": {"color": EITHER, "width": 1},
        },
        customdata=table[["n", "exchanges", "p", "fewer_pieces"]],
    )
    figure = plot(
        [right],
        210 + 30 * len(table),
        {"title": "right sentence likelier", "tickformat": ".0%", "range": [0, 1]},
        DOWN,
        title=f"{int((above & own).sum())} of {int(own.sum())} {several} above chance",
    )
    return figure.add_vline(x=CHANCE, line_dash="dot")


MINIMAL_PAIRS_FIGURES = {"accuracy": accuracy, "fields": fields, "paradigms": paradigms}


# --- figures of a model beside a trigram model. Pure functions of the tables of `trigram` ---------

FORMS = {"accuracy": ".1%"}  # how a measure is written; others with three digits


def scores(tables: Tables) -> go.Figure:
    """What the model and the trigram model make of the same pieces, a panel a measure. More is
    better of accuracy, less of perplexity."""
    table = tables["scores"]
    forms = [FORMS.get(str(measure), ".3g") for measure in table["measure"]]
    parts = [
        (
            row["measure"],
            [
                bars(
                    [row["model"], row["trigram"]],
                    ["model", "trigram"],
                    f"%{{x}}: %{{y:{form}}}, n = {row['n']:,}",
                    upright=True,
                    texttemplate=f"%{{y:{form}}}",
                    textposition="outside",
                    cliponaxis=False,
                )
            ],
        )
        for row, form in zip(table.to_dict("records"), forms, strict=True)
    ]
    y = [{"tickformat": form} for form in forms]
    return panels(parts, 240, len(parts), y=y, top=0, apart=0.18 * len(parts), showlegend=False)


TRIGRAM_FIGURES = {"scores": scores}


# --- figures of a training: its curves. Pure functions of the tables of `train`; milliseconds -----


def loss(tables: Tables) -> go.Figure:
    """Loss in nats over the tokens trained on: of training, the mean since the point before, and
    of the text that was held out."""
    table = tables["curves"]
    held = table[table["held_out"].notna()]
    lines = [
        _line(table, "loss", "training", "%{y:.3f} nats", mode=_mode(table)),
        _line(held, "held_out", "held out", "%{y:.3f} nats", 1),
    ]
    return plot(lines, 380, {"title": "tokens"}, {"title": "nats"})


def pace(tables: Tables) -> go.Figure:
    """Learning rate, tokens a second and, where the device's peak is known, model FLOP utilisation
    over the tokens trained on."""
    table = tables["curves"]
    shown = [("rate", "learning rate", "%{y:.2e}"), ("tokens_per_second", "tokens/s", "%{y:,.0f}")]
    if table["mfu"].notna().any():
        shown.append(("mfu", "MFU", "%{y:.1%}"))
    parts = [
        ("", [_line(table, column, title, form, colour=EITHER, mode=_mode(table))])
        for column, title, form in shown
    ]
    y = [{"title": title, "rangemode": "tozero"} for _, title, _ in shown]
    x = {"title": "tokens"}
    return panels(parts, 150, gap=30, x=x, y=y, shared=True, top=20, showlegend=False)


def _line(
    table: pd.DataFrame, column: str, name: str, form: str, place: int = 0, **look: Any
) -> go.Scatter:
    hover = f"{form} at step %{{customdata:,}}"
    x, y = table["tokens"], table[column]
    return curve(x, y, hover, name, place, customdata=table["step"], **look)


def _mode(table: pd.DataFrame) -> str:
    return "lines" if len(table) > 1 else "markers"


TRAINING_FIGURES = {"loss": loss, "pace": pace}
