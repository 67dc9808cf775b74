"""Figures of edge probing and of description length.

Pure functions of the tables of `edge-probing` and `description-length`. Each task has its own
panel and scale; the model has one colour, its stacks differ by dash, and what it is
compared with is grey. Published scores are shipped as a table, which `published` reads. Costs:
milliseconds.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.colors import hex_to_rgb

from workbench.core.findings import Tables, decimal, percent_span
from workbench.core.head_names import EMBEDDINGS, state_name
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    NOT_LEARNED,
    STATE,
    Look,
    Trace,
    at_data,
    band,
    bars,
    choice,
    curve,
    drawable,
    heat_map,
    interval,
    level,
    marks,
    matrix,
    name_beyond,
    panels,
    plot,
    state_axis,
    state_cells,
    symbols,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, CONTROL, MARKS, MODEL

BASELINES = {
    "majority": "baseline_majority",
    "static vectors": "baseline_static",
    "random weights": "baseline_random",
    "no positions": "baseline_no_positions",
}  # name in the figure: column of the summary
WITHOUT_MODEL = ("majority", "static vectors", "random weights")  # no layer of the trained model
SOURCE = "Tenney, Das and Pavlick 2019, micro-F1 of the cumulative probe"
PALE = f"rgba{(*hex_to_rgb(MODEL), 0.45)}"  # a second number of the model
PANELS = 4  # in a row
SINGLE = ("layer", "lexical", "top")  # modes that read one layer
PROBE = ["probe", "stack"]  # columns that distinguish the lines of one task
F1: Look = {"title": "F1", "tickformat": ".0%", "zeroline": False}


def curves(tables: Tables) -> go.Figure:
    """F1 of the probes at each layer.

    How to read: a point reads one layer; on a line "mix up to layer", a mix of the layers up to it.
    A band is a 95 % bootstrap interval; grey is the best baseline without the trained model, and,
    if there is one, a control task with random labels, a baseline too; ↓ is one below the axis. The
    model knows a task if the interval of its best layer lies above the interval (not drawn) of
    every baseline. Each task has its own scale. Hollow marks did not converge; crosses did not
    learn the task.
    """
    model = true(tables["means"])
    probes = list(dict.fromkeys(model[PROBE].itertuples(index=False, name=None)))
    means = whole(tables["means"])
    controls = means[means["control"] & (means["encoder"] == "model")]
    deepest = int(model["layer"].max()) if len(model) else 0
    parts = []
    for task, rows in model.groupby("task", sort=False):
        of_task = controls[controls["task"] == task]
        lines: list[Trace] = [*_control(of_task, probes), *_best_baseline(tables, task, deepest)]
        for index, probe in enumerate(probes):
            own = rows[(rows[PROBE] == [*probe]).all(axis=1)]
            name = _named("", probe, model).removeprefix(", ") or "one layer"
            single = own[own["mode"] == "layer"]
            mixed = own[own["mode"] == "cumulative"]
            lines += _banded(single, name, index) if len(probes) == 1 else []
            lines += [_line(single, name, index)] if len(probes) > 1 and len(single) else []
            if len(mixed) and (len(probes) == 1 or single.empty):
                name = "mix up to layer" if len(probes) == 1 else name
                lines.append(_line(mixed, name, index + 1, size=5))
        parts.append((task, lines))
    return by_task(parts, state_axis(deepest), F1)


def selectivity(tables: Tables) -> go.Figure:
    """F1 of the best layer, and of the same probe on a control task: random labels by word type.

    How to read: the length of a line is the selectivity; a short line means that the probe could
    learn any labels, so its score says little about the layer. Bars: 95 % bootstrap intervals.
    """
    summary = drawable(tables["summary"].dropna(subset="selectivity"), "a control task")
    names = _names(summary)
    control = summary["best_score"] - summary["selectivity"]
    ends = zip(control, summary["best_score"], strict=True)
    traces = [
        curve(
            [each for pair in ends for each in (*pair, None)],
            [each for name in names for each in (name, name, None)],
            "",
            line={"color": BASELINE, "width": 2},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
        ),
        marks(control, names, "%{y}, control task: %{x:.1%}", "control task", CONTROL, "square", 9),
        _scored(summary, names, "best_score", "task", "%{y}: %{x:.1%}"),
    ]
    return plot(traces, 120 + 30 * max(len(names), 1), F1, DOWN)


def baselines(tables: Tables) -> go.Figure:
    """F1 of the best layer of each task and of its baselines.

    How to read: a task is known if its blue bar, the 95 % bootstrap interval, lies right of the
    intervals (not drawn) of majority, static vectors and random weights, and of the control task
    (not drawn). The gap to the embeddings is what the layers add.
    """
    summary = tables["summary"]
    names = _names(summary)
    columns = {EMBEDDINGS: "baseline_lexical", **BASELINES}
    available = {n: column for n, column in columns.items() if summary[column].notna().any()}
    traces = [
        marks(
            summary[column],
            names,
            f"%{{y}}, {name}: %{{x:.1%}}",
            name,
            BASELINE,
            f"{MARKS[1 + index]}-open",
            9,
        )
        for index, (name, column) in enumerate(available.items())
    ]
    traces.append(_scored(summary, names, "best_score", "best layer", "%{y}, best layer: %{x:.1%}"))
    return plot(traces, 130 + 30 * max(len(names), 1), F1, DOWN)


def pipeline(tables: Tables) -> go.Figure:
    """Layers that encode each task: expected layer of the mixes, and centre of gravity of the mix.

    How to read: the tasks are in the order of the published pipeline; next to a name is F1 from
    the embeddings → from all layers. The expected layer comes from the gains of each added layer;
    where the curve falls it may lie outside the layers. emb.: the embeddings.
    """
    summary = tables["summary"]
    columns = ["expected_layer", "centre_of_gravity"]
    if summary[columns].isna().all(axis=None):
        raise KeyError("mixes of layers")
    rows = first_probe(summary)
    names = with_scores(rows, tables["means"])
    traces = []
    for column, colour in zip(columns, (MODEL, PALE), strict=True):
        name = column.replace("_", " ")
        traces.append(
            bars(
                rows[column].fillna(0),
                names,
                f"%{{y}}, {name}: %{{text}}",
                name,
                colour,
                text=["undefined" if pd.isna(each) else decimal(each, 2) for each in rows[column]],
                textposition="outside",
                cliponaxis=False,
            )
        )
    deepest = true(tables["means"])["layer"].max()
    x = {**state_axis(deepest), "range": _room(rows[columns].to_numpy(dtype=float))}
    look: Look = {"barmode": "group", "bargap": 0.3, "legend": {"traceorder": "normal"}}
    return plot(traces, 130 + 44 * max(len(rows), 1), x, DOWN, **look)


def mixes(tables: Tables) -> go.Figure:
    """Weight of each layer in the learned mix of all layers, mean over seeds.

    How to read: a row sums to 1; next to a name is its centre of gravity, the mean layer under
    these weights.
    """
    mean = tables["mix"].groupby(["task", *PROBE, "layer"], sort=False)["weight"].mean()
    table = drawable(mean.reset_index(), "mixes of layers")
    wide = matrix(_names(table), table["layer"], table["weight"])
    centres = (wide * wide.columns.to_numpy(dtype=float)).sum(axis=1) / wide.sum(axis=1)
    wide.columns, x = state_cells(wide.columns)
    wide.index = [f"{name}  {centre:.2f}" for name, centre in centres.items()]
    top = float(wide.to_numpy().max())
    hover = "%{y}, %{x}: %{z:.3f}"
    return plot(
        [heat_map(wide, hover, "weight", "%{z:.2f}", zmin=0, zmax=top)],
        160 + 32 * len(wide),
        x,
        {**CELLS, **DOWN},
    )


def confusions(tables: Tables) -> go.Figure:
    """Predicted labels for each gold label at the best layer, as shares of the gold label.

    How to read: a row is a gold label and sums to 100 %; off the diagonal are the errors.
    """
    confusion, summary = tables["confusion"], tables["summary"]
    confusion = confusion[confusion["mode"].isin(SINGLE)]
    parts = []
    for row, name in zip(summary.to_dict("records"), _names(summary), strict=True):
        key = [row["task"], row["probe"], row["stack"], row["best_layer"]]
        counts = confusion[(confusion[["task", *PROBE, "layer"]] == key).all(axis=1)]
        if len(counts):
            parts.append((f"{name}, {state_name(row['best_layer'])}", [confusion_map(counts)]))
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
    """F1 of the best layer for different shares of the training targets (logarithmic axis).

    How to read: a curve that still rises at the right end needs more targets. Bands: 95 % bootstrap
    intervals.
    """
    means = tables["means"]
    model = means[(means["encoder"] == "model") & ~means["control"] & (means["mode"] == "layer")]
    if model["share"].nunique() < 2:
        raise KeyError("several shares")
    parts = [
        (
            task,
            [
                trace
                for index, (key, line) in enumerate(rows.groupby(PROBE, sort=False))
                for trace in _banded(
                    line.loc[line.groupby("share")["mean"].idxmax()].sort_values("share"),
                    _named("best layer", key, model),
                    index,
                    "share",
                )
            ],
        )
        for task, rows in model.groupby("task", sort=False)
    ]
    x = {"title": "share of training targets", "tickformat": ".0%", "type": "log"}
    return by_task(parts, x, F1)


# --- parts of the figures -------------------------------------------------------------------------


def whole(means: pd.DataFrame) -> pd.DataFrame:
    """Rows of probes trained on all targets."""
    largest: pd.DataFrame = means[means["share"] == means["share"].max()]
    return largest


def true(means: pd.DataFrame) -> pd.DataFrame:
    """Rows of the model's probes on the true labels, trained on all targets."""
    rows = whole(means)
    return rows[(rows["encoder"] == "model") & ~rows["control"]]


@cache
def published() -> pd.DataFrame:
    """Published curves of BERT-base and BERT-large: task, model, layer, F1 (0 to 1)."""
    text = files("workbench.analyses.probes.figures").joinpath("published", "tenney2019.csv")
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
    """Task names with F1 from the embeddings and from a mix of all layers."""
    model = true(means)
    mixed = model[model["mode"] == "cumulative"].sort_values("layer")
    tops = mixed.groupby(["task", *PROBE], sort=False)["mean"].last().to_dict()
    names = []
    for r, name in zip(rows.to_dict("records"), _names(rows), strict=True):
        top = tops.get((r["task"], r["probe"], r["stack"]), r["best_score"])
        names.append(f"{name}  {100 * r['baseline_lexical']:.1f} → {100 * top:.1f}")
    return names


def by_task(
    parts: Sequence[tuple[object, Sequence[Trace]]],
    x: Look,
    y: Look,
    references: Sequence[Trace] = (),
) -> go.Figure:
    """One panel per task, each at its data: curves beyond are named at the edge with their "
    "value."""
    across = min(PANELS, max(len(parts), 1))
    tall = 150 if len(parts) > 1 else 300
    shown = [(name, [*map(deepcopy, references), *traces]) for name, traces in parts]
    looks = at_data(shown, y, tall, across)
    return name_beyond(panels(shown, tall, across, x={"matches": "x", **x}, y=looks, apart=0.3))


def best_baseline(summary: pd.DataFrame, task: object) -> tuple[str, float] | None:
    """Name and score of the best baseline of a task that is no layer of the trained model."""
    rows = summary[summary["task"] == task]
    scores = {name: float(rows[BASELINES[name]].max()) for name in WITHOUT_MODEL}
    known = {name: value for name, value in scores.items() if np.isfinite(value)}
    return max(known.items(), key=lambda each: each[1]) if known else None


def _best_baseline(tables: Tables, task: object, deepest: int) -> list[Trace]:
    best = best_baseline(tables["summary"], task) if "summary" in tables else None
    if best is None:
        return []
    name, value = best
    hover = f"best baseline, {name}: %{{y:.1%}}"
    return [level([0, max(deepest, 1)], value, hover, "best baseline", 1, colour=BASELINE)]


def _control(rows: pd.DataFrame, probes: Sequence[tuple[Any, ...]]) -> list[Trace]:
    """The control task of the first probe, layer by layer."""
    if not probes:
        return []
    own = rows[(rows[PROBE] == [*probes[0]]).all(axis=1) & rows["mode"].isin(SINGLE)]
    own = own.drop_duplicates("layer").sort_values("layer")
    if own.empty:
        return []
    hover = f"control task, {STATE}: %{{y:.1%}}"
    return [curve(own["layer"], own["mean"], hover, "control task", 2, CONTROL, mode="lines")]


def _banded(line: pd.DataFrame, name: str, index: int, x: str = "layer") -> list[Trace]:
    """A curve of the model with the band of its intervals."""
    if line.empty:
        return []
    ends = line["lower"].tolist(), line["upper"].tolist()
    return [band(line[x].tolist(), *ends, MODEL, escaped(name)), _line(line, name, index, x)]


def _line(line: pd.DataFrame, name: str, index: int, x: str = "layer", size: int = 7) -> go.Scatter:
    shown = [
        f" ({percent_span(low, high, 1)}){remark}"
        for low, high, remark in zip(line["lower"], line["upper"], remarks(line), strict=True)
    ]
    return curve(
        line[x],
        line["mean"],
        f"{escaped(name)}, {STATE if x == 'layer' else '%{x}'}: %{{y:.1%}}%{{text}}",
        name,
        index,
        MODEL,
        {**markers(line, MARKS[index % len(MARKS)]), "size": size},
        text=shown,
    )


def _scored(
    rows: pd.DataFrame, names: Sequence[str], column: str, name: str, hover: str
) -> go.Scatter:
    """The model's scores with their intervals."""
    spread = interval(rows, column)
    return marks(rows[column], names, hover, name, MODEL, "circle", 10, error_x=spread)


def markers(line: pd.DataFrame, mark: str, colour: str = MODEL) -> Look:
    """Marks of a curve: hollow for unconverged probes, thin crosses if they did not learn."""
    mark_symbols = symbols(line, mark)
    widths = [2 if symbol == NOT_LEARNED else 1.5 for symbol in mark_symbols]
    return {"symbol": mark_symbols, "size": 8, "line": {"width": widths, "color": colour}}


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

CODE_BASELINES = {
    EMBEDDINGS: "baseline_lexical",
    "no positions": "baseline_no_positions",
    "static vectors": "baseline_static",
    "random weights": "baseline_random",
    "label frequencies": "baseline_frequency",
}


def compression(tables: Tables) -> go.Figure:
    """Compression at each layer: length of the uniform code divided by that of the code.

    How to read: at 1 a code is as long as the uniform code, which uses no probe; higher is shorter.
    Grey: a control task with random labels by word type. Bar: 95 % bootstrap interval of the best
    layer.
    """
    table, summary = tables["codes"], tables["summary"]
    of_model = table[table["encoder"] == "model"]
    lines = list(dict.fromkeys(zip(of_model["code"], of_model["stack"], strict=True)))
    several = of_model["stack"].nunique() > 1
    deepest = int(of_model["layer"].max())
    uniform = level([0, max(deepest, 1)], 1, "uniform code", "uniform code", 1, colour=BASELINE)
    parts = []
    for task, rows in of_model.groupby("task", sort=False):
        traces: list[Trace] = []
        for (code, stack, control), line in rows.groupby(["code", "stack", "control"], sort=False):
            index = lines.index((code, stack))
            if control and index:
                continue  # one control task is enough to compare with
            mean = line.groupby("layer")["compression"].mean()
            name = f"{code}, {stack}" if several else f"{code} code"
            if control:
                traces.append(_code(mean, "control task", 2, CONTROL))
                continue
            traces.append(_code(mean, name, index, MODEL))
            own = summary[(summary[["task", "code", "stack"]] == [task, code, stack]).all(axis=1)]
            traces.append(_best_code(own))
        parts.append((task, traces))
    x = state_axis(deepest)
    return by_task(parts, x, {"title": "compression", "rangemode": "tozero"}, [uniform])


def _best_code(summary: pd.DataFrame) -> go.Scatter:
    """The interval of the best layer."""
    look: Look = {"showlegend": False, "error_y": interval(summary, "compression")}
    hover = f"best layer, {STATE}: %{{y:.2f}}"
    x, y = summary["best_layer"], summary["compression"]
    return marks(x, y, hover, None, MODEL, "circle", 9, **look)


def code_baselines(tables: Tables) -> go.Figure:
    """Compression of the best layer of each task, of its baselines and of its control task.

    How to read: a task is coded shorter if its blue bar, the 95 % bootstrap interval over sentences
    and seeds, lies right of the label frequencies, static vectors, random weights and the control
    task. The gap to the embeddings is what the layers add.
    """
    table = tables["summary"]
    several = table["stack"].nunique() > 1
    columns = {**CODE_BASELINES, "control task": "control_compression"}
    parts = []
    for code, rows in table.groupby("code", sort=False):
        pairs = zip(rows["task"], rows["stack"], strict=True)
        names = [f"{task}, {stack}" if several else str(task) for task, stack in pairs]
        traces = [
            marks(
                rows[column],
                names,
                f"%{{y}}, {name}: %{{x:.2f}}",
                name,
                CONTROL if name == "control task" else BASELINE,
                "square" if name == "control task" else f"{MARKS[1 + index]}-open",
                9,
            )
            for index, (name, column) in enumerate(columns.items())
            if table[column].notna().any()
        ]
        hover = "%{y}, best layer: %{x:.2f}"
        traces.append(_scored(rows, names, "compression", "best layer", hover))
        parts.append((f"{code} code", traces))
    tall = 34 + 30 * max(table.groupby("code", sort=False).size())
    x = {"title": "compression", "rangemode": "tozero", "matches": "x"}
    return panels(parts, tall, x=x, y=[DOWN] * len(parts), gap=56)


def blocks(tables: Tables) -> go.Figure:
    """Bits per label in each block of the online code, by share of targets sent (logarithmic).

    How to read: a curve that falls early is a layer from which few examples are enough; the first
    block has the uniform code. Grey: the same model with random weights, and a control task.
    """
    table, summary = tables["portions"], tables["summary"]
    drawable(table, "portions")
    several = summary["stack"].nunique() > 1
    parts = []
    for task, rows in table.groupby("task", sort=False):
        traces: list[Trace] = []
        best = summary[(summary["task"] == task) & (summary["code"] == "online")]
        for stack, layer in zip(best["stack"], best["best_layer"], strict=True):
            of_stack = rows[rows["stack"] == stack]
            model = of_stack[of_stack["encoder"] == "model"]
            ends = f", {stack}" if several else ""
            lines = {
                "best layer": (model[(model["layer"] == layer) & ~model["control"]], MODEL),
                EMBEDDINGS: (model[(model["layer"] == 0) & ~model["control"]], MODEL),
                "random weights": (of_stack[of_stack["encoder"] == "random"], BASELINE),
                "control task": (model[(model["layer"] == layer) & model["control"]], CONTROL),
            }
            for index, (what, (line, colour)) in enumerate(lines.items()):
                sums = line.groupby("portion")[["bits", "targets"]].sum()
                if len(sums) and not (what == EMBEDDINGS and layer == 0):
                    each = sums["bits"] / sums["targets"]
                    traces.append(_code(each, f"{what}{ends}", index, colour, "%{x}"))
        parts.append((task, traces))
    x = {"title": "share of targets sent", "type": "log", "dtick": 1, "tickformat": ".3~%"}
    return by_task(parts, x, {"title": "bits per label", "rangemode": "tozero"})


def _code(values: pd.Series, name: str, index: int, colour: str, at: str = STATE) -> go.Scatter:
    hover = f"{escaped(name)}, {at}: %{{y:.2f}}"
    return curve(values.index, values, hover, name, index, colour)


DESCRIPTION_LENGTH_FIGURES = {
    "compression": compression,
    "beside": code_baselines,
    "blocks": blocks,
}
