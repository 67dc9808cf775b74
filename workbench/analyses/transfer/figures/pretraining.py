"""Figures of pretraining: scores of each arm on each task, and the effect of model size.

Pure functions of the tables of `pretraining`. Costs: milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.transfer.figures.transfer import is_far_below, rows_of
from workbench.analyses.transfer.findings import significant
from workbench.core.findings import Tables
from workbench.core.metrics import spelt
from workbench.drawing.primitives import Draw, curve, interval, marks, panels
from workbench.drawing.theme import BASELINE, MODEL, NOT_SIGNIFICANT, SERIES, TUNED

ROW = 30  # pixels of a model
ACROSS = 3  # panels in a row
SCALED = ["value", "lower", "upper"]


def scores(tables: Tables) -> go.Figure:
    """Score of each pretrained model on each task (metric × 100): means over seeds, 95 % intervals.

    How to read: blue: the first objective; orange: significantly different from it; grey: not
    significantly (Holm's correction); grey line: the majority baseline, which is named above where
    it is far below.
    """
    table = tables["table"]
    sure = significant(table, "delta_lower", "delta_upper")
    several = table["size"].nunique() > 1
    labels = table["arm"] + (", " + table["size"] if several else "")
    order = [*dict.fromkeys(labels)]
    parts = []
    for (task, metric), name in _tasks(table).items():
        rows = table[(table["task"] == task) & (table["metric"] == metric)]
        points = rows.assign(**{column: 100 * rows[column] for column in SCALED})
        points["change"] = 100 * rows["delta"]
        colours = [
            MODEL
            if pd.isna(rows.loc[index, "delta"])
            else TUNED
            if sure[index]
            else NOT_SIGNIFICANT
            for index in rows.index
        ]
        shown = [
            marks(
                points["value"],
                labels[points.index],
                "%{y}: %{x:.1f}, 95 % interval %{customdata[0]:.1f} to %{customdata[1]:.1f}<br>"
                "Δ to the first objective %{customdata[2]:+.1f}",
                colour=colours,
                symbol="circle",
                size=10,
                marker={"line": {"width": 2, "color": colours}},
                error_x={**interval(points, "value"), "color": BASELINE},
                customdata=points[["lower", "upper", "change"]].to_numpy(),
            )
        ]
        constant = tables["scores"]
        same = (constant["task"] == task) & (constant["metric"] == metric)
        at = 100 * float(constant[same]["baseline"].iloc[-1])
        ends = [order[0], order[-1]]
        hover = f"majority baseline: {at:.1f}"
        line, mark = {"width": 2, "dash": "solid"}, {"symbol": "line-ns", "size": 12}
        if is_far_below(at, points):
            name += f" (majority baseline: {at:.1f})"
        else:
            shown.insert(0, curve([at, at], ends, hover, colour=BASELINE, marker=mark, line=line))
        parts.append((name, shown))
    across, y = min(ACROSS, len(parts)), rows_of(order)
    return panels(parts, ROW * len(order), across, x={"title": "score"}, y=y, top=4, apart=0.3)


def sizes(tables: Tables) -> go.Figure:
    """Score (metric × 100) by number of parameters, on a logarithmic axis, with 95 % intervals.

    How to read: one panel per task, one line per objective; a rising line means that size helps.
    """
    if tables["sizes"].empty:
        raise KeyError("several sizes")
    table = tables["table"]
    arms = list(dict.fromkeys(table["arm"]))
    parts = []
    for (task, metric), name in _tasks(table).items():
        rows = table[(table["task"] == task) & (table["metric"] == metric)]
        rows = rows.assign(**{column: 100 * rows[column] for column in SCALED})
        shown = []
        for arm, part in rows.groupby("arm", sort=False):
            points = part.sort_values("parameters")
            shown.append(
                curve(
                    points["parameters"],
                    points["value"],
                    f"{arm}, %{{customdata}} (%{{x:,}} parameters): %{{y:.1f}}",
                    str(arm),
                    arms.index(arm),
                    SERIES[arms.index(arm) % len(SERIES)],
                    marker={"size": 8},
                    error_y=interval(points, "value"),
                    customdata=points["size"],
                )
            )
        parts.append((name, shown))
    x = {"title": "number of parameters", "type": "log", "dtick": "D2"}
    return panels(parts, 200, ACROSS, 84, x, {"title": "score"}, apart=0.3)


def _tasks(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Each task and metric, and its name."""
    pairs = zip(table["task"], table["metric"], strict=True)
    return {(task, metric): f"{task} ({spelt(metric)})" for task, metric in pairs}


FIGURES: Mapping[str, Draw] = {"scores": scores, "sizes": sizes}
