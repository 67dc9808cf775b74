"""Figures of `text-to-text`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.analyses.attribution.figures.parts import part_shares
from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Draw, interval, marks, panels, plot
from workbench.drawing.theme import BASELINE, MODEL, TUNED

ROW, HEIGHT = 30, 320  # pixels of a system; of a figure
DECODED = ("greedy", "beams", "sampling", "spans")
NAMES = {"rougeL": "ROUGE-L", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "f1": "F1",
         "exact_match": "exact match"}  # fmt: skip


def scores(tables: Tables) -> go.Figure:
    """Scores of the model's texts and of the nulls, a panel per metric, with 95 % intervals.

    How to read: a filled circle is the model; grey diamonds are nulls. A model is of use where its
    circle is right of all diamonds.
    """
    parts = []
    for metric, table in tables["scores"].groupby("metric", sort=False):
        is_model = table["system"].isin(DECODED)
        shown = [
            marks(
                rows["value"], rows["system"], "%{y}: %{x:.1%}", name, colour, symbol, size=10,
                error_x={**interval(rows, "value"), "color": colour},
            )
            for rows, name, colour, symbol in (
                (table[is_model], "model", MODEL, "circle"),
                (table[~is_model], "null", BASELINE, "diamond"),
            )
        ]  # fmt: skip
        parts.append((NAMES.get(str(metric), str(metric)), shown))
    x = {"tickformat": ".0%", "rangemode": "tozero"}
    return panels(parts, ROW * tables["scores"]["system"].nunique() + 30, x=x, y=DOWN)


def novelty(tables: Tables) -> go.Figure:
    """Share of n-grams that are not in the source, by n, with 95 % intervals.

    How to read: circles are the written texts, open ones the right texts. A model that only copies
    is at 0.
    """
    table = tables["novelty"]
    shown = [
        marks(
            table["n"], table[column], "%{x} words: %{y:.1%}", name, colour, symbol, size=10,
            error_y={**interval(table, column, low, high), "color": colour},
        )
        for column, name, low, high, colour, symbol in (
            ("written", "written", "lower", "upper", MODEL, "circle"),
            ("right", "right texts", "right_lower", "right_upper", TUNED, "circle-open"),
        )
    ]  # fmt: skip
    return plot(
        shown,
        HEIGHT,
        x={"title": "words of an n-gram", "dtick": 1},
        y={"title": "share not in the source", "tickformat": ".0%", "rangemode": "tozero"},
    )


def coverage(tables: Tables) -> go.Figure:
    """Cross-attention on the written piece in the source, by layer, with 95 % intervals.

    How to read: 1 is the attention that the same piece gets while others are written. Layers above
    1 look up what they write.
    """
    table = tables["coverage"].dropna(subset=["lift"])
    shown = marks(
        table["layer"], table["lift"], "layer %{x}: %{y:.2f} times", "cross-attention", MODEL,
        "circle", size=10, error_y={**interval(table, "lift"), "color": MODEL},
    )  # fmt: skip
    return plot(
        [shown],
        HEIGHT,
        x={"title": "layer", "type": "category"},
        y={"title": "attention, relative to other steps", "rangemode": "tozero"},
    )


def origins(tables: Tables) -> go.Figure:
    """Share of the attribution of written words in what the model reads before them.

    How to read: circles are shares of all absolute scores, with 95 % intervals; diamonds are what
    the parts have of the pieces, crosses what they have with random weights. Words that are copied
    have much of their attribution on the same word in the source.
    """
    return part_shares(tables["origins"], "words", "part")


FIGURES: Mapping[str, Draw] = {
    "scores": scores, "novelty": novelty, "coverage": coverage, "origins": origins,
}  # fmt: skip
