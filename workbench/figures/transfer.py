"""Figures of fine-tuning: learning curves, scores, costs, and the gain over frozen models.

Pure functions of the tables of `finetune` and `frozen-vs-finetuned`. Costs: milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import (
    CELLS,
    DOWN,
    Draw,
    Tables,
    curve,
    heat_map,
    interval,
    largest,
    marks,
    matrix,
    panels,
    plot,
    sign,
    symbols,
)
from workbench.figures.sanitize import escaped
from workbench.figures.theme import DASHES, MANY, MARKS

# --- learning curves ------------------------------------------------------------------------------
#
# Loss by step and dev score by epoch of every training, and the colours and marks of methods.
#
# Pure functions of the tables `learning` and `epochs`. Costs: milliseconds.

TRAINING = ["model", "method", "head", "seed", "learning_rate"]
KNOWN = {  # methods with a fixed colour
    "frozen": MANY[3],
    "frozen, LSTM": MANY[5],
    "fine-tuned": MANY[4],
    "fine-tuned, text": MANY[7],
}
GREY = "#808080"  # of signs that belong to no method
OTHERS = [colour for colour in MANY if colour not in KNOWN.values()]


def way(row: Any) -> str:
    """A method and its head, in words."""
    head = str(row["head"])
    return str(row["method"]) + {"plain": "", "lstm": ", LSTM"}.get(head, f", {head}")


def ways(table: pd.DataFrame) -> dict[str, dict[str, str]]:
    """The methods of a table, each with a colour and a mark."""
    names = dict.fromkeys(table.apply(way, axis=1)) if len(table) else {}
    others = [name for name in names if name not in KNOWN]
    return {
        name: {
            "color": KNOWN.get(name) or OTHERS[others.index(name) % len(OTHERS)],
            "symbol": MARKS[index % len(MARKS)],
        }
        for index, name in enumerate(names)
    }


def learning(tables: Tables) -> go.Figure:
    """Training loss of each step, one line per training, not averaged."""
    return _lines(tables["learning"], "step", "loss", "training loss", thin=True)


def epochs(tables: Tables) -> go.Figure:
    """Dev score after each epoch, one line per training. Hollow: the training reached its maximum
    number of epochs. For a plain head over a frozen model: one mark per ridge strength, at its
    optimum; the horizontal axis is then the number of passes over train."""
    return _lines(tables["epochs"], "epoch", "value", "dev score", thin=False)


def _lines(table: pd.DataFrame, x: str, y: str, title: str, thin: bool) -> go.Figure:
    """One panel per task, one colour per method, one dash per seed; for one method, a colour per
    learning rate."""
    series = ways(table)
    rates = sorted(set(table["learning_rate"])) if len(series) == 1 else []
    seeds = list(dict.fromkeys(table["seed"]))
    parts: list[tuple[str, list[go.Scatter]]] = []
    for task, rows in table.groupby("task", sort=False):
        lines = []
        for (model, method, head, seed, rate), run in rows.groupby(TRAINING, sort=False):
            name = way({"method": method, "head": head})
            colour = series[name]["color"]
            if rates:
                name, colour = f"learning rate {rate:g}", MANY[(rates.index(rate) + 3) % len(MANY)]
            index = seeds.index(seed)
            lines.append(
                curve(
                    run[x],
                    run[y],
                    "%{customdata[0]}, seed %{customdata[1]}, learning rate %{customdata[2]}"
                    f"<br>{x} %{{x}}: {title} %{{y:.4f}}<extra>{escaped(name)}</extra>",
                    name,
                    index,
                    colour,
                    {"symbol": symbols(run, MARKS[index % len(MARKS)]), "size": 6},
                    {"width": 1.25 if thin else 1.75},
                    mode="lines" if thin else "lines+markers",
                    customdata=[[model, seed, f"{rate:g}"]] * len(run),
                )
            )
        parts.append((str(task), lines))
    parts = parts if len(parts) > 1 else [("", lines) for _, lines in parts]
    for index, seed in enumerate(seeds if len(seeds) > 1 else ()):
        line = {"color": GREY, "dash": DASHES[index % len(DASHES)]}
        parts[0][1].append(sign(f"seed {seed}", line=line))
    is_short = len(table) and table[x].max() <= (20 if x == "epoch" else 8)
    return panels(
        parts or [("", [])],
        280,
        x={"title": x, "dtick": 1 if is_short else None},
        y={"title": title},
        hovermode="closest",
        showlegend=True,
    )


# --- scores ---------------------------------------------------------------------------------------
#
# Scores of every method with intervals, their costs, and scores of each seed.
#
# Pure functions of the tables of `finetune` and `frozen-vs-finetuned`. Costs: milliseconds.

SERIES, ROOM = 20, 24  # pixels of a dot, and around the dots of a model
CUT = "part of train"  # the split that selects the learning rate if dev is scored


def scores(tables: Tables) -> go.Figure:
    """Score of every method: mean over seeds, with 95 % intervals. Hollow: the training of at
    least one seed reached its maximum number of epochs. Cross: not significantly better than the
    majority baseline."""
    table = tables["means"]
    models, series = list(dict.fromkeys(table["model"])), ways(table)
    parts = []
    for task, rows in table.groupby("task", sort=False):
        shown = []
        for index, (name, part) in enumerate(_by_way(rows, series)):
            shift = (index - (len(series) - 1) / 2) / (len(series) + ROOM / SERIES)
            shown.append(
                marks(
                    part["value"],
                    [models.index(model) + shift for model in part["model"]],
                    "%{customdata[0]}: %{x:.4f}, 95 % interval %{customdata[1]:.4f} to "
                    f"%{{customdata[2]:.4f}}<extra>{escaped(name)}</extra>",
                    name,
                    series[name]["color"],
                    symbols(part, series[name]["symbol"], "learned"),
                    9,
                    error_x=interval(part, "value"),
                    customdata=part[["model", "lower", "upper"]].to_numpy(dtype=object),
                )
            )
        parts.append((f"{task}, {rows['metric'].iloc[0]}", shown))
    y = {
        **CELLS,
        "tickmode": "array",
        "tickvals": list(range(len(models))),
        "ticktext": models,
        "range": [len(models) - 0.5, -0.5],
        "fixedrange": True,
    }
    tall = len(models) * (len(series) * SERIES + ROOM)
    return panels(parts, tall, x={"title": "score"}, y=y, hovermode="closest")


def _by_way(table: pd.DataFrame, series: Iterable[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each method, in the same order for all panels."""
    names = table.apply(way, axis=1)
    return ((name, table[names == name]) for name in series)


def cost(tables: Tables) -> go.Figure:
    """Score by number of trained weights (logarithmic axis), one mark per seed, at the selected
    learning rate."""
    table = decided(tables)
    models, series = list(dict.fromkeys(table["model"])), ways(table)
    parts, axes = [], []
    for task, rows in table.groupby("task", sort=False):
        shown = [
            marks(
                part["trainable"],
                part["value"],
                "%{customdata[0]}, seed %{customdata[1]}: %{y:.4f}<br>%{x:,} trained weights, "
                "%{customdata[3]:.2f} MiB, %{customdata[2]:.1f} s of training"
                f"<extra>{escaped(name)}</extra>",
                name,
                series[name]["color"],
                [MARKS[models.index(model) % len(MARKS)] for model in part["model"]],
                9,
                customdata=part[["model", "seed", "seconds", "size"]].to_numpy(dtype=object),
            )
            for name, part in _by_way(rows, series)
        ]
        parts.append((task if table["task"].nunique() > 1 else "", shown))
        axes.append({"title": escaped(rows["metric"].iloc[0])})
    for index, model in enumerate(models if len(models) > 1 else ()):
        marker = {"color": GREY, "symbol": MARKS[index % len(MARKS)], "size": 9}
        parts[0][1].append(sign(model, marker=marker))
    x = {"title": "number of trained weights", "type": "log", "dtick": 1}
    return panels(parts, 250, x=x, y=axes, shared=True, hovermode="closest")


def costs(tables: Tables) -> pd.DataFrame:
    """Cost of each method: means over seeds, at the selected learning rate."""
    table = decided(tables)
    numbers = ["value", "trainable", "size", "seconds", "peak_memory"]
    ways_of = ["task", "model", "method", "head", "metric"]
    means: pd.DataFrame = table.groupby(ways_of, sort=False)[numbers].mean().reset_index()
    return means.rename(columns={"size": "size, MiB", "peak_memory": "peak memory, MiB"})


def decided(tables: Tables) -> pd.DataFrame:
    """Scores on the scored split, by the metric that selects the learning rate."""
    metric = tables["epochs"][["task", "metric"]].drop_duplicates()
    rows: pd.DataFrame = _scored(tables["scores"]).merge(metric, on=["task", "metric"])
    return rows


def _scored(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the scored split: not dev, or if dev was scored, not the part of train."""
    cut = table.groupby("task")["split"].transform(lambda splits: CUT in set(splits))
    return table[(table["split"] != "dev").where(~cut, table["split"] != CUT)]


def by_seed(tables: Tables) -> go.Figure:
    """Every metric on the scored split, one mark per seed. Hollow: training reached its maximum
    number of epochs."""
    table = _scored(tables["scores"])
    shown = [
        marks(
            rows["value"],
            rows["metric"],
            "%{y}: %{x:.4f}<extra>%{fullData.name}</extra>",
            f"seed {seed}",
            MANY[(index + 3) % len(MANY)],
            symbols(rows, MARKS[index % len(MARKS)]),
            10,
        )
        for index, (seed, rows) in enumerate(table.groupby("seed", sort=False))
    ]
    lowest = float(np.nanmin(table["value"], initial=0.0))
    return plot(
        shown,
        140 + 44 * table["metric"].nunique(),
        {"title": "score", "rangemode": "tozero" if lowest >= 0 else "normal"},
        DOWN,
        showlegend=True,
        hovermode="closest",
    )


# --- the gain of fine-tuning by task and model ----------------------------------------------------

FEW = 6  # maximum number of models whose cells have all three numbers
PALE = 2.0  # factor of the colour scale, so that text is readable in every cell
ROW = 64  # pixels of a task


def delta(tables: Tables) -> go.Figure:
    """Gain of fine-tuning over the frozen model with the same head, by task and model: ❄ frozen
    score, → fine-tuned score, Δ difference. Bold: the 95 % interval of Δ excludes 0; dot: it does
    not."""
    table = tables["delta"]
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    top = PALE * largest(table["delta"])
    parts = []
    for method, rows in table.groupby("method", sort=False):
        wide = matrix(rows["task"], rows["model"], rows["delta"])
        wide = wide.reindex(index=tasks, columns=models)
        cells = heat_map(wide, gap=3, zmin=-top, zmax=top, showscale=False)
        sure = (rows["lower"] > 0) | (rows["upper"] < 0)
        words = [
            _cells(part, is_sure, len(models))
            for part, is_sure in ((rows[sure], True), (rows[~sure], False))
        ]
        parts.append((method if table["method"].nunique() > 1 else "", [cells, *words]))
    fixed = {**CELLS, "fixedrange": True, "categoryorder": "array"}
    return panels(
        parts,
        ROW * len(tasks),
        x={**fixed, "type": "category", "categoryarray": models},
        y={**fixed, **DOWN, "categoryarray": tasks},
        top=8,
        dragmode=False,
        showlegend=False,
        hovermode="closest",
    )


def _cells(rows: pd.DataFrame, sure: bool, models: int) -> go.Scatter:
    """The text of cells, and their hover text."""
    change = "Δ %{customdata[2]:+.2f}"
    change = f"<b>{change}</b>" if sure else f"{change} ·"
    both = "❄ %{customdata[0]:.2f}<br>→ %{customdata[1]:.2f}<br>"
    columns = ["frozen", "tuned", "delta", "lower", "upper", "p_value", "metric", "strong"]
    return marks(
        rows["model"],
        rows["task"],
        "<b>%{y}, %{x}</b>: %{customdata[6]}<br>frozen %{customdata[0]:.4f}, fine-tuned "
        "%{customdata[1]:.4f}<br>Δ %{customdata[2]:+.4f}, 95 % interval %{customdata[3]:+.4f} to "
        "%{customdata[4]:+.4f}<br>p = %{customdata[5]:.3g}<br>frozen with an LSTM head "
        "%{customdata[7]:.4f}",
        mode="text",
        customdata=rows[columns].to_numpy(dtype=object),
        texttemplate=both + change if models <= FEW else change,
        textfont={"size": 12},
    )


FINETUNE: Mapping[str, Draw] = {"scores": by_seed, "learning": learning, "epochs": epochs}
FROZEN_VS_FINETUNED: Mapping[str, Draw] = {
    "delta": delta,
    "scores": scores,
    "cost": cost,
    "epochs": epochs,
}
