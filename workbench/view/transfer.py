"""Figures of adapting models to tasks: what is won over frozen ones, scores, cost, and learning.

Pure functions of the tables of `finetune` and `frozen-vs-finetuned`; they cost milliseconds.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.heads_grid import titles_left
from workbench.view.theme import MANY, MARKS
from workbench.view.transfer_learning import epochs, learning, way, ways

Tables = Mapping[str, pd.DataFrame]
WRITTEN = 6  # models beside each other whose cells have all three numbers
PALE = 1.6  # a scale this much too wide: no cell is so dark that one cannot read what it says
ROW, BETWEEN = 64, 64  # pixels of a task, and between panels
SERIES, ROOM = 20, 24  # pixels of a dot, and around the dots of a model


def delta(tables: Tables) -> go.Figure:
    """What fine-tuning wins over the frozen model under the same head, by task and model: ❄ frozen,
    🔥 tuned, Δ between them. Bold where the 95 % interval of Δ leaves out 0, else with a dot."""
    table = tables["delta"]
    methods = list(dict.fromkeys(table["method"]))
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    largest = PALE * (float(table["delta"].abs().max()) or 1.0)
    inner = len(methods) * len(tasks) * ROW + (len(methods) - 1) * BETWEEN
    figure = make_subplots(
        len(methods),
        1,
        subplot_titles=[escaped(name) for name in methods] if len(methods) > 1 else None,
        vertical_spacing=BETWEEN / inner if len(methods) > 1 else 0,
    )
    titles_left(figure)
    for row, method in enumerate(methods, start=1):
        own = table[table["method"] == method]
        wide = own.pivot(index="task", columns="model", values="delta").reindex(
            index=tasks, columns=models
        )
        figure.add_trace(
            go.Heatmap(
                z=wide.to_numpy(dtype=float), x=models, y=tasks, zmin=-largest, zmax=largest,
                autocolorscale=True, showscale=False, xgap=3, ygap=3, hoverinfo="skip",
            ),
            row, 1,
        )  # fmt: skip
        sure = (own["lower"] > 0) | (own["upper"] < 0)
        for some, known in ((own[sure], True), (own[~sure], False)):
            figure.add_trace(_cells(some, known, len(models) <= WRITTEN), row, 1)
    figure.update_xaxes(type="category", showgrid=False, fixedrange=True)
    figure.update_xaxes(categoryorder="array", categoryarray=models)
    figure.update_yaxes(type="category", showgrid=False, fixedrange=True, autorange="reversed")
    figure.update_yaxes(categoryorder="array", categoryarray=tasks)
    figure.update_layout(height=inner + 90, dragmode=False, showlegend=False, hovermode="closest")
    return figure


def _cells(own: pd.DataFrame, sure: bool, whole: bool) -> go.Scatter:
    """What stands in cells, and what one reads when pointing at them."""
    change = "Δ %{customdata[2]:+.2f}"
    change = f"<b>{change}</b>" if sure else f"{change} ·"
    both = "❄ %{customdata[0]:.2f}<br>🔥 %{customdata[1]:.2f}<br>"
    columns = ["frozen", "tuned", "delta", "lower", "upper", "p_value", "metric", "strong"]
    return go.Scatter(
        x=own["model"],
        y=own["task"],
        mode="text",
        customdata=own[columns].to_numpy(dtype=object),
        texttemplate=both + change if whole else change,
        textfont={"size": 12},
        hovertemplate="<b>%{y}, %{x}</b>: %{customdata[6]}<br>frozen %{customdata[0]:.4f}, tuned "
        "%{customdata[1]:.4f}<br>Δ %{customdata[2]:+.4f}, 95 % from %{customdata[3]:+.4f} to "
        "%{customdata[4]:+.4f}<br>p = %{customdata[5]:.3g}<br>frozen under an LSTM "
        "%{customdata[7]:.4f}<extra></extra>",
    )


def scores(tables: Tables) -> go.Figure:
    """The score of every way of adapting, the mean over seeds, with 95 % intervals."""
    table = tables["means"]
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    series = ways(table)
    tall = len(models) * (len(series) * SERIES + ROOM)
    inner = len(tasks) * tall + (len(tasks) - 1) * BETWEEN
    metrics = table.drop_duplicates("task").set_index("task")["metric"]
    figure = make_subplots(
        len(tasks),
        1,
        subplot_titles=[escaped(f"{task}, {metrics[task]}") for task in tasks],
        vertical_spacing=BETWEEN / inner if len(tasks) > 1 else 0,
    )
    titles_left(figure)
    names = table.apply(way, axis=1)
    for row, task in enumerate(tasks, start=1):
        for place, (name, looks) in enumerate(series.items()):
            own = table[(table["task"] == task) & (names == name)]
            apart = (place - (len(series) - 1) / 2) / (len(series) + ROOM / SERIES)
            figure.add_trace(
                go.Scatter(
                    x=own["value"],
                    y=[models.index(model) + apart for model in own["model"]],
                    error_x={
                        "array": own["upper"] - own["value"],
                        "arrayminus": own["value"] - own["lower"],
                        "thickness": 1.5,
                        "width": 3,
                    },
                    mode="markers",
                    marker={**looks, "size": 9},
                    name=escaped(name),
                    legendgroup=name,
                    showlegend=row == 1,
                    customdata=own[["model", "lower", "upper"]].to_numpy(dtype=object),
                    hovertemplate="%{customdata[0]}: %{x:.4f}, from %{customdata[1]:.4f} to "
                    f"%{{customdata[2]:.4f}}<extra>{escaped(name)}</extra>",
                ),
                row,
                1,
            )
    figure.update_yaxes(
        tickmode="array", tickvals=list(range(len(models))), ticktext=models, showgrid=False,
        range=[len(models) - 0.5, -0.5], fixedrange=True, zeroline=False,
    )  # fmt: skip
    figure.update_layout(height=inner + 130, hovermode="closest")
    figure.update_layout(legend={"y": 1 + 30 / inner}, margin={"t": 90})
    return figure


def cost(tables: Tables) -> go.Figure:
    """What the weights that learn buy: a mark a seed, of the rate that was chosen."""
    table = decided(tables)
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    metrics = table.drop_duplicates("task").set_index("task")["metric"]
    tall = 250
    inner = len(tasks) * tall + (len(tasks) - 1) * BETWEEN
    figure = make_subplots(
        len(tasks),
        1,
        shared_xaxes=True,
        subplot_titles=[escaped(task) for task in tasks] if len(tasks) > 1 else None,
        vertical_spacing=BETWEEN / inner if len(tasks) > 1 else 0,
    )
    titles_left(figure)
    names = table.apply(way, axis=1)
    for row, task in enumerate(tasks, start=1):
        for name, looks in ways(table).items():
            own = table[(table["task"] == task) & (names == name)]
            marks = [MARKS[models.index(model) % len(MARKS)] for model in own["model"]]
            figure.add_trace(
                go.Scatter(
                    x=own["trainable"],
                    y=own["value"],
                    mode="markers",
                    marker={"color": looks["color"], "symbol": marks, "size": 9},
                    name=escaped(name),
                    legendgroup=name,
                    showlegend=row == 1,
                    customdata=own[["model", "seed", "seconds", "size"]].to_numpy(dtype=object),
                    hovertemplate="%{customdata[0]}, seed %{customdata[1]}: %{y:.4f}<br>"
                    "%{x:,} weights learn, %{customdata[3]:.2f} MiB, %{customdata[2]:.1f} s"
                    f"<extra>{escaped(name)}</extra>",
                ),
                row,
                1,
            )
        figure.update_yaxes(title=escaped(metrics[task]), row=row, col=1)
    for place, model in enumerate(models if len(models) > 1 else ()):
        marker = {"color": "#808080", "symbol": MARKS[place % len(MARKS)], "size": 9}
        name = escaped(model)
        figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=marker, name=name))
    figure.update_xaxes(type="log", dtick=1)
    figure.update_xaxes(title="weights that learn", row=len(tasks), col=1)
    figure.update_layout(height=inner + 130, hovermode="closest", margin={"t": 90})
    figure.update_layout(legend={"y": 1 + 30 / inner})
    return figure


def decided(tables: Tables) -> pd.DataFrame:
    """Scores on the scored part, by the metric that decides."""
    table, metric = tables["scores"], tables["epochs"][["task", "metric"]].drop_duplicates()
    scored = table[table["split"] != "dev"]
    own: pd.DataFrame = (table if scored.empty else scored).merge(metric, on=["task", "metric"])
    return own


def by_seed(tables: Tables) -> go.Figure:
    """Every metric on the scored part: a mark a seed."""
    table = tables["scores"]
    scored = table[table["split"] != "dev"]
    table = table if scored.empty else scored
    figure = go.Figure()
    for place, (seed, own) in enumerate(table.groupby("seed", sort=False)):
        figure.add_trace(
            go.Scatter(
                x=own["value"],
                y=own["metric"],
                mode="markers",
                marker={
                    "color": MANY[(place + 3) % len(MANY)],
                    "symbol": MARKS[place % len(MARKS)],
                    "size": 10,
                },
                name=f"seed {seed}",
                hovertemplate="%{y}: %{x:.4f}<extra>%{fullData.name}</extra>",
            )
        )
    number = table["metric"].nunique()
    lowest = float(np.nanmin(table["value"], initial=0.0))
    figure.update_xaxes(rangemode="tozero" if lowest >= 0 else "normal")
    figure.update_yaxes(type="category", autorange="reversed")
    figure.update_layout(height=140 + 44 * number, showlegend=True, hovermode="closest")
    return figure


Draw = Callable[[Tables], Any]
FINETUNE: Mapping[str, Draw] = {"scores": by_seed, "learning": learning, "epochs": epochs}
FROZEN_VS_FINETUNED: Mapping[str, Draw] = {
    "delta": delta,
    "scores": scores,
    "cost": cost,
    "epochs": epochs,
}
