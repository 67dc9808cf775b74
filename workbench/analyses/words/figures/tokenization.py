"""Figures of `tokenization`: pieces per word by part of speech and frequency, and their number.

Pure functions of its tables. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Look, bars, curve, interval, plot
from workbench.drawing.theme import SERIES

FEW = 10  # words of a part of speech; rarer ones are left out of the figure
MOST = 8  # pieces; words of more are shown together
PIECES: Look = {"title": "pieces per word", "rangemode": "tozero"}


def fertility_by_tag(tables: Tables) -> go.Figure:
    """Pieces per word by part of speech, with 95 % intervals over documents.

    How to read: 1 means that all words stay whole. Parts of speech are sorted by the first model;
    those with fewer than ten words are left out.
    """
    table = tables["groups"]
    rows = table[(table["by"] == "tag") & (table["n"] >= FEW)]
    if rows.empty:
        rows = table[table["by"] == "all"]
    first = rows[rows["model"] == rows["model"].iloc[0]]
    order = first.sort_values("fertility", ascending=False, kind="stable")["group"].tolist()
    traces = []
    for number, (model, own) in enumerate(rows.groupby("model", sort=False)):
        own = own.set_index("group").reindex(order).reset_index()
        traces.append(
            bars(
                own["fertility"],
                own["group"],
                "%{y}: %{x:.2f} pieces per word (%{customdata[0]:,} words)",
                str(model),
                SERIES[number % len(SERIES)],
                spread=interval(own, "fertility", "fertility_lower", "fertility_upper"),
                customdata=own[["n"]],
            )
        )
    tall = 110 + len(order) * (12 + 12 * len(traces))
    return plot(traces, tall, PIECES, {**DOWN})


def fertility_by_frequency(tables: Tables) -> go.Figure:
    """Pieces per word by frequency in the texts, with 95 % intervals over documents.

    How to read: words are grouped by their rank; 1 is the most frequent word. A curve that rises
    splits rare words into more pieces.
    """
    return _by_frequency(tables, "fertility", PIECES, ":.2f")


def whole_by_frequency(tables: Tables) -> go.Figure:
    """Share of known words that stay whole, as one piece, by frequency in the texts.

    How to read: words are grouped by their rank; 1 is the most frequent word. Words with an unknown
    piece are left out.
    """
    axis: Look = {"title": "share of whole words", "tickformat": ".0%", "range": [0, 1.03]}
    return _by_frequency(tables, "whole", axis, ":.1%")


def pieces(tables: Tables) -> go.Figure:
    """Share of known words by their number of pieces.

    How to read: the first bar are words that stay whole. Words with an unknown piece are left out.
    """
    table = tables["pieces"]
    traces = []
    for number, (model, own) in enumerate(table.groupby("model", sort=False)):
        shares = own.groupby(own["pieces"].clip(upper=MOST))["share"].sum()
        names = [f"{MOST} or more" if each == MOST else str(each) for each in shares.index]
        traces.append(
            bars(
                shares,
                names,
                "%{x}: %{y:.1%} of words",
                str(model),
                SERIES[number % len(SERIES)],
                upright=True,
            )
        )
    order = [f"{MOST} or more" if n == MOST else str(n) for n in range(1, MOST + 1)]
    x: Look = {
        "title": "pieces of a word",
        "type": "category",
        "categoryorder": "array",
        "categoryarray": order,
    }
    y: Look = {"title": "share of words", "tickformat": ".0%", "rangemode": "tozero"}
    return plot(traces, 340, x, y)


FIGURES = {
    "fertility_by_tag": fertility_by_tag,
    "fertility_by_frequency": fertility_by_frequency,
    "whole_by_frequency": whole_by_frequency,
    "pieces": pieces,
}


def _by_frequency(tables: Tables, measure: str, axis: Look, form: str) -> go.Figure:
    table: pd.DataFrame = tables["groups"]
    rows = table[table["by"] == "frequency"]
    traces = []
    for number, (model, own) in enumerate(rows.groupby("model", sort=False)):
        hover = (
            f"rank %{{x}}: %{{y{form}}} (%{{customdata[0]{form}}} to %{{customdata[1]{form}}}, "
            "%{customdata[2]:,} words)"
        )
        traces.append(
            curve(
                own["group"],
                own[measure],
                hover,
                str(model),
                number,
                SERIES[number % len(SERIES)],
                error_y=interval(own, measure, f"{measure}_lower", f"{measure}_upper"),
                customdata=own[[f"{measure}_lower", f"{measure}_upper", "n"]],
            )
        )
    x: Look = {"title": "rank of the word by frequency", "type": "category"}
    return plot(traces, 340, x, axis)
