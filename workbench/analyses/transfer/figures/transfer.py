"""Figures of fine-tuning: learning curves, scores, costs, and the gain over frozen models.

Pure functions of the tables of `finetune` and `frozen-vs-finetuned`. Costs: milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.transfer.findings import ERROR, significant
from workbench.core.findings import Tables
from workbench.core.metrics import spelt
from workbench.drawing.primitives import (
    DOWN,
    LINE,
    Draw,
    Look,
    Trace,
    band,
    curve,
    interval,
    marks,
    panels,
    plot,
    spaced,
    symbols,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import (
    BASELINE,
    CONTROL,
    DASHES,
    MANY,
    MARKS,
    MODEL,
    NOT_SIGNIFICANT,
    SERIES,
    TUNED,
)

# --- learning curves ------------------------------------------------------------------------------
#
# Loss by step and dev score by epoch of every training, and the colours and marks of methods.
#
# Pure functions of the tables `learning` and `epochs`. Costs: milliseconds.

TRAINING = ["model", "method", "head", "learning_rate"]  # of trainings that differ by seed
KNOWN = {  # methods with a fixed colour
    "frozen": MODEL,
    "frozen, LSTM": CONTROL,
    "fine-tuned": TUNED,
    "fine-tuned, text": SERIES[4],
}
OTHERS = (*SERIES[2:4], *MANY)


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
    """Training loss of each step: mean over seeds.

    How to read: the band has the losses of all seeds; a colour is a method, or with one method a
    learning rate; pale: rates that were only tried. Where trainings ended early, the mean is of
    those that go on.
    """
    return _lines(tables, "learning", "step", "loss", "training loss")


def epochs(tables: Tables) -> go.Figure:
    """Dev score after each epoch, by the metric that selects the learning rate: mean over seeds.

    How to read: the band has the scores of all seeds; a colour is a method, or with one method a
    learning rate; pale: rates that were only tried; hollow: dev was best in the last of max_epochs.
    A linear head over a frozen model has no epochs: alone, it has one mark per ridge strength, at
    its optimum, by the passes over train.
    """
    return _lines(tables, "epochs", "epoch", "value", "dev score")


def _lines(tables: Tables, name: str, x: str, y: str, title: str) -> go.Figure:
    """One panel per task; for each method, or with one method each learning rate, the mean over
    seeds with a band of their range. With several methods, rates that were tried only are pale."""
    table, marked = tables[name], name == "epochs"
    trained = table[table["learning_rate"] > 0]
    table = trained if len(trained) else table
    used = tables.get("scores", table)
    selected = set(used[["task", *TRAINING]].itertuples(index=False, name=None))
    series = ways(table)
    rates = sorted(set(table["learning_rate"])) if len(series) == 1 else []
    models = list(dict.fromkeys(table["model"]))
    parts: list[tuple[str, list[go.Scatter]]] = []
    for task, rows in table.groupby("task", sort=False):
        lines = []
        for (model, method, head, rate), runs in rows.groupby(TRAINING, sort=False):
            name = way({"method": method, "head": head})
            colour = series[name]["color"]
            if len(rates) > 1:
                name = f"learning rate {rate:g}"
                colour = [*SERIES, *MANY][rates.index(rate) % (len(SERIES) + len(MANY))]
            is_used = len(rates) > 1 or (task, model, method, head, rate) in selected
            runs = runs.assign(converged=runs.get("converged", True))
            mean = runs[runs[y].notna()].groupby(x).agg(
                mean=(y, "mean"), low=(y, "min"), high=(y, "max"), seeds=(y, "size"),
                converged=("converged", "all"),
            )  # fmt: skip
            index = models.index(model)
            if is_used and mean["seeds"].max() > 1 and rate:
                ends = mean["low"].tolist(), mean["high"].tolist()
                lines.append(band(mean.index.tolist(), *ends, colour, escaped(name)))
            lines.append(
                curve(
                    mean.index,
                    mean["mean"],
                    "%{customdata[0]}, learning rate %{customdata[1]}, %{customdata[2]} seeds"
                    f"<br>{x} %{{x}}: {title} %{{y:.4f}} (%{{customdata[3]:.4f}} to "
                    f"%{{customdata[4]:.4f}})<extra>{escaped(name)}</extra>",
                    name if is_used else None,
                    index,
                    colour,
                    {"symbol": symbols(mean, MARKS[index % len(MARKS)]), "size": 6},
                    {"width": 1.75, "dash": DASHES[index % len(DASHES)]},
                    mode="markers"
                    if not rate
                    else "lines+markers"
                    if marked and is_used
                    else "lines",
                    opacity=1.0 if is_used else 0.3,
                    customdata=[
                        [model, f"{rate:g}", row.seeds, row.low, row.high]
                        for row in mean.itertuples()
                    ],
                )
            )
        parts.append((str(task), lines))
    parts = parts if len(parts) > 1 else [("", lines) for _, lines in parts]
    is_short = len(table) and table[x].max() <= (20 if x == "epoch" else 8)
    return panels(
        parts or [("", [])],
        280,
        x={"title": x, "dtick": 1 if is_short else None},
        y={"title": title},
        hovermode="closest",
    )


# --- scores ---------------------------------------------------------------------------------------
#
# Scores of every method with intervals, their costs, and scores of each seed.
#
# Pure functions of the tables of `finetune` and `frozen-vs-finetuned`. Costs: milliseconds.

ROW, FEW = 24, 3  # pixels of a method; maximum panels in a row
CUT = "part of train"  # the split that selects the learning rate if dev is scored


def rows_of(names: Sequence[str], above: float = 0.6) -> Look:
    """An axis with these names from top to bottom, with room above the first."""
    return {
        "type": "category", "categoryorder": "array", "categoryarray": names, "showgrid": False,
        "fixedrange": True, "range": [len(names) - 0.4, -above],
    }  # fmt: skip


def scores(tables: Tables) -> go.Figure:
    """Score on the scored texts (metric × 100): mean over seeds, 95 % interval (texts and seeds).

    How to read: grey line: the majority baseline, which is named above where it is far below;
    cross: not significantly better than it; hollow: dev was best in the last of max_epochs.
    """
    table = tables["means"]
    series = ways(table)
    several = table["model"].nunique() > 1
    parts = []
    for (task, metric), rows in table.groupby(["task", "metric"], sort=False):
        names = rows.apply(way, axis=1)
        labels = names + (", " + rows["model"] if several else "")
        points = _hundred(rows, ["value", "lower", "upper"])
        majority = 100 * float(rows["baseline"].iloc[0])
        is_far = is_far_below(majority, points)
        shown = [
            *([] if is_far else _constant(majority, labels)),
            *(
                marks(
                    part["value"],
                    labels[part.index],
                    "%{y}: %{x:.1f}, 95 % interval %{customdata[0]:.1f} to %{customdata[1]:.1f}",
                    colour=series[name]["color"],
                    symbol=symbols(part, "circle", "learned"),
                    size=9,
                    error_x=interval(part, "value"),
                    customdata=part[["lower", "upper"]].to_numpy(),
                )
                for name, part in points.groupby(names, sort=False)
            ),
        ]
        named = f" (majority baseline: {majority:.1f})" if is_far else ""
        parts.append((f"{task}, {spelt(metric)}{named}", shown))
    tall = ROW * int(table.groupby("task").size().max())
    y = rows_of(_labels(table, several))
    return panels(
        parts, tall, min(FEW, len(parts)) if not several else 1, x={"title": "score"}, y=y,
        top=4, apart=0.45, hovermode="closest",
    )  # fmt: skip


def _labels(table: pd.DataFrame, several: bool) -> list[str]:
    labels = table.apply(way, axis=1) + (", " + table["model"] if several else "")
    return (
        sorted(dict.fromkeys(labels), key=lambda name: name.rpartition(", ")[2])
        if several
        else [*dict.fromkeys(labels)]
    )


def _hundred(rows: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    return rows.assign(**{name: 100 * rows[name] for name in columns})


def is_far_below(baseline: float, points: pd.DataFrame) -> bool:
    """Whether an axis down to the baseline would press the scores together."""
    low, high = float(points["lower"].min()), float(points["upper"].max())
    return baseline < low - 2 * (high - low)


def _constant(at: float, labels: "pd.Series[str]") -> list[Trace]:
    """A grey line at the score of the majority."""
    return [
        curve(
            [at, at],
            [labels.iloc[0], labels.iloc[-1]],
            f"majority baseline: {at:.1f}",
            colour=BASELINE,
            marker={"symbol": "line-ns", "size": 12},
            line={"width": 2, "dash": "solid"},
        )
    ]


TALL = 230  # pixels of a panel


def cost(tables: Tables) -> go.Figure:
    """Score (metric × 100) by number of trained weights, on a logarithmic axis.

    How to read: one mark per seed at the selected learning rate; the higher and the further left a
    method is, the better and the cheaper.
    """
    table = decided(tables)
    series = ways(table)
    several = table["model"].nunique() > 1
    parts, axes = [], []
    for (task, model), rows in table.groupby(["task", "model"], sort=False):
        points = _hundred(rows, ["value"])
        names = points.apply(way, axis=1)
        shown = [
            marks(
                part["trainable"],
                part["value"],
                "seed %{customdata[0]}: %{y:.1f}<br>%{x:,} trained weights, %{customdata[2]:.2f} "
                f"MiB, %{{customdata[1]:.1f}} s of training<extra>{escaped(name)}</extra>",
                colour=series[name]["color"],
                symbol=symbols(part, series[name]["symbol"]),
                size=9,
                customdata=part[["seed", "seconds", "size"]].to_numpy(dtype=object),
            )
            for name, part in points.groupby(names, sort=False)
        ]
        shown.append(_beside(points.assign(name=names), TALL))
        title = f"{task}, {model}" if several else str(task)
        parts.append((title if len(table[["task", "model"]].drop_duplicates()) > 1 else "", shown))
        axes.append({"title": f"{escaped(spelt(rows['metric'].iloc[0]))} × 100"})
    low, high = np.log10(table["trainable"].min()), np.log10(table["trainable"].max())
    edge = 0.1 * max(1.0, high - low)
    x = {
        "title": "number of trained weights", "type": "log", "dtick": 1,
        "range": [low - edge, high + 4 * edge],
    }  # fmt: skip
    return panels(
        parts, TALL, 2 if len(parts) > 1 else 1, x=x, y=axes, apart=0.24, top=4, showlegend=False,
        hovermode="closest",
    )  # fmt: skip


def _beside(points: pd.DataFrame, tall: float) -> Trace:
    """The name of each method to the right of its marks, where names do not overlap."""
    tops = points.groupby("name", sort=False)[["trainable", "value"]].max()
    low, high = float(points["value"].min()), float(points["value"].max())
    scale = tall / (1.15 * (high - low) or 1)
    wanted = [(float(value) - low) * scale for value in tops["value"]]
    places = spaced(wanted, [LINE] * len(wanted), tall)
    return marks(
        tops["trainable"],
        [low + place / scale for place in places],
        "",
        mode="text",
        text=[f"   {name}" for name in tops.index],
        textposition="middle right",
        textfont={"size": 12},
        hoverinfo="skip",
    )


def costs(tables: Tables) -> pd.DataFrame:
    """Cost of each method: means over seeds, at the selected learning rate; weights are whole."""
    table = decided(tables)
    table = table.assign(method=table.apply(way, axis=1), metric=table["metric"].map(spelt))
    numbers = ["value", "trainable", "size", "seconds", "peak_memory"]
    ways_of = ["task", "model", "method", "metric"]
    means: pd.DataFrame = table.groupby(ways_of, sort=False)[numbers].mean().reset_index()
    means["value"] = (100 * means["value"]).round(1)
    means["trainable"] = means["trainable"].round().astype(int)
    return means.rename(
        columns={
            "value": "score × 100",
            "trainable": "trained weights",
            "size": "size, MiB",
            "peak_memory": "peak memory, MiB",
        }
    )


def decided(tables: Tables) -> pd.DataFrame:
    """Scores on the scored split, by the metric that selects the learning rate."""
    metric = tables["epochs"][["task", "metric"]].drop_duplicates()
    return _scored(tables["scores"]).merge(metric, on=["task", "metric"])


def _scored(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the scored split: not dev, or if dev was scored, not the part of train."""
    cut = table.groupby("task")["split"].transform(lambda splits: CUT in set(splits))
    return table[(table["split"] != "dev").where(~cut, table["split"] != CUT)]


def by_seed(tables: Tables) -> go.Figure:
    """Score of each seed on the scored texts (metric × 100).

    How to read: one mark per seed; bar: 95 % interval of the mean over texts and seeds, of the
    metric that selects the learning rate; grey line: a constant prediction, the majority of train;
    hollow: dev was best in the last of max_epochs.
    """
    table = _scored(tables["scores"])
    others = table[table["metric"] != ERROR]
    scale, table = (100, others) if len(others) else (1, table)
    colour = MODEL if (table["method"] == "frozen").all() else TUNED
    shown = [
        marks(
            scale * rows["value"],
            rows["metric"],
            "%{y}, seed %{customdata}: %{x:.1f}",
            colour=colour,
            symbol=symbols(rows, MARKS[index % len(MARKS)]),
            size=10,
            customdata=rows["seed"],
        )
        for index, (_, rows) in enumerate(table.groupby("seed", sort=False))
    ]
    first = table.drop_duplicates("metric")
    shown.append(
        marks(
            scale * first["baseline"],
            first["metric"],
            "%{y}, constant prediction: %{x:.1f}",
            colour=BASELINE,
            symbol="line-ns-open",
            size=20,
            marker={"line": {"width": 3, "color": BASELINE}},
        )
    )
    if tables["means"]["metric"].isin(table["metric"]).all():
        means = (
            _hundred(tables["means"], ["value", "lower", "upper"]) if scale > 1 else tables["means"]
        )
        shown.append(
            marks(
                means["value"],
                means["metric"],
                "%{y}, mean over seeds: %{x:.1f}, 95 % interval %{customdata[0]:.1f} to "
                "%{customdata[1]:.1f}",
                colour=colour,
                symbol="line-ns",
                size=12,
                error_x={**interval(means, "value"), "thickness": 2},
                customdata=means[["lower", "upper"]].to_numpy(),
            )
        )
    return plot(
        shown,
        110 + 44 * table["metric"].nunique(),
        {"title": "score"},
        {**DOWN, "categoryorder": "array", "categoryarray": [*dict.fromkeys(table["metric"])]},
        showlegend=False,
        hovermode="closest",
    )


# --- the gain of adaptation by task and model -----------------------------------------------------

GAIN = 40  # pixels of a task


def delta(tables: Tables) -> go.Figure:
    """Gain over the frozen model under the same head, in points (metric × 100); 95 % intervals.

    How to read: right of 0, the frozen model is worse; grey: not significant after Holm's
    correction; above each mark: the score of the frozen → of the trained model.
    """
    table = tables["delta"]
    points = _hundred(table, ["frozen", "tuned", "delta", "lower", "upper", "strong"])
    several = table["method"].nunique() > 1
    labels = table["task"] + (", " + table["method"] if several else "")
    sure = significant(table)
    parts = []
    for model, rows in points.groupby("model", sort=False):
        colours = [TUNED if sure[index] else NOT_SIGNIFICANT for index in rows.index]
        shown = marks(
            rows["delta"],
            labels[rows.index],
            "%{y}: %{customdata[5]}<br>frozen %{customdata[0]:.1f}, trained %{customdata[1]:.1f}"
            "<br>Δ %{x:+.1f}, 95 % interval %{customdata[2]:+.1f} to %{customdata[3]:+.1f}<br>"
            "p = %{customdata[4]:.3g}, uncorrected<br>frozen under an LSTM %{customdata[6]:.1f}",
            symbol=["circle" if done else "circle-open" for done in rows["converged"]],
            colour=colours,
            size=10,
            marker={"line": {"width": 2, "color": colours}},
            error_x={**interval(rows, "delta"), "color": BASELINE},
            customdata=rows[
                ["frozen", "tuned", "lower", "upper", "p_value", "metric", "strong"]
            ].to_numpy(dtype=object),
            mode="markers+text",
            text=[
                f"{before:.1f} → {after:.1f}"
                for before, after in zip(rows["frozen"], rows["tuned"], strict=True)
            ],
            textposition="top center",
            cliponaxis=False,
            textfont={"size": 12},
        )
        parts.append((model if table["model"].nunique() > 1 else "", [shown]))
    x = {
        "title": "Δ, points",
        "zeroline": True,
        "zerolinewidth": 1.5,
        "matches": "x",
        "rangemode": "tozero",
    }
    order = [*dict.fromkeys(labels)]
    y = rows_of(order, 0.75)
    return panels(
        parts, GAIN * len(order) + 10, min(FEW, len(parts)), x=x, y=y, top=4, apart=0.3,
        showlegend=False, hovermode="closest",
    )  # fmt: skip


FINETUNE: Mapping[str, Draw] = {"scores": by_seed, "learning": learning, "epochs": epochs}
FROZEN_VS_FINETUNED: Mapping[str, Draw] = {
    "delta": delta,
    "scores": scores,
    "cost": cost,
    "epochs": epochs,
}
