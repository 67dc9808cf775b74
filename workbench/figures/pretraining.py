"""Figures of pretraining: scores of each arm on each task, and the effect of model size.

Pure functions of the tables of `pretraining`. Costs: milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import Draw, Tables, curve, interval, marks, panels
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, MARKS

APART = 0.19  # share of a row between the marks of two arms
ACROSS = 3  # panels in a row


def scores(tables: Tables) -> go.Figure:
    """Score of each arm on each task, with its interval. One panel per model size."""
    table = tables["table"]
    sizes, arms = (list(dict.fromkeys(table[name])) for name in ("size", "arm"))
    tasks = _tasks(table)
    parts = []
    for size in sizes:
        shown = []
        for index, arm in enumerate(arms):
            rows = table[(table["size"] == size) & (table["arm"] == arm)]
            rows = rows.set_index(["task", "metric"]).loc[list(tasks)].reset_index()
            shift = APART * (index - (len(arms) - 1) / 2)
            shown.append(
                marks(
                    rows["value"],
                    rows.index + shift,
                    f"{arm}, {size}, %{{customdata[0]}}, %{{customdata[1]}}: %{{x:.3f}}",
                    arm,
                    COLOURS["light"][index % len(COLOURS["light"])],
                    MARKS[index % len(MARKS)],
                    size=9,
                    error_x=interval(rows, "value"),
                    customdata=rows[["task", "metric"]],
                )
            )
        parts.append((size if len(sizes) > 1 else "", shown))
    y = {
        "tickvals": list(range(len(tasks))),
        "ticktext": [escaped(name) for name in tasks.values()],
        "range": [len(tasks) - 0.5, -0.5],
    }
    return panels(parts, 64 * len(tasks), x={"title": "score"}, y=y, shared=True)


def sizes(tables: Tables) -> go.Figure:
    """Score by number of parameters (logarithmic axis). One panel per task, one line per arm."""
    if tables["sizes"].empty:
        raise KeyError("several sizes")
    table = tables["table"]
    arms = list(dict.fromkeys(table["arm"]))
    parts = []
    for (task, metric), name in _tasks(table).items():
        rows = table[(table["task"] == task) & (table["metric"] == metric)]
        shown = []
        for arm, part in rows.groupby("arm", sort=False):
            points = part.sort_values("parameters")
            shown.append(
                curve(
                    points["parameters"],
                    points["value"],
                    f"{arm}, %{{customdata}} (%{{x:,}} parameters): %{{y:.3f}}",
                    str(arm),
                    arms.index(arm),
                    COLOURS["light"][arms.index(arm) % len(COLOURS["light"])],
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
    return {(task, metric): f"{task} ({metric})" for task, metric in pairs}


FIGURES: Mapping[str, Draw] = {"scores": scores, "sizes": sizes}
