"""Figures of edge probing: curves by layer, the order of tasks, mixes, confusions.

Pure functions of the tables of `edge-probing`; they cost milliseconds. A task has a panel of its
own, so that one colour serves on light pages and dark ones; probes and stacks differ by dash and
mark. What was published is shipped as a table, and `published` reads it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import ceil

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, DASHES, EITHER, MARKS

Tables = Mapping[str, pd.DataFrame]
BASELINES = {
    "majority": "baseline_majority",
    "static vectors": "baseline_static",
    "random weights": "baseline_random",
    "no positions": "baseline_no_positions",
}  # what they are called, and where the summary has them
SOURCE = "Tenney, Das and Pavlick 2019, micro-F1 of the cumulative probe"
MIXED, GREY = COLOURS["light"][1], COLOURS["light"][4]  # seen on light and on dark
UNLEARNT = "x-thin-open"  # the mark of a probe that did not learn
PANELS = 2  # beside each other
SINGLE = ("layer", "lexical", "top")  # modes that read one layer
_MODES = {"layer": "one layer", "cumulative": "mix up to it"}
_WRITTEN = 13  # layers whose weights are written out


def curves(tables: Tables) -> go.Figure:
    """Each task by layer, with 95 % intervals: from one layer alone, and from a learnt mix of the
    layers up to it. The scale differs from task to task. Hollow marks: the probe was still
    improving when it was cut off. Thin crosses: the probe did not learn the task (it scores under
    the majority baseline or under its own control task)."""
    model = true(tables["means"])
    figure, panels = _panels(model)
    for task, row, column in panels:
        own = model[model["task"] == task]
        for mode, colour in (("layer", EITHER), ("cumulative", MIXED)):
            part = own[own["mode"] == mode]
            for place, (probe, stack), line in _lines(part):
                name = _named(_MODES[mode], probe, stack, model)
                look = 2 * place + (mode != "layer")
                _add(figure, line, name, look, colour, (row, column))
    return figure


def selectivity(tables: Tables) -> go.Figure:
    """Each task by layer, and the same probe on labels drawn by word type: the further apart, the
    more the score tells of the layer rather than of the probe."""
    means = whole(tables["means"])
    layers = means[(means["encoder"] == "model") & (means["mode"] == "layer")]
    if not layers["control"].any():
        raise KeyError("a control task")
    figure, panels = _panels(layers)
    for task, row, column in panels:
        own = layers[layers["task"] == task]
        for control, colour in ((False, EITHER), (True, GREY)):
            for place, (probe, stack), line in _lines(own[own["control"] == control]):
                name = _named("control" if control else "the task", probe, stack, layers)
                _add(figure, line, name, 2 * place + control, colour, (row, column))
    return figure


def baselines(tables: Tables) -> go.Figure:
    """The best layer of each task beside what needs no model, or none that has learnt."""
    summary = tables["summary"]
    figure = go.Figure()
    names = [_named(r.task, r.probe, r.stack, summary) for r in summary.itertuples()]
    columns = {"best layer": "best_score", "layer 0": "baseline_lexical", **BASELINES}
    place = 0
    for name, column in columns.items():
        if summary[column].isna().all():
            continue
        mark = {"color": EITHER} if name == "best layer" else {"color": GREY}
        figure.add_trace(
            go.Scatter(
                name=name,
                x=summary[column],
                y=names,
                mode="markers",
                marker={**mark, "symbol": MARKS[place % len(MARKS)], "size": 10},
                hovertemplate=f"%{{y}}, {name}: %{{x:.1%}}<extra></extra>",
            )
        )
        place += 1
    figure.update_layout(height=140 + 36 * max(len(names), 1))
    figure.update_xaxes(title="F1", tickformat=".0%")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def pipeline(tables: Tables) -> go.Figure:
    """How far up each task is found, in the order of the published pipeline: expected layers, from
    the gains of the mix up to each layer, and centres of gravity, from the weights of the mix of
    all. Beside the names: F1 from layer 0, and from all layers. An expected layer is not clipped:
    where the curve falls on its way, it may lie outside the layers."""
    summary = tables["summary"]
    if summary[["expected_layer", "centre_of_gravity"]].isna().all(axis=None):
        raise KeyError("mixes of layers")
    rows = first_probe(summary)
    names = with_scores(rows, tables["means"])
    figure = go.Figure()
    for name, column, colour in (
        ("expected layer", "expected_layer", EITHER),
        ("centre of gravity", "centre_of_gravity", GREY),
    ):
        told = ["undefined" if pd.isna(value) else f"{value:.2f}" for value in rows[column]]
        figure.add_trace(
            go.Bar(
                name=name,
                y=names,
                x=rows[column].fillna(0),
                orientation="h",
                text=told,
                textposition="outside",
                cliponaxis=False,
                marker={"color": colour},
                hovertemplate=f"%{{y}}, {name}: %{{text}}<extra></extra>",
            )
        )
    figure.update_layout(barmode="group", height=140 + 52 * max(len(rows), 1), bargap=0.3)
    figure.update_layout(legend={"traceorder": "normal"})
    figure.update_xaxes(title="layer", range=_room(rows))
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def mixes(tables: Tables) -> go.Figure:
    """How much each layer counts in the mix that a probe learnt, mean over seeds. Beside the
    names: the centre of gravity, which is the mean layer under these weights."""
    mix = tables["mix"]
    mean = mix.groupby(["task", "probe", "stack", "layer"], sort=False)["weight"].mean()
    table = mean.reset_index()
    if table.empty:
        raise KeyError("mixes of layers")
    names = [_named(r.task, r.probe, r.stack, table) for r in table.itertuples()]
    wide = table.assign(name=names).pivot(index="name", columns="layer", values="weight")
    wide = wide.loc[list(dict.fromkeys(names))]
    centres = (wide * wide.columns.to_numpy(dtype=float)).sum(axis=1) / wide.sum(axis=1)
    written = {"texttemplate": "%{z:.2f}"} if len(wide.columns) <= _WRITTEN else {}
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(),
            x=list(wide.columns),
            y=[f"{name}  {centre:.2f}" for name, centre in centres.items()],
            zmin=0,
            zmax=float(wide.to_numpy().max()),
            xgap=2,
            ygap=2,
            **written,
            colorbar={"title": {"text": "weight", "side": "right"}},
            hovertemplate="%{y}, layer %{x}: %{z:.3f}<extra></extra>",
        )
    )
    figure.update_layout(height=160 + 32 * len(wide))
    figure.update_xaxes(title="layer", dtick=1 if len(wide.columns) <= _WRITTEN else 4)
    figure.update_xaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
    return figure


def confusions(tables: Tables) -> go.Figure:
    """Which label is taken for which at the best layer, as shares of the gold label."""
    confusion, summary = tables["confusion"], tables["summary"]
    figure = go.Figure()
    names: list[str] = []
    for row in summary.itertuples():
        own = confusion[
            (confusion["task"] == row.task)
            & (confusion["probe"] == row.probe)
            & (confusion["stack"] == row.stack)
            & (confusion["layer"] == row.best_layer)
            & (confusion["mode"].isin(SINGLE))
        ]
        if own.empty:
            continue
        figure.add_trace(confusion_map(own, visible=not names))
        name = _named(row.task, row.probe, row.stack, summary)
        names.append(escaped(f"{name}, layer {row.best_layer}"))
    if not names:
        raise KeyError("one label a target")
    if len(names) > 1:
        shown = [[each == place for each in range(len(names))] for place in range(len(names))]
        buttons = [
            {"label": name, "method": "update", "args": [{"visible": visible}]}
            for name, visible in zip(names, shown, strict=True)
        ]
        menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
        figure.update_layout(updatemenus=[menu], margin={"t": 64})
    return square(figure, 20)


def confusion_map(own: pd.DataFrame, visible: bool = True) -> go.Heatmap:
    """One matrix of counts as shares of each gold label."""
    wide = own.pivot_table(
        index="gold", columns="predicted", values="n", aggfunc="sum", fill_value=0
    )
    order = list(dict.fromkeys([*wide.index, *wide.columns]))
    wide = wide.reindex(index=order, columns=order, fill_value=0)
    shares = wide.div(wide.sum(axis=1).clip(lower=1), axis=0)
    return go.Heatmap(
        z=shares.to_numpy(),
        x=order,
        y=order,
        customdata=wide.to_numpy(),
        zmin=0,
        zmax=1,
        xgap=1,
        ygap=1,
        visible=visible,
        colorbar={"title": {"text": "share", "side": "right"}, "tickformat": ".0%"},
        hovertemplate="%{y} taken for %{x}: %{customdata} (%{z:.1%})<extra></extra>",
    )


def square(figure: go.Figure, labels: int) -> go.Figure:
    """The axes of a matrix of so many labels."""
    figure.update_layout(height=180 + 20 * max(labels, 6))
    figure.update_xaxes(title="said", type="category", tickangle=-60, showgrid=False)
    figure.update_yaxes(title="gold", autorange="reversed", type="category")
    figure.update_yaxes(showgrid=False)
    return figure


def learning(tables: Tables) -> go.Figure:
    """The best layer by how many targets were learnt from."""
    means = tables["means"]
    model = means[(means["encoder"] == "model") & ~means["control"] & (means["mode"] == "layer")]
    if model["share"].nunique() < 2:
        raise KeyError("several shares")
    figure, panels = _panels(model)
    for task, row, column in panels:
        for place, (probe, stack), own in _lines(model[model["task"] == task]):
            best = own.loc[own.groupby("share")["mean"].idxmax()].sort_values("share")
            name = _named("best layer", probe, stack, model)
            _add(figure, best, name, place, EITHER, (row, column), "share")
    figure.update_xaxes(title="share of the targets", tickformat=".0%", type="log", dtick=None)
    return figure


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


def tick(deepest: int) -> int:
    """Between marks on an axis of layers."""
    return 1 if deepest <= 13 else 4


def _room(rows: pd.DataFrame) -> list[float]:
    """From nought, or below it, to the longest bar, with room for the numbers beside them."""
    ends = rows[["expected_layer", "centre_of_gravity"]].to_numpy(dtype=float)
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
    tops: dict[object, float] = (
        mixed.groupby(["task", "probe", "stack"], sort=False)["mean"].last().to_dict()
    )
    names = []
    for r in rows.itertuples():
        top = tops.get((r.task, r.probe, r.stack), float(str(r.best_score)))
        name = _named(r.task, r.probe, r.stack, rows)
        names.append(f"{name}  {100 * float(str(r.baseline_lexical)):.1f} → {100 * top:.1f}")
    return names


def _panels(table: pd.DataFrame) -> tuple[go.Figure, list[tuple[str, int, int]]]:
    """A figure with a panel a task, and the row and column of each."""
    tasks = list(dict.fromkeys(table["task"]))
    columns = min(PANELS, max(len(tasks), 1))
    rows = max(-(-len(tasks) // columns), 1)
    titles = [escaped(str(task)) for task in tasks]
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=titles,
        horizontal_spacing=0.1,
        vertical_spacing=0.26 / rows,
    )
    deepest = max(int(table["layer"].max()), 1) if len(table) else 1
    figure.update_xaxes(dtick=tick(deepest), zeroline=False)
    for column in range(1, columns + 1):
        figure.update_xaxes(title="layer", row=rows, col=column)
    figure.update_yaxes(tickformat=".1~%", zeroline=False)
    figure.update_yaxes(title="F1", col=1)
    top = 1 + 0.12 / rows
    figure.update_layout(height=110 + 220 * rows, margin={"t": 88}, legend={"y": top})
    places = [(place // columns + 1, place % columns + 1) for place in range(len(tasks))]
    return figure, [(task, *place) for task, place in zip(tasks, places, strict=True)]


def _lines(
    table: pd.DataFrame,
) -> Iterator[tuple[int, tuple[object, object], pd.DataFrame]]:
    """Each probe of each stack: its place, their names, its rows."""
    for place, ((probe, stack), line) in enumerate(table.groupby(["probe", "stack"], sort=False)):
        yield place, (probe, stack), line


def _add(
    figure: go.Figure,
    line: pd.DataFrame,
    name: str,
    look: int,
    colour: str,
    place: tuple[int, int],
    x: str = "layer",
) -> None:
    first = not any(trace.name == name for trace in figure.data)
    figure.add_trace(
        go.Scatter(
            x=line[x],
            y=line["mean"],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": (line["upper"] - line["mean"]).clip(lower=0),
                "arrayminus": (line["mean"] - line["lower"]).clip(lower=0),
                "thickness": 1,
                "width": 3,
            },
            mode="lines+markers",
            name=name,
            legendgroup=name,
            showlegend=first,
            line={"dash": DASHES[look % len(DASHES)], "color": colour},
            marker=markers(line, MARKS[look % len(MARKS)]),
            text=remarks(line),
            hovertemplate=f"{escaped(name)}, %{{x}}: %{{y:.1%}}%{{text}}<extra></extra>",
        ),
        *place,
    )


def markers(line: pd.DataFrame, mark: str) -> dict[str, object]:
    """Marks of a curve: hollow where the probe was cut off, a thin cross where it did not learn."""
    symbols = [
        UNLEARNT if not learnt else mark if converged else f"{mark}-open"
        for converged, learnt in _reliable(line)
    ]
    widths = [2 if symbol == UNLEARNT else 1.5 for symbol in symbols]
    return {"symbol": symbols, "size": 8, "line": {"width": widths}}


def remarks(line: pd.DataFrame) -> list[str]:
    """What hovering says of each point besides its value."""
    return [
        ", did not learn" if not learnt else "" if converged else ", cut off while improving"
        for converged, learnt in _reliable(line)
    ]


def _reliable(line: pd.DataFrame) -> list[tuple[bool, bool]]:
    """Converged and learnt, of each row; runs made before these were known count as both."""
    both = line.reindex(columns=["converged", "learnt"], fill_value=True).astype(bool)
    return list(zip(both["converged"].tolist(), both["learnt"].tolist(), strict=True))


def _named(what: object, probe: object, stack: object, table: pd.DataFrame) -> str:
    """A name, with its probe and stack where there are several."""
    name = str(what)
    if table["probe"].nunique() > 1:
        name += f", {probe}"
    if table["stack"].nunique() > 1:
        name += f", {stack}"
    return name


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

ACROSS = 3  # panels
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
    figure, panels = _task_panels(own)
    curves = list(dict.fromkeys(zip(own["code"], own["stack"], own["control"], strict=True)))
    lines = list(dict.fromkeys((code, stack) for code, stack, _ in curves))
    several = own["stack"].nunique() > 1
    for panel, task in enumerate(panels):
        for code, stack, control in curves:
            rows = own[
                (own["task"] == task)
                & (own["code"] == code)
                & (own["stack"] == stack)
                & (own["control"] == control)
            ]
            mean = rows.groupby("layer")["compression"].mean().sort_index()
            name = (f"{code}, {stack}" if several else str(code)) + (CONTROL if control else "")
            look = lines.index((code, stack))
            trace = _curve(list(mean.index), list(mean), name, look, control, panel == 0)
            figure.add_trace(trace, *_at(panel))
    deepest = int(own["layer"].max()) if len(own) else 0
    figure.update_xaxes(dtick=1 if deepest <= 12 else 4)
    return _titled(figure, len(panels), "layer", "compression")


def beside(tables: Tables) -> go.Figure:
    """The best layer's compression beside what needs no model, or none that has learnt, and beside
    labels drawn by word type; with 95 % intervals over sentences and seeds."""
    table = tables["summary"]
    codes = list(dict.fromkeys(table["code"]))
    titles = [escaped(str(code)) for code in codes]
    figure = make_subplots(max(len(codes), 1), 1, subplot_titles=titles, vertical_spacing=0.16)
    several = table["stack"].nunique() > 1
    colours = (EITHER, *COLOURS["light"][1:])
    for row, code in enumerate(codes, start=1):
        own = table[table["code"] == code]
        names = [
            f"{task}, {stack}" if several else str(task)
            for task, stack in zip(own["task"], own["stack"], strict=True)
        ]
        for place, (name, column) in enumerate(BESIDE.items()):
            if own[column].isna().all():
                continue
            bar = go.Bar(
                x=names,
                y=own[column],
                name=name,
                legendgroup=name,
                showlegend=row == 1,
                marker={"color": colours[place % len(colours)]},
                hovertemplate=f"%{{x}}, {name}: %{{y:.2f}}<extra></extra>",
            )
            if column == "compression":
                bar.error_y = {
                    "type": "data",
                    "symmetric": False,
                    "array": (own["upper"] - own[column]).clip(lower=0),
                    "arrayminus": (own[column] - own["lower"]).clip(lower=0),
                    "thickness": 1,
                }
            figure.add_trace(bar, row, 1)
    figure.update_layout(barmode="group", height=120 + 300 * max(len(codes), 1), margin={"t": 96})
    figure.update_layout(legend={"y": 1.08})
    figure.update_yaxes(title="compression", rangemode="tozero")
    return figure


def blocks(tables: Tables) -> go.Figure:
    """What a target costs in each block of the online code, by how much has been sent: at the layer
    that compresses most, at layer 0, and with random weights. The first block is uniform."""
    table, summary = tables["portions"], tables["summary"]
    if table.empty:
        raise KeyError("portions")
    figure, panels = _task_panels(table)
    named: set[str] = set()
    for panel, task in enumerate(panels):
        best = summary[(summary["task"] == task) & (summary["code"] == "online")]
        for stack, layer in zip(best["stack"], best["best_layer"], strict=True):
            own = table[(table["task"] == task) & (table["stack"] == stack)]
            model = own[own["encoder"] == "model"]
            ends = f", {stack}" if summary["stack"].nunique() > 1 else ""
            curves = {
                "best layer": model[(model["layer"] == layer) & ~model["control"]],
                "layer 0": model[(model["layer"] == 0) & ~model["control"]],
                "random weights": own[own["encoder"] == "random"],
                "labels by word type": model[(model["layer"] == layer) & model["control"]],
            }
            for place, (what, rows) in enumerate(curves.items()):
                sums = rows.groupby("portion")[["bits", "targets"]].sum().sort_index()
                if sums.empty:
                    continue
                name, each = f"{what}{ends}", sums["bits"] / sums["targets"]
                trace = _curve(
                    list(each.index), list(each), name, place, place > 1, name not in named
                )
                figure.add_trace(trace, *_at(panel))
                named.add(name)
    figure.update_xaxes(type="log", dtick=1, tickformat=".3~%")
    return _titled(figure, len(panels), "share sent", "bits a target")


def _task_panels(table: pd.DataFrame) -> tuple[go.Figure, list[str]]:
    """A panel for each task."""
    tasks = list(dict.fromkeys(str(task) for task in table["task"]))
    rows = max(1, ceil(len(tasks) / ACROSS))
    figure = make_subplots(
        rows,
        max(1, min(ACROSS, len(tasks))),
        subplot_titles=[escaped(task) for task in tasks],
        horizontal_spacing=0.07,
        vertical_spacing=0.3 / rows,
    )
    height = 120 + 230 * rows
    figure.update_layout(height=height, margin={"t": 96}, legend={"y": 1 + 40 / height})
    return figure, tasks


def _titled(figure: go.Figure, panels: int, x: str, y: str) -> go.Figure:
    """What the axes mean, told below the lowest panels and beside the first ones."""
    for panel in range(panels):
        row, column = _at(panel)
        if panel + ACROSS >= panels:
            figure.update_xaxes(title=x, row=row, col=column)
        if column == 1:
            figure.update_yaxes(title=y, row=row, col=column)
    figure.update_yaxes(rangemode="tozero")
    return figure


def _at(panel: int) -> tuple[int, int]:
    return panel // ACROSS + 1, panel % ACROSS + 1


def _curve(
    x: Sequence[float], y: Sequence[float], name: str, place: int, grey: bool, named: bool
) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=y,
        name=escaped(name),
        legendgroup=name,
        showlegend=named,
        mode="lines+markers",
        line={"dash": DASHES[place % len(DASHES)], "color": GREY if grey else EITHER},
        marker={"symbol": MARKS[place % len(MARKS)]},
        hovertemplate=f"{escaped(name)}, %{{x}}: %{{y:.2f}}<extra></extra>",
    )


DESCRIPTION_LENGTH_FIGURES = {"compression": compression, "beside": beside, "blocks": blocks}
