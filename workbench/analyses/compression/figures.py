"""Figures of `compress`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import Draw, interval, marks, panels
from workbench.drawing.theme import BASELINE, CONTROL, SERIES
from workbench.experiment.measured import measured

ORIGINAL = "original"
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star")
TALL = 360
GROUPS = 12  # of what was lost, the surest ones


def _methods(tables: Tables) -> list[str]:
    points = tables["points"]
    return [name for name in dict.fromkeys(points["method"]) if name != ORIGINAL]


def _look(tables: Tables, method: str) -> dict[str, object]:
    number = _methods(tables).index(method)
    return {
        "colour": SERIES[number % len(SERIES)], "symbol": SYMBOLS[number % len(SYMBOLS)],
    }  # fmt: skip


def front(tables: Tables) -> go.Figure:
    """The measure of each saved model against its size on disk; the line is the front.

    How to read: for accuracy, models towards the upper left are better; for a loss, towards the
    lower left. No model is both smaller and better than one on the line. The grey star is the
    original.
    """
    points = tables["points"]
    points = points[(points["order"] == "best") & points["disk"].notna()]
    best = points[points["front"].astype(bool)].sort_values("disk")
    drawn = [
        go.Scatter(
            x=best["disk"], y=best["value"], mode="lines", name="front", hoverinfo="skip",
            line={"color": BASELINE, "width": 1, "shape": "hv"},
        )
    ]  # fmt: skip
    for name, rows in points.groupby("method", sort=False):
        look = (
            {"colour": CONTROL, "symbol": "star"} if name == ORIGINAL else _look(tables, str(name))
        )
        drawn.append(
            marks(
                rows["disk"], rows["value"],
                f"{name}, %{{customdata}}: %{{y:.3f}}, %{{x:.2f}} MiB", str(name), size=10,
                error_y=_upright(rows), customdata=rows["amount"].tolist(), **look,
            )
        )  # fmt: skip
    metric = str(points["metric"].iloc[0])
    x, y = (
        {"title": "size on disk, MiB", "rangemode": "tozero"},
        {"title": measured(tables, metric)},
    )
    return panels([("", drawn)], TALL, x=x, y=y)


def _upright(rows: pd.DataFrame) -> dict[str, object]:
    return {**interval(rows, "value", "value_lower", "value_upper"), "width": 0}


def speed(tables: Tables) -> go.Figure:
    """How many times as fast as the original each saved model is, with 95 % intervals.

    How to read: a model is faster where its interval is to the right of 1.
    """
    parts = []
    for texts, rows in tables["cost"].groupby("texts", sort=False):
        names = [f"{m}, {a}" for m, a in zip(rows["method"], rows["amount"], strict=True)]
        shown = marks(
            rows["speedup"], names, "%{y}: %{x:.2f} times as fast", colour=SERIES[0], size=9,
            error_x=interval(rows, "speedup"), showlegend=False,
        )  # fmt: skip
        parts.append((f"{texts} text{'s' if int(str(texts)) > 1 else ''} in a batch", [shown]))
    models = tables["cost"].groupby("texts").size().max()
    x = {"title": "times as fast as the original"}
    figure = panels(parts, 22 * int(models) + 40, x=x, y={"autorange": "reversed"})
    return figure.add_vline(x=1, line={"color": BASELINE, "dash": "dot"})


def lost(tables: Tables) -> go.Figure:
    """The groups that fell furthest compared with the rest of their kind, with 95 % intervals.

    How to read: filled marks are significant (Holm over the groups of a model). A group at 0 fell
    as far as the rest.
    """
    table = tables["lost"].sort_values("p", kind="stable").head(GROUPS)
    models = [f"{row.method}, {row.amount}" for row in table.itertuples()]
    title = models[0] if len(set(models)) == 1 else ""
    names = [
        f"{row.group} ({row.kind})" if title else f"{row.group} ({row.kind}): {model}"
        for row, model in zip(table.itertuples(), models, strict=True)
    ]
    symbols = ["circle" if p < 0.05 else "circle-open" for p in table["p"]]
    shown = marks(
        table["difference"], names, "%{y}: %{x:.3f}", colour=SERIES[0], symbol=symbols, size=9,
        error_x=interval(table, "difference"), showlegend=False,
    )  # fmt: skip
    x = {"title": "fell further than the rest by"}
    figure = panels([(title, [shown])], 24 * len(table) + 40, x=x, y={"autorange": "reversed"})
    return figure.add_vline(x=0, line={"color": BASELINE, "dash": "dot"})


def orders(tables: Tables) -> go.Figure:
    """The measure in the method's order, in random orders (their mean) and in reversed order.

    How to read: where the three agree, the method does not know what the model needs least.
    """
    parts: list[tuple[str, list[go.Scatter]]] = []
    for name, rows in tables["orders"].groupby("method", sort=False):
        shown = [
            marks(
                rows["amount"], rows[column], f"{label}: %{{y:.3f}}", label, colour, symbol,
                mode="lines+markers", showlegend=not parts,
            )
            for column, label, colour, symbol in (
                ("value", "method's order", SERIES[0], "circle"),
                ("random", "random orders", BASELINE, "diamond"),
                ("reversed", "reversed", SERIES[1], "x"),
            )
        ]  # fmt: skip
        parts.append((str(name), shown))
    metric = str(tables["orders"]["metric"].iloc[0])
    x, y = {"title": "removed", "type": "category"}, {"title": measured(tables, metric)}
    return panels(parts, 220, across=2, x=x, y=y)


def training(tables: Tables) -> go.Figure:
    """Methods that train, each against another of the same amount, with 95 % intervals.

    How to read: for accuracy, a method is better right of 0; for a loss, left of it. Filled marks
    are significant (Holm).
    """
    table = tables["training"]
    names = [f"{row.method}, not {row.against}, {row.amount}" for row in table.itertuples()]
    symbols = ["circle" if p < 0.05 else "circle-open" for p in table["p"]]
    shown = marks(
        table["difference"], names, "%{y}: %{x:.4f}", colour=SERIES[0], symbol=symbols, size=9,
        error_x=interval(table, "difference"), showlegend=False,
    )  # fmt: skip
    x = {"title": f"difference of {measured(tables, str(table['metric'].iloc[0]))}"}
    figure = panels([("", [shown])], 24 * len(table) + 40, x=x, y={"autorange": "reversed"})
    return figure.add_vline(x=0, line={"color": BASELINE, "dash": "dot"})


def layers(tables: Tables) -> go.Figure:
    """The change of the measure when one layer alone is in 4 bits, with 95 % intervals.

    How to read: the layer furthest from 0 needs its bits most.
    """
    table = tables["layers"]
    shown = marks(
        table["layer"], table["change"], "layer %{x}: %{y:.4f}", colour=SERIES[0], size=9,
        error_y=interval(table, "change"), showlegend=False,
    )  # fmt: skip
    metric = str(table["metric"].iloc[0])
    x, y = {"title": "layer", "dtick": 1}, {"title": f"change of {measured(tables, metric)}"}
    return panels([("", [shown])], 280, x=x, y=y)


FIGURES: Mapping[str, Draw] = {
    "front": front,
    "speed": speed,
    "lost": lost,
    "orders": orders,
    "training": training,
    "layers": layers,
}
