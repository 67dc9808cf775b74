"""Figures of what training has changed, and of layers that are alike.

Pure functions of the tables of `drift` and `similarity`; they cost milliseconds.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.pruning import grid
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, DASHES, EITHER, MARKS

Tables = Mapping[str, pd.DataFrame]
MEASURES = {
    "cka": "CKA",
    "procrustes": "Procrustes distance",
    "weight_distance": "weight distance",
    "attention_js": "attention, bits",
    "probing_delta": "probing, change",
}
UNCHANGED = {"cka": 1.0, "procrustes": 0.0}  # of a layer that is what it was
ELSEWHERE = "no layer"
CELL, LEAST = 26, 9  # pixels of a layer in a matrix, and where there are many
FEW = 6  # layers beside each other whose cells have room for two decimals
WRITTEN = 12  # layers beside each other whose cells have numbers
ACROSS = 3  # matrices beside one another


def layers(tables: Tables) -> go.Figure:
    """What each layer has come to: a panel a measure, a line a stack."""
    table = tables["drift"]
    there = [name for name in MEASURES if table[name].notna().any()]
    stacks = list(dict.fromkeys(table["stack"]))
    figure = make_subplots(len(there), 1, shared_xaxes=True, vertical_spacing=0.16 / len(there))
    for row, name in enumerate(there, start=1):
        for place, stack in enumerate(stacks):
            own = table[(table["stack"] == stack) & table[name].notna()]
            figure.add_trace(
                go.Scatter(
                    x=own["layer"],
                    y=own[name],
                    mode="lines+markers",
                    name=stack,
                    legendgroup=stack,
                    showlegend=row == 1 and len(stacks) > 1,
                    line={"color": COLOURS["light"][place], "dash": DASHES[place]},
                    marker={"symbol": MARKS[place]},
                    hovertemplate=f"{stack} layer %{{x}}: {MEASURES[name]} %{{y:.4f}}"
                    "<extra></extra>",
                ),
                row,
                1,
            )
        figure.update_yaxes(title=MEASURES[name], row=row, col=1)
        if name in UNCHANGED:
            figure.update_yaxes(range=_tenths(table[name], UNCHANGED[name]), row=row, col=1)
        elif name != "probing_delta":
            figure.update_yaxes(rangemode="tozero", row=row, col=1)
    figure.update_xaxes(dtick=1 if table["layer"].max() <= 24 else 4)
    figure.update_xaxes(title="layer", row=len(there), col=1)
    figure.update_layout(height=90 + 150 * len(there))
    return figure


def _tenths(values: pd.Series, still: float) -> list[float]:
    """A range from no change to the largest, in whole tenths: rounding alone does not fill it."""
    farthest = max(0.1, math.ceil(10 * float((values - still).abs().max())) / 10)
    return [still - farthest, still + 0.05 * farthest] if still else [0, 1.05 * farthest]


def modules(tables: Tables) -> go.Figure:
    """How far each module's weights moved, a layer a column."""
    table = tables["modules"]
    table = table[table["weight_distance"].notna()]
    several = table.loc[table["stack"] != "", "stack"].nunique() > 1
    where = [
        ELSEWHERE if layer < 0 else f"{stack} {layer}" if several else str(layer)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = table.assign(where=where).pivot(
        index="module", columns="where", values="weight_distance"
    )
    columns = sorted(dict.fromkeys(where), key=lambda name: name == ELSEWHERE)  # else as they come
    wide = wide.loc[list(dict.fromkeys(table["module"])), columns]
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(dtype=float),
            x=list(wide.columns),
            y=list(wide.index),
            zmin=0,
            zmax=float(table["weight_distance"].max()) or 1.0,
            autocolorscale=True,
            texttemplate="%{z:.2g}" if len(wide.columns) <= WRITTEN else "",
            colorbar={"title": {"text": "moved"}},
            xgap=2,
            ygap=1,
            hoverongaps=False,
            hovertemplate="%{y}, layer %{x}: moved %{z:.4f} of its norm<extra></extra>",
        )
    )
    figure.update_xaxes(type="category", title="layer", showgrid=False)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    figure.update_layout(height=120 + 22 * len(wide))
    return figure


def heads(tables: Tables) -> go.Figure:
    """How differently each head looks at the same texts. Layers of heads count from 0: the first is
    layer 1 of the other views, whose layer 0 are the embeddings."""
    return grid(tables["heads"], "attention_js", "bits")


def losses(tables: Tables) -> go.Figure:
    """What has come to each measure of the language model, with its interval."""
    table = tables["losses"]
    figure = make_subplots(1, len(table), horizontal_spacing=0.24 / len(table))
    for column, row in enumerate(table.itertuples(), start=1):
        name, change = str(row.metric).replace("_", " "), float(str(row.change))
        figure.add_trace(
            go.Bar(
                x=[name],
                y=[change],
                width=0.5,
                marker={"color": EITHER},
                error_y={
                    "array": [float(str(row.upper)) - change],
                    "arrayminus": [change - float(str(row.lower))],
                    "thickness": 1,
                },
                customdata=[[row.before, row.after]],
                hovertemplate=f"{name}: %{{customdata[0]:.4g}} before, %{{customdata[1]:.4g}} "
                "after, change %{y:+.4g}<extra></extra>",
                showlegend=False,
            ),
            1,
            column,
        )
    figure.update_xaxes(type="category")
    figure.update_yaxes(title="change", col=1)
    figure.update_layout(height=320)
    return figure


def probing(tables: Tables) -> go.Figure:
    """What probes find more, or less, in each layer: a task a row."""
    table = tables["probing"]
    several = table["stack"].nunique() > 1
    where = [
        f"{stack} {layer}" if several else str(layer)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = table.assign(where=where).pivot(index="task", columns="where", values="delta")
    wide = wide.loc[list(dict.fromkeys(table["task"])), list(dict.fromkeys(where))]
    largest = float(table["delta"].abs().max()) or 1.0
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(dtype=float),
            x=list(wide.columns),
            y=list(wide.index),
            zmin=-largest,
            zmax=largest,
            autocolorscale=True,
            texttemplate="%{z:+.2f}" if len(wide.columns) <= WRITTEN else "",
            colorbar={"title": {"text": "change"}},
            xgap=2,
            ygap=2,
            hovertemplate="%{y}, layer %{x}: %{z:+.4f}<extra></extra>",
        )
    )
    figure.update_xaxes(type="category", title="layer", showgrid=False)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    figure.update_layout(height=140 + 28 * len(wide))
    return figure


def similarity(tables: Tables) -> go.Figure:
    """Layers by layers, a matrix for every two models, one scale for all."""
    table = tables["similarity"]
    pairs = [part for _, part in table.groupby(["model_a", "model_b"], sort=False)]
    across = min(ACROSS, len(pairs))
    down = -(-len(pairs) // across)
    matrices = [_matrix(part) for part in pairs]
    largest = max(max(wide.shape) for wide in matrices)
    size = largest * max(LEAST, min(CELL, 260 // largest)) if largest > 6 else 6 * CELL
    tall = down * size + (down - 1) * 84
    figure = make_subplots(
        down,
        across,
        horizontal_spacing=0.28 / across,
        vertical_spacing=84 / tall if down > 1 else 0,
    )
    for place, (part, wide) in enumerate(zip(pairs, matrices, strict=True)):
        row, column = place // across + 1, place % across + 1
        first, second = (_short(part[f"model_{side}"].iloc[0]) for side in "ab")
        figure.add_trace(
            go.Heatmap(
                z=wide.to_numpy(dtype=float),
                x=list(wide.columns),
                y=list(wide.index),
                coloraxis="coloraxis",
                texttemplate=f"%{{z:.{2 if largest <= FEW else 1}f}}" if largest <= WRITTEN else "",
                xgap=1,
                ygap=1,
                hovertemplate=f"{first} %{{y}}, {second} %{{x}}: CKA %{{z:.3f}}<extra></extra>",
            ),
            row,
            column,
        )
        figure.update_xaxes(title=second, row=row, col=column)
        figure.update_yaxes(title=first, row=row, col=column)
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    figure.update_layout(
        height=tall + 110,
        coloraxis={"cmin": min(0.0, float(table["cka"].min())), "cmax": 1,
                   "colorbar": {"title": {"text": "CKA"}}},
    )  # fmt: skip
    return figure


def _matrix(part: pd.DataFrame) -> pd.DataFrame:
    """One pair of models; e2 is layer 2 of the encoder.  # [layers, layers]"""
    sides = {}
    for side in "ab":
        several = part[f"stack_{side}"].nunique() > 1
        sides[side] = [
            f"{stack[:1]}{layer}" if several else str(layer)
            for stack, layer in zip(part[f"stack_{side}"], part[f"layer_{side}"], strict=True)
        ]
    wide = part.assign(a=sides["a"], b=sides["b"]).pivot(index="a", columns="b", values="cka")
    return wide.loc[list(dict.fromkeys(sides["a"])), list(dict.fromkeys(sides["b"]))]


def _short(name: object) -> str:
    """The end of a name, where it is a path."""
    return escaped(str(name).rstrip("/").rsplit("/", 1)[-1])


Draw = Any


def rewound(tables: Tables) -> go.Figure:
    """The score on the task with one layer put back as it was before; the lines: with none, with
    all."""
    table = tables["rewound"]
    own = table[~table["stack"].isin(("none", "all"))]
    whole, before = (table.loc[table["stack"] == name, "value"].iloc[0] for name in ("none", "all"))
    figure = go.Figure(
        go.Bar(
            x=[f"layer {layer}" for layer in own["layer"]],
            y=own["value"],
            width=0.5,
            marker={"color": EITHER},
            customdata=own["change"],
            hovertemplate="%{x} put back: %{y:.3f} (%{customdata:+.3f})<extra></extra>",
            showlegend=False,
        )
    )
    lines = (
        (whole, "none put back", "solid", "top left"),
        (before, "all put back", "dot", "top right"),
    )
    for value, name, dash, where in lines:
        figure.add_hline(
            y=value,
            line={"width": 1, "dash": dash},
            annotation={"text": name, "yshift": 2},
            annotation_position=where,
        )
    figure.update_xaxes(type="category")
    figure.update_yaxes(title=str(own["metric"].iloc[0]))
    figure.update_layout(height=320)
    return figure


DRIFT: Mapping[str, Draw] = {
    "drift": layers,
    "modules": modules,
    "heads": heads,
    "losses": losses,
    "probing": probing,
    "rewound": rewound,
    "similarity": similarity,
}
SIMILARITY: Mapping[str, Draw] = {"similarity": similarity}
