"""Figures of edge probing: curves by layer, the order of tasks, mixes, confusions.

Pure functions of the tables of `edge-probing`; they cost milliseconds. Where a run has several
probes or stacks, each has a line or a button of its own.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

Tables = Mapping[str, pd.DataFrame]
BASELINES = ("majority", "static", "random", "no positions")
_DASH = {"majority": "dot", "static": "dash", "random": "dashdot", "no positions": "longdash"}


def curves(tables: Tables) -> go.Figure:
    """Each task by layer, with 95 % intervals; solid: one layer, dotted: the mix up to it."""
    means = whole(tables["means"])
    model = means[(means["encoder"] == "model") & ~means["control"]]
    figure = go.Figure()
    for color, (task, own) in enumerate(model.groupby("task", sort=False)):
        for mode, dash in (("layer", "solid"), ("cumulative", "dot")):
            for (probe, stack), line in own[own["mode"] == mode].groupby(
                ["probe", "stack"], sort=False
            ):
                figure.add_trace(_line(line, _named(task, probe, stack, own), mode, dash, color))
    figure.update_layout(height=460, legend={"groupclick": "togglegroup"})
    figure.update_xaxes(title="layer", dtick=1)
    figure.update_yaxes(title="F1", tickformat=".0%")
    return figure


def baselines(tables: Tables) -> go.Figure:
    """The best layer of each task beside what needs no model, or none that has learnt."""
    summary = tables["summary"]
    figure = go.Figure()
    names = [_named(r.task, r.probe, r.stack, summary) for r in summary.itertuples()]
    bars = {
        "best layer": "best_score",
        "layer 0": "baseline_lexical",
        "no positions": "baseline_no_positions",
        "static vectors": "baseline_static",
        "random weights": "baseline_random",
        "majority": "baseline_majority",
    }
    for name, column in bars.items():
        figure.add_trace(go.Bar(name=name, x=names, y=summary[column]))
    figure.update_layout(barmode="group", height=420)
    figure.update_yaxes(title="F1", tickformat=".0%")
    return figure


def pipeline(tables: Tables) -> go.Figure:
    """The order in which tasks are found: expected layers and centres of gravity."""
    summary = tables["summary"]
    summary = summary[summary["probe"] == summary["probe"].iloc[0]] if len(summary) else summary
    rows = summary.sort_values("expected_layer", na_position="last")
    names = [_named(r.task, r.probe, r.stack, rows) for r in rows.itertuples()]
    figure = go.Figure()
    for name, column in (
        ("expected layer", "expected_layer"),
        ("centre of gravity", "centre_of_gravity"),
    ):
        told = ["undefined" if pd.isna(value) else f"{value:.2f}" for value in rows[column]]
        figure.add_trace(
            go.Bar(
                name=name,
                y=names,
                x=rows[column],
                orientation="h",
                text=told,
                textposition="outside",
                cliponaxis=False,
            )
        )
    figure.update_layout(barmode="group", height=140 + 52 * max(len(rows), 1))
    figure.update_xaxes(title="layer", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def selectivity(tables: Tables) -> go.Figure:
    """Each task by layer, and the same probe on labels drawn by word type."""
    means = whole(tables["means"])
    layers = means[(means["encoder"] == "model") & (means["mode"] == "layer")]
    if not layers["control"].any():
        raise KeyError("control")
    figure = go.Figure()
    for color, (task, own) in enumerate(layers.groupby("task", sort=False)):
        for control, dash in ((False, "solid"), (True, "dash")):
            part = own[own["control"] == control]
            for (probe, stack), line in part.groupby(["probe", "stack"], sort=False):
                name = _named(task, probe, stack, own) + (", control" if control else "")
                figure.add_trace(_line(line, name, name, dash, color))
    figure.update_layout(height=460)
    figure.update_xaxes(title="layer", dtick=1)
    figure.update_yaxes(title="F1", tickformat=".0%")
    return figure


def mixes(tables: Tables) -> go.Figure:
    """How much each layer counts in the mix that a probe learnt, mean over seeds."""
    mix = tables["mix"]
    mean = mix.groupby(["task", "probe", "stack", "layer"], sort=False)["weight"].mean()
    table = mean.reset_index()
    if table.empty:
        raise KeyError("mix")
    names = [_named(r.task, r.probe, r.stack, table) for r in table.itertuples()]
    wide = table.assign(name=names).pivot(index="name", columns="layer", values="weight")
    wide = wide.loc[list(dict.fromkeys(names))]
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(),
            x=list(wide.columns),
            y=list(wide.index),
            zmin=0,
            colorbar={"title": {"text": "weight"}},
            hovertemplate="%{y}, layer %{x}: %{z:.3f}<extra></extra>",
        )
    )
    figure.update_layout(height=160 + 28 * len(wide))
    figure.update_xaxes(title="layer", dtick=1)
    figure.update_yaxes(autorange="reversed", type="category")
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
            & (confusion["mode"].isin(["layer", "lexical", "top"]))
        ]
        if own.empty:
            continue
        figure.add_trace(confusion_map(own, visible=not names))
        names.append(f"{_named(row.task, row.probe, row.stack, summary)}, layer {row.best_layer}")
    if not names:
        raise KeyError("confusion")
    if len(names) > 1:
        shown = [[each == place for each in range(len(names))] for place in range(len(names))]
        buttons = [
            {"label": name, "method": "update", "args": [{"visible": visible}]}
            for name, visible in zip(names, shown, strict=True)
        ]
        menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
        figure.update_layout(updatemenus=[menu])
    figure.update_layout(height=520, margin={"t": 72})
    figure.update_xaxes(title="said", type="category")
    figure.update_yaxes(title="gold", autorange="reversed", type="category")
    return figure


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
        visible=visible,
        colorbar={"title": {"text": "share"}, "tickformat": ".0%"},
        hovertemplate="%{y} taken for %{x}: %{customdata} (%{z:.1%})<extra></extra>",
    )


def learning(tables: Tables) -> go.Figure:
    """The best layer by how many targets were learnt from."""
    means = tables["means"]
    model = means[(means["encoder"] == "model") & ~means["control"] & (means["mode"] == "layer")]
    if model["share"].nunique() < 2:
        raise KeyError("share")
    figure = go.Figure()
    for color, ((task, probe, stack), own) in enumerate(
        model.groupby(["task", "probe", "stack"], sort=False)
    ):
        best = own.loc[own.groupby("share")["mean"].idxmax()].sort_values("share")
        name = _named(task, probe, stack, model)
        figure.add_trace(_line(best, name, name, "solid", color, "share"))
    figure.update_layout(height=420)
    figure.update_xaxes(title="share of the targets", tickformat=".0%", type="log")
    figure.update_yaxes(title="F1", tickformat=".0%")
    return figure


def whole(means: pd.DataFrame) -> pd.DataFrame:
    """Of all targets there are to learn from."""
    largest: pd.DataFrame = means[means["share"] == means["share"].max()]
    return largest


COLORS = "#4269d0 #efb118 #ff725c #6cc5b0 #3ca951 #a463f2 #97bbf5 #9c6b4e #9498a0".split()


def _line(
    line: pd.DataFrame, name: str, group: str, dash: str, color: int, x: str = "layer"
) -> go.Scatter:
    return go.Scatter(
        x=line[x],
        y=line["mean"],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": (line["upper"] - line["mean"]).clip(lower=0),
            "arrayminus": (line["mean"] - line["lower"]).clip(lower=0),
            "thickness": 1,
        },
        mode="lines+markers",
        name=name if dash == "solid" or group == name else f"{name}, up to",
        line={"dash": dash, "color": COLORS[color % len(COLORS)]},
        hovertemplate="%{fullData.name}, %{x}: %{y:.1%}<extra></extra>",
    )


def _named(task: object, probe: object, stack: object, table: pd.DataFrame) -> str:
    """The task, with its probe and stack where there are several."""
    name = str(task)
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
