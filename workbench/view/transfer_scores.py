"""Figures of scores: every way of adapting with its interval, what it costs, and seed by seed.

Pure functions of the tables of `finetune` and `frozen-vs-finetuned`; they cost milliseconds.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.heads_grid import titles_left
from workbench.view.theme import MANY, MARKS
from workbench.view.transfer_learning import hollow, way, ways

Tables = Mapping[str, pd.DataFrame]
SERIES, ROOM = 20, 24  # pixels of a dot, and around the dots of a model
TALL, BETWEEN = 250, 64  # pixels of a panel, and between two
CUT = "part of train"  # what chooses the rate where dev is scored


def scores(tables: Tables) -> go.Figure:
    """The score of every way of adapting, the mean over seeds, with 95 % intervals. Hollow: a
    training was cut off by its maximum number of epochs. Cross: no better than the majority."""
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
                    marker={
                        "color": looks["color"],
                        "symbol": _marks(own, looks["symbol"]),
                        "size": 9,
                    },
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


def _marks(own: pd.DataFrame, symbol: str) -> list[str] | str:
    """Each row's mark; tables of before have no such columns."""
    marks = hollow(own.get("converged"), symbol)
    if "learned" not in own or isinstance(marks, str):
        return marks
    return [
        mark if good else "x-thin-open" for mark, good in zip(marks, own["learned"], strict=True)
    ]


def cost(tables: Tables) -> go.Figure:
    """What the weights that learn buy: a mark a seed, of the rate that was chosen."""
    table = decided(tables)
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    metrics = table.drop_duplicates("task").set_index("task")["metric"]
    inner = len(tasks) * TALL + (len(tasks) - 1) * BETWEEN
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


def costs(tables: Tables) -> pd.DataFrame:
    """What each way costs: the mean over its seeds, at the rate that was chosen."""
    table = decided(tables)
    numbers = ["value", "trainable", "size", "seconds", "peak_memory"]
    ways_of = ["task", "model", "method", "head", "metric"]
    found: pd.DataFrame = table.groupby(ways_of, sort=False)[numbers].mean().reset_index()
    return found.rename(columns={"size": "size, MiB", "peak_memory": "peak memory, MiB"})


def decided(tables: Tables) -> pd.DataFrame:
    """Scores on the scored part, by the metric that decides."""
    metric = tables["epochs"][["task", "metric"]].drop_duplicates()
    own: pd.DataFrame = _scored(tables["scores"]).merge(metric, on=["task", "metric"])
    return own


def _scored(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the scored part: not of dev; where dev was scored, not of what stood for it."""
    cut = table.groupby("task")["split"].transform(lambda own: CUT in set(own))
    return table[(table["split"] != "dev").where(~cut, table["split"] != CUT)]


def by_seed(tables: Tables) -> go.Figure:
    """Every metric on the scored part: a mark a seed, hollow where its training was cut off."""
    table = _scored(tables["scores"])
    figure = go.Figure()
    for place, (seed, own) in enumerate(table.groupby("seed", sort=False)):
        figure.add_trace(
            go.Scatter(
                x=own["value"],
                y=own["metric"],
                mode="markers",
                marker={
                    "color": MANY[(place + 3) % len(MANY)],
                    "symbol": hollow(own.get("converged"), MARKS[place % len(MARKS)]),
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
