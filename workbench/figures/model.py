"""Figures of a model: its parameters, its losses, its scores on minimal pairs, and training curves.

Pure functions of the tables of `profile`, `minimal-pairs`, `trigram` and `train`. Costs:
milliseconds.
"""

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import DOWN, Tables, bars, curve, interval, panels, plot
from workbench.figures.sanitize import escaped
from workbench.figures.theme import EITHER


def modules(tables: Tables) -> go.Figure:
    """Number of parameters of each module, from the input (top) to the output."""
    table = tables["modules"]
    parts = bars(table["parameters"], table["module"], "%{y}: %{x:,} parameters", colour=None)
    return plot([parts], 200 + 26 * len(table), {"title": "number of parameters"}, DOWN)


def losses(tables: Tables) -> go.Figure:
    """Language-model measures of each split. n: number of pieces, words or bytes."""
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
            domain={"row": index // columns, "column": index % columns},
        )
        for index, row in enumerate(table.to_dict("records"))
    ]
    grid = {"rows": rows, "columns": columns, "pattern": "independent"}
    return go.Figure(numbers, {"grid": grid, "height": 150 + 130 * rows})


PROFILE_FIGURES = {"modules": modules, "losses": losses}


# --- figures of minimal pairs ---------------------------------------------------------------------

CHANCE = 0.5  # accuracy of a random choice between two sentences
OPEN = "rgba(0,0,0,0)"  # fill of bars that are not above chance


def accuracy(tables: Tables) -> go.Figure:
    """Accuracy on each phenomenon, with 95 % intervals. Dotted line: chance; hollow bars: not
    significantly above chance."""
    return _bars(tables["pairs"], "phenomenon", "phenomena")


def fields(tables: Tables) -> go.Figure:
    """Accuracy on each field of linguistics, with 95 % intervals. Dotted line: chance; hollow bars:
    not significantly above chance."""
    return _bars(tables["fields"], "field", "fields")


def paradigms(tables: Tables) -> go.Figure:
    """Accuracy on each paradigm, with 95 % intervals. Dotted line: chance; hollow bars: not
    significantly above chance."""
    return _bars(tables["paradigms"], "paradigm", "paradigms")


def _bars(table: pd.DataFrame, key: str, several: str) -> go.Figure:
    above, is_group = table["above_chance"].astype(bool), table[key] != "all"
    right = bars(
        table["accuracy"],
        table[key],
        "%{y}: accuracy %{x:.1%} on %{customdata[0]:,} pairs with %{customdata[1]:,} word "
        "exchanges, p = %{customdata[2]:.2g}; baseline of fewer pieces %{customdata[3]:.1%}",
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
        {"title": "accuracy: right sentence more probable", "tickformat": ".0%", "range": [0, 1]},
        DOWN,
        title=f"{int((above & is_group).sum())} of {int(is_group.sum())} {several} above chance",
    )
    return figure.add_vline(x=CHANCE, line_dash="dot")


MINIMAL_PAIRS_FIGURES = {"accuracy": accuracy, "fields": fields, "paradigms": paradigms}


# --- figures of a model and a trigram model -------------------------------------------------------

FORMS = {"accuracy": ".1%"}  # number format of a measure; others have three digits


def scores(tables: Tables) -> go.Figure:
    """Scores of the model and of the trigram model on the same pieces. Higher accuracy and lower
    perplexity are better."""
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


# --- training curves ------------------------------------------------------------------------------


def loss(tables: Tables) -> go.Figure:
    """Loss in nats by number of training tokens. training: mean since the previous point; held out:
    on the held-out text."""
    table = tables["curves"]
    held = table[table["held_out"].notna()]
    lines = [
        _line(table, "loss", "training", "%{y:.3f} nats", mode=_mode(table)),
        _line(held, "held_out", "held out", "%{y:.3f} nats", 1),
    ]
    return plot(lines, 380, {"title": "training tokens"}, {"title": "loss, nats"})


def pace(tables: Tables) -> go.Figure:
    """Learning rate, tokens per second and, if the peak of the device is known, model FLOP
    utilisation (MFU), by number of training tokens."""
    table = tables["curves"]
    shown = [("rate", "learning rate", "%{y:.2e}"), ("tokens_per_second", "tokens/s", "%{y:,.0f}")]
    if table["mfu"].notna().any():
        shown.append(("mfu", "MFU", "%{y:.1%}"))
    parts = [
        ("", [_line(table, column, title, form, colour=EITHER, mode=_mode(table))])
        for column, title, form in shown
    ]
    y = [{"title": title, "rangemode": "tozero"} for _, title, _ in shown]
    x = {"title": "training tokens"}
    return panels(parts, 150, gap=30, x=x, y=y, shared=True, top=20, showlegend=False)


def _line(
    table: pd.DataFrame, column: str, name: str, form: str, index: int = 0, **look: Any
) -> go.Scatter:
    hover = f"{form} at step %{{customdata:,}}"
    x, y = table["tokens"], table[column]
    return curve(x, y, hover, name, index, customdata=table["step"], **look)


def _mode(table: pd.DataFrame) -> str:
    return "lines" if len(table) > 1 else "markers"


TRAINING_FIGURES = {"loss": loss, "pace": pace}
