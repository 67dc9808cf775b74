"""Figures of pretraining: what each arm is worth, task by task, and what size adds.

Pure functions of the tables of `pretraining`; they cost milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import Draw, Tables, curve, interval, marks, panels
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, MARKS

APART = 0.19  # of a row, between the marks of two arms
ACROSS = 3  # panels beside one another


def scores(tables: Tables) -> go.Figure:
    """Each arm's score by task, with its interval: a panel a size."""
    table = tables["table"]
    sizes, arms = (list(dict.fromkeys(table[name])) for name in ("size", "arm"))
    tasks = _tasks(table)
    parts = []
    for size in sizes:
        shown = []
        for place, arm in enumerate(arms):
            own = table[(table["size"] == size) & (table["arm"] == arm)]
            own = own.set_index(["task", "metric"]).loc[list(tasks)].reset_index()
            apart = APART * (place - (len(arms) - 1) / 2)
            shown.append(
                marks(
                    own["value"],
                    own.index + apart,
                    f"{arm}, {size}, %{{customdata[0]}}, %{{customdata[1]}}: %{{x:.3f}}",
                    arm,
                    COLOURS["light"][place % len(COLOURS["light"])],
                    MARKS[place % len(MARKS)],
                    size=9,
                    error_x=interval(own, "value"),
                    customdata=own[["task", "metric"]],
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
    """Score by the model's parameters: a panel a task, a line an arm."""
    if tables["sizes"].empty:
        raise KeyError("several sizes")
    table = tables["table"]
    arms = list(dict.fromkeys(table["arm"]))
    parts = []
    for (task, metric), name in _tasks(table).items():
        rows = table[(table["task"] == task) & (table["metric"] == metric)]
        shown = []
        for arm, own in rows.groupby("arm", sort=False):
            own = own.sort_values("parameters")
            shown.append(
                curve(
                    own["parameters"],
                    own["value"],
                    f"{arm}, %{{customdata}} (%{{x:,}} parameters): %{{y:.3f}}",
                    str(arm),
                    arms.index(arm),
                    COLOURS["light"][arms.index(arm) % len(COLOURS["light"])],
                    marker={"size": 8},
                    error_y=interval(own, "value"),
                    customdata=own["size"],
                )
            )
        parts.append((name, shown))
    x = {"title": "parameters", "type": "log", "dtick": "D2"}
    return panels(parts, 200, ACROSS, 84, x, apart=0.3)


def _tasks(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Each task and metric, and what they are called."""
    pairs = zip(table["task"], table["metric"], strict=True)
    return {(task, metric): f"{task} ({metric})" for task, metric in pairs}


FIGURES: Mapping[str, Draw] = {"scores": scores, "sizes": sizes}
