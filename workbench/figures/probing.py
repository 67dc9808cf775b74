"""Figures of edge probing and of description length.

Pure functions of the tables of `edge-probing` and `description-length`. Each task has its own
panel, so one colour works on light and dark pages; probes and stacks differ by dash and mark.
Published scores are shipped as a table, which `published` reads. Costs: milliseconds.
"""

from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from workbench.figures.primitives import (
    CELLS,
    DOWN,
    NOT_LEARNED,
    Look,
    Tables,
    Trace,
    bars,
    choice,
    curve,
    heat_map,
    interval,
    marks,
    matrix,
    panels,
    plot,
    symbols,
    tick,
)
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, EITHER, MARKS

BASELINES = {
    "majority": "baseline_majority",
    "static vectors": "baseline_static",
    "random weights": "baseline_random",
    "no positions": "baseline_no_positions",
}  # name in the figure: column of the summary
SOURCE = "Tenney, Das and Pavlick 2019, micro-F1 of the cumulative probe"
MIXED, GREY = COLOURS["light"][1], COLOURS["light"][4]  # visible on light and dark pages
PANELS = 2  # in a row
SINGLE = ("layer", "lexical", "top")  # modes that read one layer
PROBE = ["probe", "stack"]  # columns that distinguish the lines of one task
_MODES = {"layer": "single layer", "cumulative": "mix up to layer"}


def curves(tables: Tables) -> go.Figure:
    """Probe F1 at each layer, from that layer alone and from a learned mix of the layers up to it.
    Error bars: 95 % bootstrap intervals. The scale differs between tasks. Hollow marks: the probe
    was still improving at the maximum number of epochs. Thin crosses: the probe did not learn the
    task (its score is below the majority baseline or its own control task)."""
    model = true(tables["means"])

    def lines(rows: pd.DataFrame) -> list[Trace]:
        return [
            _line(line, _named(_MODES[mode], key, model), 2 * index + (mode != "layer"), colour)
            for mode, colour in (("layer", EITHER), ("cumulative", MIXED))
            for index, (key, line) in enumerate(
                rows[rows["mode"] == mode].groupby(PROBE, sort=False)
            )
        ]

    return _by_task(model, lines)


def selectivity(tables: Tables) -> go.Figure:
    """Probe F1 at each layer, on the task and on its control task (random labels by word type).
    The difference is the selectivity. A large difference means that the score shows what the layer
    encodes, not what the probe memorises. Error bars: 95 % bootstrap intervals."""
    means = whole(tables["means"])
    layers = means[(means["encoder"] == "model") & (means["mode"] == "layer")]
    if not layers["control"].any():
        raise KeyError("a control task")

    def lines(rows: pd.DataFrame) -> list[Trace]:
        return [
            _line(line, _named(name, key, layers), 2 * index + control, colour)
            for control, name, colour in ((False, "task", EITHER), (True, "control task", GREY))
            for index, (key, line) in enumerate(
                rows[rows["control"] == control].groupby(PROBE, sort=False)
            )
        ]

    return _by_task(layers, lines)


def baselines(tables: Tables) -> go.Figure:
    """F1 of the best layer of each task, with its baselines: layer 0, majority, static vectors,
    random weights, and embeddings without positions."""
    summary = tables["summary"]
    names = _names(summary)
    columns = {"best layer": "best_score", "layer 0": "baseline_lexical", **BASELINES}
    available = {n: column for n, column in columns.items() if summary[column].notna().any()}
    traces = [
        marks(
            summary[column],
            names,
            f"%{{y}}, {name}: %{{x:.1%}}",
            name,
            EITHER if name == "best layer" else GREY,
            MARKS[index % len(MARKS)],
            10,
        )
        for index, (name, column) in enumerate(available.items())
    ]
    x = {"title": "F1", "tickformat": ".0%"}
    return plot(traces, 140 + 36 * max(len(names), 1), x, DOWN)


def pipeline(tables: Tables) -> go.Figure:
    """Layers that encode each task, in the order of the published pipeline. Expected layer: from
    the gains of the mixes up to each layer. Centre of gravity: from the weights of the mix of all
    layers. Next to the task names: F1 from layer 0 → from all layers. An expected layer is not
    clipped; if the curve falls, it may be outside the layers."""
    summary = tables["summary"]
    columns = ["expected_layer", "centre_of_gravity"]
    if summary[columns].isna().all(axis=None):
        raise KeyError("mixes of layers")
    rows = first_probe(summary)
    names = with_scores(rows, tables["means"])
    traces = []
    for column, colour in zip(columns, (EITHER, GREY), strict=True):
        name = column.replace("_", " ")
        traces.append(
            bars(
                rows[column].fillna(0),
                names,
                f"%{{y}}, {name}: %{{text}}",
                name,
                colour,
                text=["undefined" if pd.isna(value) else f"{value:.2f}" for value in rows[column]],
                textposition="outside",
                cliponaxis=False,
            )
        )
    x = {"title": "layer", "range": _room(rows[columns].to_numpy(dtype=float))}
    look: Look = {"barmode": "group", "bargap": 0.3, "legend": {"traceorder": "normal"}}
    return plot(traces, 140 + 52 * max(len(rows), 1), x, DOWN, **look)


def mixes(tables: Tables) -> go.Figure:
    """Weight of each layer in the learned mix of all layers, mean over seeds. Next to the names:
    the centre of gravity, which is the mean layer under these weights."""
    mean = tables["mix"].groupby(["task", *PROBE, "layer"], sort=False)["weight"].mean()
    table = mean.reset_index()
    if table.empty:
        raise KeyError("mixes of layers")
    wide = matrix(_names(table), table["layer"], table["weight"])
    centres = (wide * wide.columns.to_numpy(dtype=float)).sum(axis=1) / wide.sum(axis=1)
    wide.index = [f"{name}  {centre:.2f}" for name, centre in centres.items()]
    top = float(wide.to_numpy().max())
    hover = "%{y}, layer %{x}: %{z:.3f}"
    return plot(
        [heat_map(wide, hover, "weight", "%{z:.2f}", zmin=0, zmax=top)],
        160 + 32 * len(wide),
        {**CELLS, "title": "layer", "dtick": tick(len(wide.columns))},
        {**CELLS, **DOWN},
    )


def confusions(tables: Tables) -> go.Figure:
    """Predicted labels for each gold label at the best layer, as shares of the gold label."""
    confusion, summary = tables["confusion"], tables["summary"]
    confusion = confusion[confusion["mode"].isin(SINGLE)]
    parts = []
    for row, name in zip(summary.to_dict("records"), _names(summary), strict=True):
        key = [row["task"], row["probe"], row["stack"], row["best_layer"]]
        counts = confusion[(confusion[["task", *PROBE, "layer"]] == key).all(axis=1)]
        if len(counts):
            parts.append((f"{name}, layer {row['best_layer']}", [confusion_map(counts)]))
    if not parts:
        raise KeyError("one label per target")
    return choice(parts, **_square(20), margin={"t": 64 if len(parts) > 1 else 32})


def confusion_of(counts: pd.DataFrame) -> go.Figure:
    """One confusion matrix; its height depends on the number of labels."""
    return plot([confusion_map(counts)], **_square(len({*counts["gold"], *counts["predicted"]})))


def confusion_map(counts: pd.DataFrame) -> go.Heatmap:
    """A confusion matrix, with counts as shares of each gold label."""
    wide = counts.pivot_table(
        index="gold", columns="predicted", values="n", aggfunc="sum", fill_value=0
    )
    order = list(dict.fromkeys([*wide.index, *wide.columns]))
    wide = wide.reindex(index=order, columns=order, fill_value=0)
    hover = "%{y} predicted as %{x}: %{customdata} (%{z:.1%})"
    shares = wide.div(wide.sum(axis=1).clip(lower=1), axis=0)
    look: Look = {"tickformat": ".0%", "gap": 1, "zmin": 0, "zmax": 1}
    return heat_map(shares, hover, "share", customdata=wide.to_numpy(), **look)


def _square(labels: int) -> dict[str, Any]:
    """Height and axes of a confusion matrix with this number of labels."""
    return {
        "height": 180 + 20 * max(labels, 6),
        "x": {**CELLS, "title": "predicted label", "type": "category", "tickangle": -60},
        "y": {**CELLS, **DOWN, "title": "gold label"},
    }


def learning(tables: Tables) -> go.Figure:
    """F1 of the best layer for different shares of the training targets (logarithmic axis). Error
    bars: 95 % bootstrap intervals."""
    means = tables["means"]
    model = means[(means["encoder"] == "model") & ~means["control"] & (means["mode"] == "layer")]
    if model["share"].nunique() < 2:
        raise KeyError("several shares")

    def lines(rows: pd.DataFrame) -> list[Trace]:
        return [
            _line(
                line.loc[line.groupby("share")["mean"].idxmax()].sort_values("share"),
                _named("best layer", key, model),
                index,
                EITHER,
                "share",
            )
            for index, (key, line) in enumerate(rows.groupby(PROBE, sort=False))
        ]

    return _by_task(model, lines, title="share of training targets", tickformat=".0%", type="log")


# --- parts of the figures -------------------------------------------------------------------------


def whole(means: pd.DataFrame) -> pd.DataFrame:
    """Rows of probes trained on all targets."""
    largest: pd.DataFrame = means[means["share"] == means["share"].max()]
    return largest


def true(means: pd.DataFrame) -> pd.DataFrame:
    """Rows of the model's probes on the true labels, trained on all targets."""
    rows = whole(means)
    true_rows: pd.DataFrame = rows[(rows["encoder"] == "model") & ~rows["control"]]
    return true_rows


@cache
def published() -> pd.DataFrame:
    """Published curves of BERT-base and BERT-large: task, model, layer, F1 (0 to 1)."""
    text = files("workbench.figures").joinpath("published", "tenney2019.csv")
    with text.open("r", encoding="utf-8") as file:
        table = pd.read_csv(file, comment="#")
    return table.assign(f1=table["f1"] / 100)


def _room(ends: NDArray[np.float64]) -> list[float]:
    """Range from zero (or the lowest bar) to the longest bar, with room for the numbers."""
    low, high = min(0.0, float(np.nanmin(ends))), max(0.0, float(np.nanmax(ends)))
    room = 0.28 * max(high - low, 0.1)
    return [low - room if low else 0.0, high + room]


def first_probe(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first kind of probe."""
    rows: pd.DataFrame = summary[summary["probe"] == summary["probe"].iloc[0]]
    return rows


def with_scores(rows: pd.DataFrame, means: pd.DataFrame) -> list[str]:
    """Task names with F1 from layer 0 and from a mix of all layers."""
    model = true(means)
    mixed = model[model["mode"] == "cumulative"].sort_values("layer")
    tops = mixed.groupby(["task", *PROBE], sort=False)["mean"].last().to_dict()
    names = []
    for r, name in zip(rows.to_dict("records"), _names(rows), strict=True):
        top = tops.get((r["task"], r["probe"], r["stack"]), r["best_score"])
        names.append(f"{name}  {100 * r['baseline_lexical']:.1f} → {100 * top:.1f}")
    return names


def _by_task(
    table: pd.DataFrame, lines: Callable[[pd.DataFrame], list[Trace]], **axis: object
) -> go.Figure:
    """One panel per task."""
    parts = [(task, lines(rows)) for task, rows in table.groupby("task", sort=False)]
    default = {} if axis else {"title": "layer", "dtick": tick(table["layer"].max())}
    x = {**default, **axis, "zeroline": False}
    return panels(
        parts, 190, PANELS, x=x, y={"title": "F1", "tickformat": ".1~%", "zeroline": False}
    )


def _line(line: pd.DataFrame, name: str, index: int, colour: str, x: str = "layer") -> go.Scatter:
    return curve(
        line[x],
        line["mean"],
        f"{escaped(name)}, %{{x}}: %{{y:.1%}}%{{text}}",
        name,
        index,
        colour,
        markers(line, MARKS[index % len(MARKS)]),
        error_y=interval(line, "mean"),
        text=remarks(line),
    )


def markers(line: pd.DataFrame, mark: str) -> Look:
    """Marks of a curve: hollow for unconverged probes, thin crosses if they did not learn."""
    mark_symbols = symbols(line, mark)
    widths = [2 if symbol == NOT_LEARNED else 1.5 for symbol in mark_symbols]
    return {"symbol": mark_symbols, "size": 8, "line": {"width": widths}}


def remarks(line: pd.DataFrame) -> list[str]:
    """Hover text of each point in addition to its value."""
    texts = {
        NOT_LEARNED: ", did not learn the task",
        "": "",
        "-open": ", still improving at the end",
    }
    return [texts[symbol] for symbol in symbols(line, "")]


def _names(table: pd.DataFrame) -> list[str]:
    """Task name of each row, with probe and stack if there are several."""
    rows = table[["task", *PROBE]].itertuples(index=False)
    return [_named(task, key, table) for task, *key in rows]


def _named(what: object, key: Iterable[object], table: pd.DataFrame) -> str:
    """A name, with its probe and stack if there are several."""
    details = [
        str(part) for part, name in zip(key, PROBE, strict=True) if table[name].nunique() > 1
    ]
    return ", ".join([str(what), *details])


FIGURES = {
    "curves": curves,
    "pipeline": pipeline,
    "baselines": baselines,
    "selectivity": selectivity,
    "mixes": mixes,
    "confusions": confusions,
    "learning": learning,
}


# --- description length ---------------------------------------------------------------------------
#
# Compression by layer, baselines, and bits per block of the online code.

ACROSS = 3  # panels in a row
CONTROL = ", control task"
CODE_BASELINES = {
    "best layer": "compression",
    "layer 0": "baseline_lexical",
    "no positions": "baseline_no_positions",
    "static vectors": "baseline_static",
    "random weights": "baseline_random",
    "control task": "control_compression",
}


def compression(tables: Tables) -> go.Figure:
    """Compression at each layer: length of the uniform code divided by that of the code, mean over
    seeds. Grey: control task (random labels by word type). At 1, the code is as long as the uniform
    code; below 1, it is longer."""
    table = tables["codes"]
    rows_of_model = table[table["encoder"] == "model"]
    lines = list(dict.fromkeys(zip(rows_of_model["code"], rows_of_model["stack"], strict=True)))
    several = rows_of_model["stack"].nunique() > 1
    parts = []
    for task, rows in rows_of_model.groupby("task", sort=False):
        traces = []
        for (code, stack, control), line in rows.groupby(["code", "stack", "control"], sort=False):
            mean = line.groupby("layer")["compression"].mean()
            name = (f"{code}, {stack}" if several else str(code)) + (CONTROL if control else "")
            traces.append(_code(mean, name, lines.index((code, stack)), bool(control)))
        parts.append((task, traces))
    x = {"title": "layer", "dtick": tick(rows_of_model["layer"].max())}
    return panels(parts, 190, ACROSS, x=x, y={"title": "compression", "rangemode": "tozero"})


def code_baselines(tables: Tables) -> go.Figure:
    """Compression of the best layer of each task, with its baselines and its control task (random
    labels by word type). Error bars: 95 % bootstrap intervals over sentences and seeds."""
    table = tables["summary"]
    several = table["stack"].nunique() > 1
    colours = (EITHER, *COLOURS["light"][1:])
    parts = []
    for code, rows in table.groupby("code", sort=False):
        pairs = zip(rows["task"], rows["stack"], strict=True)
        names = [f"{task}, {stack}" if several else str(task) for task, stack in pairs]
        traces = [
            bars(
                rows[column],
                names,
                f"%{{x}}, {name}: %{{y:.2f}}",
                name,
                colours[index % len(colours)],
                upright=True,
                spread=interval(rows, column) if column == "compression" else None,
            )
            for index, (name, column) in enumerate(CODE_BASELINES.items())
            if rows[column].notna().any()
        ]
        parts.append((code, traces))
    y = {"title": "compression", "rangemode": "tozero"}
    return panels(parts, 230, y=[y] * len(parts), barmode="group")


def blocks(tables: Tables) -> go.Figure:
    """Bits per target in each block of the online code. The horizontal axis is the share of targets
    sent up to the end of the block. Lines: the layer with the highest compression, layer 0, random
    weights, and the control task. The first block uses the uniform code."""
    table, summary = tables["portions"], tables["summary"]
    if table.empty:
        raise KeyError("portions")
    parts = []
    for task, rows in table.groupby("task", sort=False):
        traces: list[Trace] = []
        best = summary[(summary["task"] == task) & (summary["code"] == "online")]
        for stack, layer in zip(best["stack"], best["best_layer"], strict=True):
            of_stack = rows[rows["stack"] == stack]
            model = of_stack[of_stack["encoder"] == "model"]
            ends = f", {stack}" if summary["stack"].nunique() > 1 else ""
            lines = {
                "best layer": model[(model["layer"] == layer) & ~model["control"]],
                "layer 0": model[(model["layer"] == 0) & ~model["control"]],
                "random weights": of_stack[of_stack["encoder"] == "random"],
                "control task": model[(model["layer"] == layer) & model["control"]],
            }
            for index, (what, line) in enumerate(lines.items()):
                sums = line.groupby("portion")[["bits", "targets"]].sum()
                if len(sums):
                    each = sums["bits"] / sums["targets"]
                    traces.append(_code(each, f"{what}{ends}", index, index > 1))
        parts.append((task, traces))
    x = {"title": "share of targets sent", "type": "log", "dtick": 1, "tickformat": ".3~%"}
    return panels(parts, 190, ACROSS, x=x, y={"title": "bits per target", "rangemode": "tozero"})


def _code(values: pd.Series, name: str, index: int, is_grey: bool) -> go.Scatter:
    hover = f"{escaped(name)}, %{{x}}: %{{y:.2f}}"
    return curve(values.index, values, hover, name, index, GREY if is_grey else EITHER)


DESCRIPTION_LENGTH_FIGURES = {
    "compression": compression,
    "beside": code_baselines,
    "blocks": blocks,
}
