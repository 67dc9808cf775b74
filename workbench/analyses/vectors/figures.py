"""Figures of `word-vectors`. Pure functions of tables. Costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Draw, interval, marks, panels, plot
from workbench.drawing.theme import BASELINE, MODEL, TUNED

ROW = 30  # pixels of a relation
LOOK = {
    "add": ("3CosAdd", MODEL, "circle"),
    "mul": ("3CosMul", TUNED, "diamond"),
    "nearest": ("nearest neighbour", BASELINE, "circle-open"),
    "frequency": ("most frequent", BASELINE, "diamond-open"),
    "random weights": ("random weights", BASELINE, "square-open"),
}


def analogies(tables: Tables) -> go.Figure:
    """Share of right answers by relation, a panel per model, with 95 % intervals over pairs.

    How to read: filled marks are the two methods, open grey ones the baselines; an analogy is
    solved by the offset only as far as it beats the nearest neighbour.
    """
    parts = []
    order = list(dict.fromkeys(tables["analogies"]["relation"]))
    for model, part in tables["analogies"].groupby("model", sort=False):
        shown = []
        for method, (name, colour, symbol) in LOOK.items():
            mine = part[part["method"] == method]
            bars = {**interval(mine, "accuracy"), "color": colour}
            shown.append(
                marks(
                    mine["accuracy"], mine["relation"], f"%{{y}}, {name}: %{{x:.0%}}", name,
                    colour, symbol, error_x=None if colour == BASELINE else bars,
                )
            )  # fmt: skip
        parts.append((str(model), shown))
    y = {**DOWN, "categoryorder": "array", "categoryarray": order}
    x = {"title": "right answers", "tickformat": ".0%", "range": [0, 1]}
    return panels(parts, max(120, ROW * len(order) + 40), x=x, y=y)


def likeness(tables: Tables) -> go.Figure:
    """Probability that a word of the same tag is nearer than another, with 95 % intervals.

    How to read: 0.5 is chance; open marks are the likeness of frequency.
    """
    table = tables["likeness"]
    shown = [
        marks(
            table["auc"], table["model"], "%{y}: %{x:.2f}", "vectors", MODEL, "circle", size=10,
            error_x={**interval(table, "auc"), "color": MODEL},
        ),
        marks(
            table["frequency"], table["model"], "%{y}, frequency: %{x:.2f}", "frequency",
            BASELINE, "diamond-open",
        ),
        marks(
            table["random"], table["model"], "%{y}, random weights: %{x:.2f}", "random weights",
            BASELINE, "square-open",
        ),
    ]  # fmt: skip
    x = {"title": "probability", "range": [0.4, 1]}
    return plot(shown, max(240, ROW * len(table) + 160), x, DOWN)


FIGURES: Mapping[str, Draw] = {"analogies": analogies, "likeness": likeness}
