"""What is won over frozen models, as a picture; and the figures of every experiment on adapting.

Pure functions of the tables of `finetune` and `frozen-vs-finetuned`; they cost milliseconds.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.head_grid import titles_left
from workbench.figures.sanitize import escaped
from workbench.figures.theme import DASHES, MANY, MARKS

# --- learning curves ------------------------------------------------------------------------------
#
# Figures of learning: the loss by step and dev by epoch, of every attempt; and how ways look.
#
# Pure functions of the tables `learning` and `epochs`; they cost milliseconds.

Tables = Mapping[str, pd.DataFrame]
ATTEMPT = ["model", "method", "head", "seed", "learning_rate"]
CURVES_HEIGHT, CURVES_GAP = 280, 64  # pixels of a panel, and between two
KNOWN = {  # ways that every table has, always in the same colour
    "frozen": MANY[3],
    "frozen, LSTM": MANY[5],
    "fine-tuned": MANY[4],
    "fine-tuned, text": MANY[7],
}
OTHERS = [colour for colour in MANY if colour not in KNOWN.values()]


def way(row: Any) -> str:
    """A method under a head, in words."""
    head = str(row["head"])
    return str(row["method"]) + {"plain": "", "lstm": ", LSTM"}.get(head, f", {head}")


def ways(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The ways in a table, each with a colour and a mark."""
    names = dict.fromkeys(table.apply(way, axis=1)) if len(table) else {}
    others = [name for name in names if name not in KNOWN]
    return {
        name: {
            "color": KNOWN.get(name) or OTHERS[others.index(name) % len(OTHERS)],
            "symbol": MARKS[place % len(MARKS)],
        }
        for place, name in enumerate(names)
    }


def learning(tables: Tables) -> go.Figure:
    """The loss of each step, a line an attempt, as it was: no mean is taken."""
    return _lines(tables["learning"], "step", "loss", "loss", thin=True)


def hollow(converged: pd.Series | None, symbol: str) -> list[str] | str:
    """The mark of each row: hollow where training was cut off by its maximum of epochs."""
    if converged is None:
        return symbol
    return [symbol if own else f"{symbol}-open" for own in converged]


def epochs(tables: Tables) -> go.Figure:
    """Dev's score after each epoch, a line an attempt; hollow where it was cut off by its maximum
    number of epochs. Of a plain head over a frozen model a mark an optimum, by passes."""
    return _lines(tables["epochs"], "epoch", "value", "on dev", thin=False)


def _lines(table: pd.DataFrame, x: str, y: str, title: str, thin: bool) -> go.Figure:
    """A panel a task, a colour a way, a dash a seed; of one way alone a colour a rate."""
    tasks = list(dict.fromkeys(table["task"]))
    down = max(1, len(tasks))
    inner = down * CURVES_HEIGHT + (down - 1) * CURVES_GAP
    figure = make_subplots(
        down,
        1,
        subplot_titles=[escaped(task) for task in tasks] if len(tasks) > 1 else None,
        vertical_spacing=CURVES_GAP / inner if down > 1 else 0,
    )
    titles_left(figure)
    series = ways(table)
    rates = sorted(set(table["learning_rate"])) if len(series) == 1 else []
    seeds = list(dict.fromkeys(table["seed"]))
    seen: set[str] = set()
    for row, task in enumerate(tasks, start=1):
        for key, own in table[table["task"] == task].groupby(ATTEMPT, sort=False):
            model, method, head, seed, rate = key
            name = way({"method": method, "head": head})
            colour = series[name]["color"]
            if rates:
                name, colour = f"rate {rate:g}", MANY[(rates.index(rate) + 3) % len(MANY)]
            place = seeds.index(seed)
            figure.add_trace(
                go.Scatter(
                    x=own[x],
                    y=own[y],
                    mode="lines" if thin else "lines+markers",
                    line={
                        "color": colour,
                        "width": 1.25 if thin else 1.75,
                        "dash": DASHES[place % len(DASHES)],
                    },
                    marker={
                        "symbol": hollow(own.get("converged"), MARKS[place % len(MARKS)]),
                        "size": 6,
                    },
                    name=escaped(name),
                    legendgroup=name,
                    showlegend=name not in seen,
                    customdata=[[model, seed, f"{rate:g}"]] * len(own),
                    hovertemplate="%{customdata[0]}, seed %{customdata[1]}, rate %{customdata[2]}"
                    f"<br>{x} %{{x}}: %{{y:.4f}}<extra>{escaped(name)}</extra>",
                ),
                row,
                1,
            )
            seen.add(name)
    for place, seed in enumerate(seeds if len(seeds) > 1 else ()):
        line = {"color": "#808080", "dash": DASHES[place % len(DASHES)]}
        figure.add_trace(
            go.Scatter(x=[None], y=[None], mode="lines", line=line, name=f"seed {seed}")
        )
    figure.update_xaxes(title=x, row=down, col=1)
    if len(table) and table[x].max() <= (20 if x == "epoch" else 8):
        figure.update_xaxes(dtick=1)
    figure.update_yaxes(title=title)
    figure.update_layout(height=inner + 120, hovermode="closest", margin={"t": 80})
    figure.update_layout(legend={"y": 1 + (30 if down > 1 else 6) / inner}, showlegend=True)
    return figure


# --- scores ---------------------------------------------------------------------------------------
#
# Figures of scores: every way of adapting with its interval, what it costs, and seed by seed.
#
# Pure functions of the tables of `finetune` and `frozen-vs-finetuned`; they cost milliseconds.

SERIES, ROOM = 20, 24  # pixels of a dot, and around the dots of a model
SCORES_HEIGHT, SCORES_GAP = 250, 64  # pixels of a panel, and between two
CUT = "part of train"  # what chooses the rate where dev is scored


def scores(tables: Tables) -> go.Figure:
    """The score of every way of adapting, the mean over seeds, with 95 % intervals. Hollow: a
    training was cut off by its maximum number of epochs. Cross: no better than the majority."""
    table = tables["means"]
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    series = ways(table)
    tall = len(models) * (len(series) * SERIES + ROOM)
    inner = len(tasks) * tall + (len(tasks) - 1) * SCORES_GAP
    metrics = table.drop_duplicates("task").set_index("task")["metric"]
    figure = make_subplots(
        len(tasks),
        1,
        subplot_titles=[escaped(f"{task}, {metrics[task]}") for task in tasks],
        vertical_spacing=SCORES_GAP / inner if len(tasks) > 1 else 0,
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
    inner = len(tasks) * SCORES_HEIGHT + (len(tasks) - 1) * SCORES_GAP
    figure = make_subplots(
        len(tasks),
        1,
        shared_xaxes=True,
        subplot_titles=[escaped(task) for task in tasks] if len(tasks) > 1 else None,
        vertical_spacing=SCORES_GAP / inner if len(tasks) > 1 else 0,
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


# --- one table of all figures ---------------------------------------------------------------------

WRITTEN = 6  # models beside each other whose cells have all three numbers
PALE = 2.0  # a scale this much too wide: no cell is so dark that one cannot read what it says
ROW, BETWEEN = 64, 64  # pixels of a task, and between panels


def delta(tables: Tables) -> go.Figure:
    """What fine-tuning wins over the frozen model under the same head, by task and model: ❄ frozen,
    → tuned, Δ between them. Bold where the 95 % interval of Δ leaves out 0, else with a dot."""
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
    both = "❄ %{customdata[0]:.2f}<br>→ %{customdata[1]:.2f}<br>"
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


Draw = Callable[[Tables], Any]
FINETUNE: Mapping[str, Draw] = {"scores": by_seed, "learning": learning, "epochs": epochs}
FROZEN_VS_FINETUNED: Mapping[str, Draw] = {
    "delta": delta,
    "scores": scores,
    "cost": cost,
    "epochs": epochs,
}
