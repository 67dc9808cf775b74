"""Figures of `cloze`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Draw, interval, marks, panels
from workbench.drawing.theme import BASELINE, MODEL, TUNED

ROW = 40  # pixels of a task


def accuracy(tables: Tables) -> go.Figure:
    """Share of gaps that are filled right, a panel per phenomenon, with 95 % intervals.

    How to read: a grey diamond is chance; open circles are the same items without their passage or
    subject. A model that does not need the passage knows the words, not the story.
    """
    parts = []
    for name, table in tables["scores"].groupby("phenomenon", sort=False):
        shown = [
            marks(
                table["chance"], table["task"], "%{y}: chance is %{x:.1%}", "chance", BASELINE,
                "diamond", size=8,
            )
        ]  # fmt: skip
        for (context, rows), colour, symbol in zip(
            table.groupby("context", sort=False), (MODEL, TUNED), ("circle", "circle-open"),
            strict=False,
        ):  # fmt: skip
            shown.append(
                marks(
                    rows["accuracy"], rows["task"],
                    f"%{{y}}, {context}: %{{x:.1%}}, n = %{{customdata:,}}", str(context), colour,
                    symbol, size=10, error_x={**interval(rows, "accuracy"), "color": colour},
                    customdata=rows["n"].tolist(),
                )
            )  # fmt: skip
        parts.append((str(name), shown))
    tasks = tables["scores"]["task"].nunique()
    x = {"tickformat": ".0%", "range": [0, 1.02]}
    return panels(parts, ROW * tasks + 20, x=x, y=DOWN)


FIGURES: Mapping[str, Draw] = {"accuracy": accuracy}
