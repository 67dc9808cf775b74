"""Figures of `family`: one row of a panel for each model.

Pure functions of the tables. Costs: milliseconds.
"""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Look, Trace, interval, marks, panels
from workbench.drawing.theme import BASELINE, MODEL

TITLES = {
    "left to right": "bits per character, left to right",
    "both directions": "bits per character, both directions",
    "pseudo": "bits per character, pseudo-likelihood",
}


def text(tables: Tables) -> go.Figure:
    """Bits per character of each model, with 95 % intervals over texts.

    How to read: further left is better. Compare only points of one panel: the kinds of likelihood
    of different panels are not of one scale.
    """
    parts, axes = [], []
    for kind, rows in tables["text"].groupby("kind", sort=False):
        hover = "%{y}: %{x:.3f} bits per character, n = %{customdata:,} texts"
        parts.append((TITLES[str(kind)], [_points(rows, "bits_per_character", hover, "texts")]))
        axes.append({"title": "bits per character (lower is better)"})
    return _rows(parts, axes, [len(traces[0].y) for _, traces in parts])


def scores(tables: Tables) -> go.Figure:
    """Minimal pairs, probes and tasks: the score of each model in %, with 95 % intervals.

    How to read: further right is better. A grey diamond is the baseline without a model; a point
    whose interval reaches it knows nothing.
    """
    table = tables["scores"]
    table = table[table["part"] != "heads"]
    parts, axes = [], []
    for measure, rows in table.groupby("measure", sort=False):
        hover = "%{y}: %{x:.1%}, n = %{customdata:,}"
        baseline = marks(
            rows["baseline"], rows["model"], "%{y}: the baseline is %{x:.1%}", "baseline", BASELINE,
            "diamond", size=8,
        )  # fmt: skip
        parts.append((str(measure), [baseline, _points(rows, "value", hover, "n")]))
        axes.append({"tickformat": ".0%"})
    return _rows(parts, axes, [len(traces[1].y) for _, traces in parts])


def heads(tables: Tables) -> go.Figure:
    """The share of each model's heads with each role, with 95 % intervals over heads.

    How to read: the first panel has heads with any role; a head has the one role that it fills
    best.
    """
    table = tables["scores"]
    parts, axes = [], []
    for role, rows in table[table["part"] == "heads"].groupby("measure", sort=False):
        hover = "%{y}: %{x:.1%} of %{customdata:,} heads"
        parts.append((str(role), [_points(rows, "value", hover, "n")]))
        axes.append({"tickformat": ".0%", "rangemode": "tozero"})
    return _rows(parts, axes, [len(traces[0].y) for _, traces in parts])


def cost(tables: Tables) -> go.Figure:
    """Number of weights, pieces per word, and words per second on this machine.

    How to read: one row for each model; a scale is logarithmic where models differ tenfold.
    """
    table = tables["cost"]
    columns = {
        "weights": ("parameters", "%{x:,}"),
        "pieces per word": ("pieces_per_word", "%{x:.2f}"),
        "words per second": ("words_per_second", "%{x:,.0f}"),
    }
    parts = [
        (title, [marks(table[column], table["model"], f"%{{y}}: {form}", title, MODEL, "circle",
                       size=11, showlegend=False)])
        for title, (column, form) in columns.items()
    ]  # fmt: skip
    far = [table[column].max() > 10 * table[column].min() for column, _ in columns.values()]
    axes: list[Look] = [{"type": "log"} if each else {} for each in far]
    return _rows(parts, axes, [len(table)] * len(parts))


def _points(rows: pd.DataFrame, column: str, hover: str, n: str) -> Trace:
    return marks(
        rows[column], rows["model"], hover, "model", MODEL, "circle", size=11,
        error_x={**interval(rows, column), "color": MODEL}, customdata=rows[n].tolist(),
    )  # fmt: skip


def _rows(
    parts: Sequence[tuple[object, Sequence[Trace]]], axes: Sequence[Look], heights: Sequence[int]
) -> go.Figure:
    return panels(parts, [30 + 26 * rows for rows in heights], x=axes, y=DOWN)


FIGURES = {"text": text, "scores": scores, "heads": heads, "cost": cost}
