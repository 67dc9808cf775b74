"""Figures of pretraining: what each arm is worth, task by task, and what size adds.

Pure functions of the tables of `pretraining`; they cost milliseconds.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, DASHES, MARKS

Tables = Mapping[str, pd.DataFrame]
APART = 0.19  # of a row, between the marks of two arms
ACROSS = 3  # panels beside one another


def scores(tables: Tables) -> go.Figure:
    """Each arm's score by task, with its interval: a panel a size."""
    table = tables["table"]
    sizes, arms = (list(dict.fromkeys(table[name])) for name in ("size", "arm"))
    tasks = list(dict.fromkeys(zip(table["task"], table["metric"], strict=True)))
    figure = make_subplots(
        len(sizes),
        1,
        shared_xaxes=True,
        vertical_spacing=0.2 / len(sizes),
        subplot_titles=sizes if len(sizes) > 1 else None,
    )
    for row, size in enumerate(sizes, start=1):
        for place, arm in enumerate(arms):
            own = table[(table["size"] == size) & (table["arm"] == arm)]
            own = own.set_index(["task", "metric"]).loc[tasks]
            middle = (len(arms) - 1) / 2
            figure.add_trace(
                go.Scatter(
                    x=own["value"],
                    y=[at + APART * (place - middle) for at in range(len(tasks))],
                    error_x=spread(own),
                    mode="markers",
                    name=arm,
                    legendgroup=arm,
                    showlegend=row == 1,
                    marker={
                        "symbol": MARKS[place % len(MARKS)],
                        "color": COLOURS["light"][place % len(COLOURS["light"])],
                        "size": 9,
                    },
                    customdata=[f"{escaped(task)}, {metric}" for task, metric in tasks],
                    hovertemplate=f"{arm}, {size}, %{{customdata}}: %{{x:.3f}}<extra></extra>",
                ),
                row,
                1,
            )
        figure.update_yaxes(
            tickvals=list(range(len(tasks))),
            ticktext=[f"{escaped(task)} ({metric})" for task, metric in tasks],
            range=[len(tasks) - 0.5, -0.5],
            row=row,
            col=1,
        )
    figure.update_xaxes(title="score", row=len(sizes), col=1)
    figure.update_layout(height=90 + len(sizes) * (50 + 52 * len(tasks)))
    return figure


def sizes(tables: Tables) -> go.Figure:
    """Score by the model's parameters: a panel a task, a line an arm."""
    if tables["sizes"].empty:
        raise KeyError("several sizes")
    table = tables["table"]
    arms = list(dict.fromkeys(table["arm"]))
    tasks = list(dict.fromkeys(zip(table["task"], table["metric"], strict=True)))
    across = min(ACROSS, len(tasks))
    down = -(-len(tasks) // across)
    figure = make_subplots(
        down,
        across,
        horizontal_spacing=0.3 / across,
        vertical_spacing=0.36 / down,
        subplot_titles=[f"{escaped(task)} ({metric})" for task, metric in tasks],
    )
    for number, (task, metric) in enumerate(tasks):
        for place, arm in enumerate(arms):
            own = table[
                (table["task"] == task) & (table["metric"] == metric) & (table["arm"] == arm)
            ].sort_values("parameters")
            colour = COLOURS["light"][place % len(COLOURS["light"])]
            figure.add_trace(
                go.Scatter(
                    x=own["parameters"],
                    y=own["value"],
                    error_y=spread(own),
                    mode="lines+markers",
                    name=arm,
                    legendgroup=arm,
                    showlegend=number == 0,
                    line={"color": colour, "dash": DASHES[place % len(DASHES)]},
                    marker={"symbol": MARKS[place % len(MARKS)], "size": 8},
                    customdata=own["size"],
                    hovertemplate=f"{arm}, %{{customdata}} (%{{x:,}} parameters): %{{y:.3f}}"
                    "<extra></extra>",
                ),
                number // across + 1,
                number % across + 1,
            )
    figure.update_xaxes(type="log", dtick="D2")
    for column in range(1, across + 1):
        figure.update_xaxes(title="parameters", row=down, col=column)
    figure.update_layout(height=110 + 260 * down, legend={"y": 1 + 0.1 / down})
    return figure


def spread(own: pd.DataFrame) -> dict[str, Any]:
    """Intervals as bars of error."""
    return {
        "array": own["upper"] - own["value"],
        "arrayminus": own["value"] - own["lower"],
        "thickness": 1,
        "width": 2,
    }


Draw = Any
FIGURES: Mapping[str, Draw] = {"scores": scores, "sizes": sizes}
