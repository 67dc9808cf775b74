"""Figures of a model: its parameters, its scores on minimal pairs, and training curves.

Pure functions of the tables of `profile`, `minimal-pairs`, `trigram` and `train`. Costs:
milliseconds.
"""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import percent
from workbench.figures.primitives import DOWN, Tables, bars, curve, interval, marks, panels, plot
from workbench.figures.theme import BASELINE, MODEL, NOT_SIGNIFICANT, TUNED


def modules(tables: Tables) -> go.Figure:
    """Number of parameters of each part of the model.

    How to read: one bar per part, from the input (top) to the output; the text is its share of all
    parameters. Shared parameters count once, in the first part.
    """
    table = tables["modules"]
    sizes = table["parameters"]
    parts = bars(
        sizes,
        table["module"],
        "%{y}: %{x:,} parameters, %{text} of all",
        text=[percent(share) for share in sizes / max(sizes.sum(), 1)],
        textposition="outside",
        cliponaxis=False,
    )
    return plot([parts], 130 + 26 * len(table), {"title": "number of parameters"}, DOWN, margin=END)


END = {"r": 56}  # pixels for texts at the ends of bars
PROFILE_FIGURES = {"modules": modules}


# --- figures of minimal pairs ---------------------------------------------------------------------

CHANCE = 0.5  # accuracy of a random choice between two sentences


def accuracy(tables: Tables) -> go.Figure:
    """Accuracy on each phenomenon, in %, with 95 % intervals over pairs.

    How to read: a point right of its grey diamond is better than chance and than always choosing
    the sentence with fewer pieces; pale points are not significantly so.
    """
    return _accuracies(tables["pairs"], "phenomenon")


def fields(tables: Tables) -> go.Figure:
    """Accuracy on each field of linguistics, in %, with 95 % intervals over pairs.

    How to read: a point right of its grey diamond is better than chance and than always choosing
    the sentence with fewer pieces; pale points are not significantly so.
    """
    return _accuracies(tables["fields"], "field")


def paradigms(tables: Tables) -> go.Figure:
    """Accuracy on each paradigm, in %, with 95 % intervals over pairs.

    How to read: a point right of its grey diamond is better than chance and than always choosing
    the sentence with fewer pieces; pale points are not significantly so.
    """
    return _accuracies(tables["paradigms"], "paradigm")


def _accuracies(table: pd.DataFrame, key: str) -> go.Figure:
    above = table["above_chance"].astype(bool)
    baseline = marks(
        table["fewer_pieces"].clip(lower=CHANCE),
        table[key],
        "%{y}: the baseline is %{x:.1%}",
        "chance or fewer pieces",
        BASELINE,
        "diamond",
        size=8,
    )
    points = [
        marks(
            rows["accuracy"],
            rows[key],
            "%{y}: accuracy %{x:.1%} on %{customdata[0]:,} pairs with %{customdata[1]:,} word "
            "exchanges, p = %{customdata[2]:.2g}",
            name,
            colour,
            "circle",
            size=11,
            error_x={**interval(rows, "accuracy"), "color": colour},
            customdata=rows[["n", "exchanges", "p"]],
        )
        for rows, name, colour in (
            (table[above], "model", MODEL),
            (table[~above], "model, not significant", NOT_SIGNIFICANT),
        )
        if len(rows)
    ]
    names = {"categoryorder": "array", "categoryarray": list(table[key])}
    return plot(
        [*points, baseline],
        130 + 30 * len(table),
        {
            "title": "accuracy: right sentence more probable",
            "tickformat": ".0%",
            "range": [0, 1.03],
        },
        {**DOWN, **names},
    )


MINIMAL_PAIRS_FIGURES = {"accuracy": accuracy, "fields": fields, "paradigms": paradigms}


# --- figures of a model and a trigram model -------------------------------------------------------

FORMS = {"accuracy": ".1%"}  # number format of a measure; others have three digits
BETTER = {"accuracy": "accuracy (higher is better)", "perplexity": "perplexity (lower is better)"}


def scores(tables: Tables) -> go.Figure:
    """Accuracy in %, and perplexity, of the model and of trigrams on the same pieces.

    How to read: compare the two bars of a panel; the grey one is the trigram model.
    """
    table = tables["scores"]
    forms = [FORMS.get(str(measure), ".3g") for measure in table["measure"]]
    parts = [
        (
            BETTER.get(str(row["measure"]), row["measure"]),
            [
                bars(
                    [row["model"], row["trigram"]],
                    ["model", "trigrams"],
                    f"%{{y}}: %{{x:{form}}}, n = {row['n']:,}",
                    marker={"color": [MODEL, BASELINE]},
                    texttemplate=f"%{{x:{form}}}",
                    textposition="outside",
                    cliponaxis=False,
                )
            ],
        )
        for row, form in zip(table.to_dict("records"), forms, strict=True)
    ]
    x = [
        {"tickformat": ".0%" if "%" in form else "", "nticks": 5, "range": [0, 1.2 * top]}
        for form, top in zip(forms, table[["model", "trigram"]].max(axis=1), strict=True)
    ]
    return panels(parts, 90, 2, x=x, y=DOWN, top=0, apart=0.35, showlegend=False)


TRIGRAM_FIGURES = {"scores": scores}


# --- training curves ------------------------------------------------------------------------------


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


TRAINING_FIGURES = {"loss": loss, "pace": pace}
