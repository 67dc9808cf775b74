"""Figures of `errors`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.core.objectives import PREDICTED
from workbench.core.stats import SIGNIFICANT
from workbench.drawing.primitives import CELLS, DOWN, Draw, heat_map, interval, marks, plot
from workbench.drawing.theme import EITHER, NOT_SIGNIFICANT

ROW, MOST = 26, 24  # pixels of a slice; slices that are drawn
CELL = 44  # pixels of a class


def slices(tables: Tables) -> go.Figure:
    """How much worse the model is on a slice than on the rest of its kind, with 95 % intervals.

    How to read: right of zero the slice is worse; pale marks are not significantly so.
    """
    table = tables["slices"].nlargest(MOST, "worse")
    names = table["kind"] + ": " + table["slice"]
    colours = [EITHER if p < 0.05 else NOT_SIGNIFICANT for p in table["p"]]
    shown = marks(
        table["worse"], names, "%{y}: %{x:.3f} worse, n = %{customdata:,}", colour=colours,
        symbol="circle", error_x=interval(table, "worse"), customdata=table["n"].tolist(),
    )  # fmt: skip
    unit = "nats" if tables["objective"]["objective"].iloc[0] in PREDICTED else "accuracy"
    x = {"title": f"how much worse than the rest ({unit})", "rangemode": "tozero"}
    return plot([shown], 90 + ROW * len(table), x=x, y=DOWN)


def confusion(tables: Tables) -> go.Figure:
    """Number of texts by right and predicted class.

    How to read: a row is a right class; what is off the diagonal is wrong.
    """
    table = tables["confusion"]
    names = sorted({*table["label"], *table["predicted"]})
    cells = table.pivot(index="label", columns="predicted", values="n")
    cells = cells.reindex(index=names, columns=names).fillna(0)
    shown = heat_map(cells, "%{y} as %{x}: %{z:,} texts", "texts", "%{z}")
    x = {**CELLS, "type": "category", "title": "predicted class"}
    return plot([shown], 110 + CELL * len(names), x=x, y={**CELLS, **DOWN, "title": "right class"})


def better(groups: pd.DataFrame, first: str, second: str, measure: str) -> go.Figure:
    """By how much the second model is better on each group of texts, with 95 % intervals.

    How to read: right of zero the second model is better; pale marks are undecided.
    """
    colours = [EITHER if p < SIGNIFICANT else NOT_SIGNIFICANT for p in groups["p"]]
    shown = marks(
        groups["gain"], groups["group"], "%{y}: %{x:.3f} better, n = %{customdata:,}",
        colour=colours, symbol="circle", error_x=interval(groups, "gain"),
        customdata=groups["n"].tolist(),
    )  # fmt: skip
    title = f"{first} is better ← {measure} → {second} is better"
    x = {"title": title, "rangemode": "tozero"}
    return plot([shown], 90 + ROW * len(groups), x=x, y=DOWN)


FIGURES: Mapping[str, Draw] = {"slices": slices, "confusion": confusion}
