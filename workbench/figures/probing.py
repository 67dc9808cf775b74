"""Figures of edge probing: curves by layer, the order of tasks, mixes, confusions.

Pure functions of the tables of `edge-probing`; they cost milliseconds. A task has a panel of its
own, so that one colour serves on light pages and dark ones; probes and stacks differ by dash and
mark. What was published is shipped as a table, and `published` reads it.
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
    UNLEARNT,
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
}  # what they are called, and where the summary has them
SOURCE = "Tenney, Das and Pavlick 2019, micro-F1 of the cumulative probe"
MIXED, GREY = COLOURS["light"][1], COLOURS["light"][4]  # seen on light and on dark
PANELS = 2  # beside each other
SINGLE = ("layer", "lexical", "top")  # modes that read one layer
PROBE = ["probe", "stack"]  # what tells lines of one task apart
_MODES = {"layer": "one layer", "cumulative": "mix up to it"}


def curves(tables: Tables) -> go.Figure:
    """Each task by layer, with 95 % intervals: from one layer alone, and from a learnt mix of the
    layers up to it. The scale differs from task to task. Hollow marks: the probe was still
    improving when it was cut off. Thin crosses: the probe did not learn the task (it scores under
    the majority baseline or under its own control task)."""
    model = true(tables["means"])

    def lines(own: pd.DataFrame) -> list[Trace]:
        return [
            _line(line, _named(_MODES[mode], key, model), 2 * place + (mode != "layer"), colour)
            for mode, colour in (("layer", EITHER), ("cumulative", MIXED))
            for place, (key, line) in enumerate(own[own["mode"] == mode].groupby(PROBE, sort=False))
        ]

    return _by_task(model, lines)


def selectivity(tables: Tables) -> go.Figure:
    """Each task by layer, and the same probe on labels drawn by word type: the further apart, the
    more the score tells of the layer rather than of the probe."""
    means = whole(tables["means"])
    layers = means[(means["encoder"] == "model") & (means["mode"] == "layer")]
    if not layers["control"].any():
        raise KeyError("a control task")

    def lines(own: pd.DataFrame) -> list[Trace]:
        return [
            _line(line, _named(name, key, layers), 2 * place + control, colour)
            for control, name, colour in ((False, "the task", EITHER), (True, "control", GREY))
            for place, (key, line) in enumerate(
                own[own["control"] == control].groupby(PROBE, sort=False)
            )
        ]

    return _by_task(layers, lines)


def baselines(tables: Tables) -> go.Figure:
    """The best layer of each task beside what needs no model, or none that has learnt."""
    summary = tables["summary"]
    names = _names(summary)
    columns = {"best layer": "best_score", "layer 0": "baseline_lexical", **BASELINES}
    there = {name: column for name, column in columns.items() if summary[column].notna().any()}
    shown = [
        marks(
            summary[column],
            names,
            f"%{{y}}, {name}: %{{x:.1%}}",
            name,
            EITHER if name == "best layer" else GREY,
            MARKS[place % len(MARKS)],
            10,
        )
        for place, (name, column) in enumerate(there.items())
    ]
    x = {"title": "F1", "tickformat": ".0%"}
    return plot(shown, 140 + 36 * max(len(names), 1), x, DOWN)


def pipeline(tables: Tables) -> go.Figure:
    """How far up each task is found, in the order of the published pipeline: expected layers, from
    the gains of the mix up to each layer, and centres of gravity, from the weights of the mix of
    all. Beside the names: F1 from layer 0, and from all layers. An expected layer is not clipped:
    where the curve falls on its way, it may lie outside the layers."""
    summary = tables["summary"]
    columns = ["expected_layer", "centre_of_gravity"]
    if summary[columns].isna().all(axis=None):
        raise KeyError("mixes of layers")
    rows = first_probe(summary)
    names = with_scores(rows, tables["means"])
    shown = []
    for column, colour in zip(columns, (EITHER, GREY), strict=True):
        name = column.replace("_", " ")
        shown.append(
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
    return plot(shown, 140 + 52 * max(len(rows), 1), x, DOWN, **look)


def mixes(tables: Tables) -> go.Figure:
    """How much each layer counts in the mix that a probe learnt, mean over seeds. Beside the
    names: the centre of gravity, which is the mean layer under these weights."""
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
    """Which label is taken for which at the best layer, as shares of the gold label."""
    confusion, summary = tables["confusion"], tables["summary"]
    confusion = confusion[confusion["mode"].isin(SINGLE)]
    parts = []
    for row, name in zip(summary.to_dict("records"), _names(summary), strict=True):
        key = [row["task"], row["probe"], row["stack"], row["best_layer"]]
        own = confusion[(confusion[["task", *PROBE, "layer"]] == key).all(axis=1)]
        if len(own):
            parts.append((f"{name}, layer {row['best_layer']}", [confusion_map(own)]))
    if not parts:
        raise KeyError("one label a target")
    return choice(parts, **_square(20), margin={"t": 64 if len(parts) > 1 else 32})


def confusion_of(own: pd.DataFrame) -> go.Figure:
    """One matrix of counts, as tall as it has labels."""
    return plot([confusion_map(own)], **_square(len({*own["gold"], *own["predicted"]})))


def confusion_map(own: pd.DataFrame) -> go.Heatmap:
    """Counts as shares of each gold label."""
    wide = own.pivot_table(
        index="gold", columns="predicted", values="n", aggfunc="sum", fill_value=0
    )
    order = list(dict.fromkeys([*wide.index, *wide.columns]))
    wide = wide.reindex(index=order, columns=order, fill_value=0)
    hover = "%{y} taken for %{x}: %{customdata} (%{z:.1%})"
    shares = wide.div(wide.sum(axis=1).clip(lower=1), axis=0)
    look: Look = {"tickformat": ".0%", "gap": 1, "zmin": 0, "zmax": 1}
    return heat_map(shares, hover, "share", customdata=wide.to_numpy(), **look)


def _square(labels: int) -> dict[str, Any]:
    """Height and axes of a matrix of so many labels."""
    return {
        "height": 180 + 20 * max(labels, 6),
        "x": {**CELLS, "title": "said", "type": "category", "tickangle": -60},
        "y": {**CELLS, **DOWN, "title": "gold"},
    }


def learning(tables: Tables) -> go.Figure:
    """The best layer by how many targets were learnt from."""
    means = tables["means"]
    model = means[(means["encoder"] == "model") & ~means["control"] & (means["mode"] == "layer")]
    if model["share"].nunique() < 2:
        raise KeyError("several shares")

    def lines(own: pd.DataFrame) -> list[Trace]:
        return [
            _line(
                line.loc[line.groupby("share")["mean"].idxmax()].sort_values("share"),
                _named("best layer", key, model),
                place,
                EITHER,
                "share",
            )
            for place, (key, line) in enumerate(own.groupby(PROBE, sort=False))
        ]

    return _by_task(model, lines, title="share of the targets", tickformat=".0%", type="log")


# --- what figures are made of ---------------------------------------------------------------------


def whole(means: pd.DataFrame) -> pd.DataFrame:
    """Of all targets there are to learn from."""
    largest: pd.DataFrame = means[means["share"] == means["share"].max()]
    return largest


def true(means: pd.DataFrame) -> pd.DataFrame:
    """The model's own probes of the task itself."""
    found = whole(means)
    own: pd.DataFrame = found[(found["encoder"] == "model") & ~found["control"]]
    return own


@cache
def published() -> pd.DataFrame:
    """The curves of BERT-base and -large that were published: task, model, layer, F1 of 1."""
    text = files("workbench.figures").joinpath("published", "tenney2019.csv")
    with text.open("r", encoding="utf-8") as file:
        table = pd.read_csv(file, comment="#")
    return table.assign(f1=table["f1"] / 100)


def _room(ends: NDArray[np.float64]) -> list[float]:
    """From zero, or below it, to the longest bar, with room for the numbers beside them."""
    low, high = min(0.0, float(np.nanmin(ends))), max(0.0, float(np.nanmax(ends)))
    beside = 0.28 * max(high - low, 0.1)
    return [low - beside if low else 0.0, high + beside]


def first_probe(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of one kind of probe, which are those in order."""
    rows: pd.DataFrame = summary[summary["probe"] == summary["probe"].iloc[0]]
    return rows


def with_scores(rows: pd.DataFrame, means: pd.DataFrame) -> list[str]:
    """Each task with what it scores from layer 0, and from a mix of all layers."""
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
    """A panel a task."""
    parts = [(task, lines(own)) for task, own in table.groupby("task", sort=False)]
    usual = {} if axis else {"title": "layer", "dtick": tick(table["layer"].max())}
    x = {**usual, **axis, "zeroline": False}
    return panels(
        parts, 190, PANELS, x=x, y={"title": "F1", "tickformat": ".1~%", "zeroline": False}
    )


def _line(line: pd.DataFrame, name: str, place: int, colour: str, x: str = "layer") -> go.Scatter:
    return curve(
        line[x],
        line["mean"],
        f"{escaped(name)}, %{{x}}: %{{y:.1%}}%{{text}}",
        name,
        place,
        colour,
        markers(line, MARKS[place % len(MARKS)]),
        error_y=interval(line, "mean"),
        text=remarks(line),
    )


def markers(line: pd.DataFrame, mark: str) -> Look:
    """Marks of a curve: hollow where the probe was cut off, a thin cross where it did not learn."""
    own = symbols(line, mark)
    widths = [2 if symbol == UNLEARNT else 1.5 for symbol in own]
    return {"symbol": own, "size": 8, "line": {"width": widths}}


def remarks(line: pd.DataFrame) -> list[str]:
    """What hovering says of each point besides its value."""
    said = {UNLEARNT: ", did not learn", "": "", "-open": ", cut off while improving"}
    return [said[symbol] for symbol in symbols(line, "")]


def _names(table: pd.DataFrame) -> list[str]:
    """Each row's task."""
    rows = table[["task", *PROBE]].itertuples(index=False)
    return [_named(task, key, table) for task, *key in rows]


def _named(what: object, key: Iterable[object], table: pd.DataFrame) -> str:
    """A name, with its probe and stack where there are several."""
    of = [str(part) for part, name in zip(key, PROBE, strict=True) if table[name].nunique() > 1]
    return ", ".join([str(what), *of])


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
# Figures of description length: compression by layer, what stands beside, and block by block.
#
# Pure functions of the tables of `description-length`; they cost milliseconds.

ACROSS = 3  # panels beside one another
CONTROL = ", labels by word type"
BESIDE = {
    "best layer": "compression",
    "layer 0": "baseline_lexical",
    "no positions": "baseline_no_positions",
    "static vectors": "baseline_static",
    "random weights": "baseline_random",
    "labels by word type": "control_compression",
}


def compression(tables: Tables) -> go.Figure:
    """How often each code goes into the uniform one, by layer, mean over seeds; grey: the same for
    labels drawn by word type. At 1 nothing is gained, and below it the code is longer."""
    table = tables["codes"]
    own = table[table["encoder"] == "model"]
    lines = list(dict.fromkeys(zip(own["code"], own["stack"], strict=True)))
    several = own["stack"].nunique() > 1
    parts = []
    for task, rows in own.groupby("task", sort=False):
        shown = []
        for (code, stack, control), line in rows.groupby(["code", "stack", "control"], sort=False):
            mean = line.groupby("layer")["compression"].mean()
            name = (f"{code}, {stack}" if several else str(code)) + (CONTROL if control else "")
            shown.append(_code(mean, name, lines.index((code, stack)), bool(control)))
        parts.append((task, shown))
    x = {"title": "layer", "dtick": tick(own["layer"].max())}
    return panels(parts, 190, ACROSS, x=x, y={"title": "compression", "rangemode": "tozero"})


def beside(tables: Tables) -> go.Figure:
    """The best layer's compression beside what needs no model, or none that has learnt, and beside
    labels drawn by word type; with 95 % intervals over sentences and seeds."""
    table = tables["summary"]
    several = table["stack"].nunique() > 1
    colours = (EITHER, *COLOURS["light"][1:])
    parts = []
    for code, own in table.groupby("code", sort=False):
        pairs = zip(own["task"], own["stack"], strict=True)
        names = [f"{task}, {stack}" if several else str(task) for task, stack in pairs]
        shown = [
            bars(
                own[column],
                names,
                f"%{{x}}, {name}: %{{y:.2f}}",
                name,
                colours[place % len(colours)],
                upright=True,
                spread=interval(own, column) if column == "compression" else None,
            )
            for place, (name, column) in enumerate(BESIDE.items())
            if own[column].notna().any()
        ]
        parts.append((code, shown))
    y = {"title": "compression", "rangemode": "tozero"}
    return panels(parts, 230, y=[y] * len(parts), barmode="group")


def blocks(tables: Tables) -> go.Figure:
    """What a target costs in each block of the online code, by how much has been sent: at the layer
    that compresses most, at layer 0, and with random weights. The first block is uniform."""
    table, summary = tables["portions"], tables["summary"]
    if table.empty:
        raise KeyError("portions")
    parts = []
    for task, rows in table.groupby("task", sort=False):
        shown: list[Trace] = []
        best = summary[(summary["task"] == task) & (summary["code"] == "online")]
        for stack, layer in zip(best["stack"], best["best_layer"], strict=True):
            own = rows[rows["stack"] == stack]
            model = own[own["encoder"] == "model"]
            ends = f", {stack}" if summary["stack"].nunique() > 1 else ""
            lines = {
                "best layer": model[(model["layer"] == layer) & ~model["control"]],
                "layer 0": model[(model["layer"] == 0) & ~model["control"]],
                "random weights": own[own["encoder"] == "random"],
                "labels by word type": model[(model["layer"] == layer) & model["control"]],
            }
            for place, (what, line) in enumerate(lines.items()):
                sums = line.groupby("portion")[["bits", "targets"]].sum()
                if len(sums):
                    each = sums["bits"] / sums["targets"]
                    shown.append(_code(each, f"{what}{ends}", place, place > 1))
        parts.append((task, shown))
    x = {"title": "share sent", "type": "log", "dtick": 1, "tickformat": ".3~%"}
    return panels(parts, 190, ACROSS, x=x, y={"title": "bits a target", "rangemode": "tozero"})


def _code(values: pd.Series, name: str, place: int, is_grey: bool) -> go.Scatter:
    hover = f"{escaped(name)}, %{{x}}: %{{y:.2f}}"
    return curve(values.index, values, hover, name, place, GREY if is_grey else EITHER)


DESCRIPTION_LENGTH_FIGURES = {"compression": compression, "beside": beside, "blocks": blocks}
