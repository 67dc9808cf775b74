"""What is won over frozen models, as a picture; and the figures of every experiment on adapting.

Pure functions of the tables of `finetune` and `frozen-vs-finetuned`; they cost milliseconds.
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
# Figures of learning: the loss by step and dev by epoch, of every attempt; and how ways look.
#
# Pure functions of the tables `learning` and `epochs`; they cost milliseconds.

ATTEMPT = ["model", "method", "head", "seed", "learning_rate"]
KNOWN = {  # ways that every table has, always in the same colour
    "frozen": MANY[3],
    "frozen, LSTM": MANY[5],
    "fine-tuned": MANY[4],
    "fine-tuned, text": MANY[7],
}
GREY = "#808080"  # of what stands for no way
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


def epochs(tables: Tables) -> go.Figure:
    """Dev's score after each epoch, a line an attempt; hollow where it was cut off by its maximum
    number of epochs. Of a plain head over a frozen model a mark an optimum, by passes."""
    return _lines(tables["epochs"], "epoch", "value", "on dev", thin=False)


def _lines(table: pd.DataFrame, x: str, y: str, title: str, thin: bool) -> go.Figure:
    """A panel a task, a colour a way, a dash a seed; of one way alone a colour a rate."""
    series = ways(table)
    rates = sorted(set(table["learning_rate"])) if len(series) == 1 else []
    seeds = list(dict.fromkeys(table["seed"]))
    parts: list[tuple[str, list[go.Scatter]]] = []
    for task, rows in table.groupby("task", sort=False):
        lines = []
        for (model, method, head, seed, rate), own in rows.groupby(ATTEMPT, sort=False):
            name = way({"method": method, "head": head})
            colour = series[name]["color"]
            if rates:
                name, colour = f"rate {rate:g}", MANY[(rates.index(rate) + 3) % len(MANY)]
            place = seeds.index(seed)
            lines.append(
                curve(
                    own[x],
                    own[y],
                    "%{customdata[0]}, seed %{customdata[1]}, rate %{customdata[2]}"
                    f"<br>{x} %{{x}}: %{{y:.4f}}<extra>{escaped(name)}</extra>",
                    name,
                    place,
                    colour,
                    {"symbol": symbols(own, MARKS[place % len(MARKS)]), "size": 6},
                    {"width": 1.25 if thin else 1.75},
                    mode="lines" if thin else "lines+markers",
                    customdata=[[model, seed, f"{rate:g}"]] * len(own),
                )
            )
        parts.append((str(task), lines))
    parts = parts if len(parts) > 1 else [("", lines) for _, lines in parts]
    for place, seed in enumerate(seeds if len(seeds) > 1 else ()):
        line = {"color": GREY, "dash": DASHES[place % len(DASHES)]}
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
# Figures of scores: every way of adapting with its interval, what it costs, and seed by seed.
#
# Pure functions of the tables of `finetune` and `frozen-vs-finetuned`; they cost milliseconds.

SERIES, ROOM = 20, 24  # pixels of a dot, and around the dots of a model
CUT = "part of train"  # what chooses the rate where dev is scored


def scores(tables: Tables) -> go.Figure:
    """The score of every way of adapting, the mean over seeds, with 95 % intervals. Hollow: a
    training was cut off by its maximum number of epochs. Cross: no better than the majority."""
    table = tables["means"]
    models, series = list(dict.fromkeys(table["model"])), ways(table)
    parts = []
    for task, rows in table.groupby("task", sort=False):
        shown = []
        for place, (name, own) in enumerate(_by_way(rows, series)):
            apart = (place - (len(series) - 1) / 2) / (len(series) + ROOM / SERIES)
            shown.append(
                marks(
                    own["value"],
                    [models.index(model) + apart for model in own["model"]],
                    "%{customdata[0]}: %{x:.4f}, from %{customdata[1]:.4f} to "
                    f"%{{customdata[2]:.4f}}<extra>{escaped(name)}</extra>",
                    name,
                    series[name]["color"],
                    symbols(own, series[name]["symbol"], "learned"),
                    9,
                    error_x=interval(own, "value"),
                    customdata=own[["model", "lower", "upper"]].to_numpy(dtype=object),
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
    return panels(parts, tall, y=y, hovermode="closest")


def _by_way(table: pd.DataFrame, series: Iterable[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each way, in an order that all panels share."""
    names = table.apply(way, axis=1)
    return ((name, table[names == name]) for name in series)


def cost(tables: Tables) -> go.Figure:
    """What the weights that learn buy: a mark a seed, of the rate that was chosen."""
    table = decided(tables)
    models, series = list(dict.fromkeys(table["model"])), ways(table)
    parts, axes = [], []
    for task, rows in table.groupby("task", sort=False):
        shown = [
            marks(
                own["trainable"],
                own["value"],
                "%{customdata[0]}, seed %{customdata[1]}: %{y:.4f}<br>%{x:,} weights learn, "
                "%{customdata[3]:.2f} MiB, %{customdata[2]:.1f} s"
                f"<extra>{escaped(name)}</extra>",
                name,
                series[name]["color"],
                [MARKS[models.index(model) % len(MARKS)] for model in own["model"]],
                9,
                customdata=own[["model", "seed", "seconds", "size"]].to_numpy(dtype=object),
            )
            for name, own in _by_way(rows, series)
        ]
        parts.append((task if table["task"].nunique() > 1 else "", shown))
        axes.append({"title": escaped(rows["metric"].iloc[0])})
    for place, model in enumerate(models if len(models) > 1 else ()):
        marker = {"color": GREY, "symbol": MARKS[place % len(MARKS)], "size": 9}
        parts[0][1].append(sign(model, marker=marker))
    x = {"title": "weights that learn", "type": "log", "dtick": 1}
    return panels(parts, 250, x=x, y=axes, shared=True, hovermode="closest")


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
    shown = [
        marks(
            own["value"],
            own["metric"],
            "%{y}: %{x:.4f}<extra>%{fullData.name}</extra>",
            f"seed {seed}",
            MANY[(place + 3) % len(MANY)],
            symbols(own, MARKS[place % len(MARKS)]),
            10,
        )
        for place, (seed, own) in enumerate(table.groupby("seed", sort=False))
    ]
    lowest = float(np.nanmin(table["value"], initial=0.0))
    return plot(
        shown,
        140 + 44 * table["metric"].nunique(),
        {"rangemode": "tozero" if lowest >= 0 else "normal"},
        DOWN,
        showlegend=True,
        hovermode="closest",
    )


# --- one table of all figures ---------------------------------------------------------------------

FEW = 6  # models beside each other whose cells have all three numbers
PALE = 2.0  # a scale this much too wide: no cell is so dark that one cannot read what it says
ROW = 64  # pixels of a task


def delta(tables: Tables) -> go.Figure:
    """What fine-tuning wins over the frozen model under the same head, by task and model: ❄ frozen,
    → tuned, Δ between them. Bold where the 95 % interval of Δ leaves out 0, else with a dot."""
    table = tables["delta"]
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    top = PALE * largest(table["delta"])
    parts = []
    for method, own in table.groupby("method", sort=False):
        wide = matrix(own["task"], own["model"], own["delta"]).reindex(index=tasks, columns=models)
        cells = heat_map(wide, gap=3, zmin=-top, zmax=top, showscale=False)
        sure = (own["lower"] > 0) | (own["upper"] < 0)
        words = [
            _cells(some, known, len(models))
            for some, known in ((own[sure], True), (own[~sure], False))
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


def _cells(own: pd.DataFrame, sure: bool, models: int) -> go.Scatter:
    """What stands in cells, and what one reads when pointing at them."""
    change = "Δ %{customdata[2]:+.2f}"
    change = f"<b>{change}</b>" if sure else f"{change} ·"
    both = "❄ %{customdata[0]:.2f}<br>→ %{customdata[1]:.2f}<br>"
    columns = ["frozen", "tuned", "delta", "lower", "upper", "p_value", "metric", "strong"]
    return marks(
        own["model"],
        own["task"],
        "<b>%{y}, %{x}</b>: %{customdata[6]}<br>frozen %{customdata[0]:.4f}, tuned "
        "%{customdata[1]:.4f}<br>Δ %{customdata[2]:+.4f}, 95 % from %{customdata[3]:+.4f} to "
        "%{customdata[4]:+.4f}<br>p = %{customdata[5]:.3g}<br>frozen under an LSTM "
        "%{customdata[7]:.4f}",
        mode="text",
        customdata=own[columns].to_numpy(dtype=object),
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
