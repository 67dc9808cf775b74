"""Figures of what training has changed, and of layers that are alike.

Pure functions of the tables of `drift` and `similarity`; they cost milliseconds.
"""

import math
from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import (
    CELLS,
    DOWN,
    WRITTEN,
    Draw,
    Look,
    Tables,
    bars,
    curve,
    ends,
    heat_map,
    interval,
    largest,
    matrix,
    panels,
    plot,
)
from workbench.figures.pruning import grid
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS

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
ACROSS = 3  # matrices beside one another


def layers(tables: Tables) -> go.Figure:
    """What each layer has come to: a panel a measure, a line a stack."""
    table = tables["drift"]
    there = [name for name in MEASURES if table[name].notna().any()]
    parts, axes = [], []
    for name in there:
        known = table[table[name].notna()]
        lines = [
            curve(
                own["layer"],
                own[name],
                f"{escaped(stack)} layer %{{x}}: {MEASURES[name]} %{{y:.4f}}",
                str(stack) if table["stack"].nunique() > 1 else None,
                place,
                COLOURS["light"][place],
            )
            for place, stack in enumerate(dict.fromkeys(table["stack"]))
            for own in [known[known["stack"] == stack]]
        ]
        parts.append(("", lines))
        axes.append({"title": MEASURES[name], **_span(table[name], name)})
    x = {"title": "layer", "dtick": 1 if table["layer"].max() <= 24 else 4}
    return panels(parts, 120, gap=24, x=x, y=axes, shared=True, top=40)


def _span(values: pd.Series, measure: str) -> Look:
    """From no change to the largest, in whole tenths: rounding alone does not fill it."""
    if measure not in UNCHANGED:
        return {} if measure == "probing_delta" else {"rangemode": "tozero"}
    still = UNCHANGED[measure]
    farthest = max(0.1, math.ceil(10 * float((values - still).abs().max())) / 10)
    return {"range": [still - farthest, still + 0.05 * farthest] if still else [0, 1.05 * farthest]}


def modules(tables: Tables) -> go.Figure:
    """How far each module's weights moved, a layer a column."""
    table = tables["modules"]
    table = table[table["weight_distance"].notna()]
    several = table.loc[table["stack"] != "", "stack"].nunique() > 1
    where = [
        ELSEWHERE if layer < 0 else f"{stack} {layer}" if several else str(layer)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = matrix(table["module"], where, table["weight_distance"])
    wide = wide[sorted(wide.columns, key=lambda name: name == ELSEWHERE)]  # else as they come
    shown = heat_map(
        wide,
        "%{y}, layer %{x}: moved %{z:.4f} of its norm",
        "moved",
        "%{z:.2g}",
        hoverongaps=False,
        **ends(table["weight_distance"], around=False),
    )
    return plot([shown], 120 + 22 * len(wide), _LAYERS, {**CELLS, **DOWN})


_LAYERS = {**CELLS, "type": "category", "title": "layer"}


def heads(tables: Tables) -> go.Figure:
    """How differently each head looks at the same texts. Layers of heads count from 0: the first is
    layer 1 of the other views, whose layer 0 are the embeddings."""
    return grid(tables["heads"], "attention_js", "bits")


def losses(tables: Tables) -> go.Figure:
    """What has come to each measure of the language model, with its interval."""
    table = tables["losses"]
    parts = []
    for place in range(len(table)):
        row = table.iloc[place : place + 1]
        name = str(row["metric"].iloc[0]).replace("_", " ")
        shown = bars(
            row["change"],
            [name],
            f"{name}: %{{customdata[0]:.4g}} before, %{{customdata[1]:.4g}} after, "
            "change %{y:+.4g}",
            upright=True,
            spread=interval(row, "change"),
            width=0.5,
            customdata=row[["before", "after"]],
        )
        parts.append(("", [shown]))
    x, y = {"type": "category"}, {"title": "change"}
    return panels(parts, 240, len(parts), x=x, y=y, top=8, apart=0.24)


def probing(tables: Tables) -> go.Figure:
    """What probes find more, or less, in each layer: a task a row."""
    table = tables["probing"]
    several = table["stack"].nunique() > 1
    where = [
        f"{stack} {layer}" if several else str(layer)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = matrix(table["task"], where, table["delta"])
    top = largest(table["delta"])
    hover = "%{y}, layer %{x}: %{z:+.4f}"
    shown = heat_map(wide, hover, "change", "%{z:+.2f}", zmin=-top, zmax=top)
    return plot([shown], 140 + 28 * len(wide), _LAYERS, {**CELLS, **DOWN})


def similarity(tables: Tables) -> go.Figure:
    """Layers by layers, a matrix for every two models, one scale for all."""
    table = tables["similarity"]
    parts = [part for _, part in table.groupby(["model_a", "model_b"], sort=False)]
    matrices = [_matrix(part) for part in parts]
    most = max(max(wide.shape) for wide in matrices)
    size = most * max(LEAST, min(CELL, 260 // most)) if most > 6 else 6 * CELL
    shown, columns, rows = [], [], []
    for part, wide in zip(parts, matrices, strict=True):
        first, second = (_short(part[f"model_{side}"].iloc[0]) for side in "ab")
        cells = heat_map(
            wide,
            f"{first} %{{y}}, {second} %{{x}}: CKA %{{z:.3f}}",
            form=f"%{{z:.{2 if most <= FEW else 1}f}}" if most <= WRITTEN else "",
            gap=1,
            coloraxis="coloraxis",
        )
        shown.append(("", [cells]))
        columns.append({**CELLS, "title": second, "type": "category"})
        rows.append({**CELLS, **DOWN, "title": first})
    low = min(0.0, float(table["cka"].min()))
    scale = {"cmin": low, "cmax": 1, "colorbar": {"title": {"text": "CKA"}}}
    return panels(shown, size, ACROSS, 84, columns, rows, top=20, apart=0.28, coloraxis=scale)


def _matrix(part: pd.DataFrame) -> pd.DataFrame:
    """One pair of models; e2 is layer 2 of the encoder.  # [layers, layers]"""
    sides = {}
    for side in "ab":
        several = part[f"stack_{side}"].nunique() > 1
        sides[side] = [
            f"{stack[:1]}{layer}" if several else str(layer)
            for stack, layer in zip(part[f"stack_{side}"], part[f"layer_{side}"], strict=True)
        ]
    return matrix(sides["a"], sides["b"], part["cka"])


def _short(name: object) -> str:
    """The end of a name, where it is a path."""
    return escaped(str(name).rstrip("/").rsplit("/", 1)[-1])


def rewound(tables: Tables) -> go.Figure:
    """The score on the task with one layer put back as it was before; the lines: with none, with
    all."""
    table = tables["rewound"]
    own = table[~table["stack"].isin(("none", "all"))]
    whole, before = (table.loc[table["stack"] == name, "value"].iloc[0] for name in ("none", "all"))
    shown = bars(
        own["value"],
        [f"layer {layer}" for layer in own["layer"]],
        "%{x} put back: %{y:.3f} (%{customdata:+.3f})",
        upright=True,
        width=0.5,
        customdata=own["change"],
    )
    y = {"title": str(own["metric"].iloc[0])}
    figure = plot([shown], 320, {"type": "category"}, y)
    for value, name, dash, where in (
        (whole, "none put back", "solid", "top left"),
        (before, "all put back", "dot", "top right"),
    ):
        figure.add_hline(
            y=value,
            line={"width": 1, "dash": dash},
            annotation={"text": name, "yshift": 2},
            annotation_position=where,
        )
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
