"""Figures of a model: its parameters, and its scores on minimal pairs and against trigrams.

Pure functions of the tables of `profile`, `minimal-pairs` and `trigram`. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.parameters import modules
from workbench.drawing.primitives import DOWN, bars, interval, marks, panels, plot
from workbench.drawing.theme import BASELINE, MODEL, NOT_SIGNIFICANT

PROFILE_FIGURES = {"modules": modules}


# --- figures of minimal pairs ---------------------------------------------------------------------

CHANCE = 0.5  # accuracy of a random choice between two sentences


def accuracy(tables: Tables) -> go.Figure:
    """Accuracy on each phenomenon, in %, with 95 % intervals over pairs.

    How to read: a point right of its grey diamond is better than chance and than always choosing
    the sentence with fewer pieces. Pale points are not significantly so: the test counts different
    exchanges of words, such as “is” for “are”, and the interval counts pairs.
    """
    return _accuracies(tables["pairs"], "phenomenon")


def fields(tables: Tables) -> go.Figure:
    """Accuracy on each field of linguistics, in %, with 95 % intervals over pairs.

    How to read: a point right of its grey diamond is better than chance and than always choosing
    the sentence with fewer pieces. Pale points are not significantly so: the test counts different
    exchanges of words, such as “is” for “are”, and the interval counts pairs.
    """
    return _accuracies(tables["fields"], "field")


def paradigms(tables: Tables) -> go.Figure:
    """Accuracy on each paradigm, in %, with 95 % intervals over pairs.

    How to read: a point right of its grey diamond is better than chance and than always choosing
    the sentence with fewer pieces. Pale points are not significantly so: the test counts different
    exchanges of words, such as “is” for “are”, and the interval counts pairs.
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
