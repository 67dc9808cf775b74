"""Figures of description length: compression by layer, what stands beside, and block by block.

Pure functions of the tables of `description-length`; they cost milliseconds.
"""

from collections.abc import Mapping, Sequence
from math import ceil

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.theme import COLOURS, DASHES, EITHER, MARKS

Tables = Mapping[str, pd.DataFrame]
ACROSS = 3  # panels
GREY = COLOURS["light"][4]  # of control tasks and baselines, in every panel alike
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
    figure, panels = _panels(own)
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
    figure, panels = _panels(table)
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


def _panels(table: pd.DataFrame) -> tuple[go.Figure, list[str]]:
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


FIGURES = {"compression": compression, "beside": beside, "blocks": blocks}
