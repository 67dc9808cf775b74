"""Figures of what training changed, and of similar layers.

Pure functions of the tables of `drift` and `similarity`. Costs: milliseconds.
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
UNCHANGED = {"cka": 1.0, "procrustes": 0.0}  # values of a layer that did not change
ELSEWHERE = "no layer"
CELL, LEAST = 26, 9  # pixels of a layer in a matrix, and in a large one
FEW = 6  # maximum number of layers whose cells have room for two decimals
ACROSS = 3  # matrices in a row


def layers(tables: Tables) -> go.Figure:
    """Change of each layer by training: one panel per measure, one line per stack. Without change,
    CKA is 1 and the other measures are 0."""
    table = tables["drift"]
    measures = [name for name in MEASURES if table[name].notna().any()]
    parts, axes = [], []
    for name in measures:
        known = table[table[name].notna()]
        lines = [
            curve(
                rows["layer"],
                rows[name],
                f"{escaped(stack)} layer %{{x}}: {MEASURES[name]} %{{y:.4f}}",
                str(stack) if table["stack"].nunique() > 1 else None,
                index,
                COLOURS["light"][index],
            )
            for index, stack in enumerate(dict.fromkeys(table["stack"]))
            for rows in [known[known["stack"] == stack]]
        ]
        parts.append(("", lines))
        axes.append({"title": MEASURES[name], **_span(table[name], name)})
    x = {"title": "layer", "dtick": 1 if table["layer"].max() <= 24 else 4}
    return panels(parts, 120, gap=24, x=x, y=axes, shared=True, top=40)


def _span(values: pd.Series, measure: str) -> Look:
    """An axis from no change to the largest, in whole tenths, so that rounding does not fill it."""
    if measure not in UNCHANGED:
        return {} if measure == "probing_delta" else {"rangemode": "tozero"}
    unchanged = UNCHANGED[measure]
    largest_change = max(0.1, math.ceil(10 * float((values - unchanged).abs().max())) / 10)
    if unchanged:
        return {"range": [unchanged - largest_change, unchanged + 0.05 * largest_change]}
    return {"range": [0, 1.05 * largest_change]}


def modules(tables: Tables) -> go.Figure:
    """Distance that the weights of each module moved in training, as a share of their norm.
    Columns: layers."""
    table = tables["modules"]
    table = table[table["weight_distance"].notna()]
    several = table.loc[table["stack"] != "", "stack"].nunique() > 1
    columns = [
        ELSEWHERE if layer < 0 else f"{stack} {layer}" if several else str(layer)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = matrix(table["module"], columns, table["weight_distance"])
    wide = wide[sorted(wide.columns, key=lambda name: name == ELSEWHERE)]  # otherwise in order
    shown = heat_map(
        wide,
        "%{y}, layer %{x}: moved by %{z:.4f} of its norm",
        "share of norm",
        "%{z:.2g}",
        hoverongaps=False,
        **ends(table["weight_distance"], around=False),
    )
    return plot([shown], 120 + 22 * len(wide), _LAYERS, {**CELLS, **DOWN})


_LAYERS = {**CELLS, "type": "category", "title": "layer"}


def heads(tables: Tables) -> go.Figure:
    """Change of each head's attention on the same texts: Jensen-Shannon divergence, in bits. This
    figure counts layers from 0. Layer 0 here is layer 1 in the other figures, where layer 0 is the
    embeddings."""
    return grid(tables["heads"], "attention_js", "JS divergence (bits)")


def losses(tables: Tables) -> go.Figure:
    """Loss, perplexity and accuracy of the language model: after training minus before. Error bars:
    95 % bootstrap intervals over sentences."""
    table = tables["losses"]
    parts = []
    for index in range(len(table)):
        row = table.iloc[index : index + 1]
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
    """Change of the probe score at each layer, one row per task. Above 0: probes find more after
    training."""
    table = tables["probing"]
    several = table["stack"].nunique() > 1
    columns = [
        f"{stack} {layer}" if several else str(layer)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = matrix(table["task"], columns, table["delta"])
    top = largest(table["delta"])
    hover = "%{y}, layer %{x}: change of score %{z:+.4f}"
    shown = heat_map(wide, hover, "change", "%{z:+.2f}", zmin=-top, zmax=top)
    return plot([shown], 140 + 28 * len(wide), _LAYERS, {**CELLS, **DOWN})


def similarity(tables: Tables) -> go.Figure:
    """Similarity (CKA) of every layer of one model to every layer of another: one matrix per pair
    of models, on one colour scale."""
    table = tables["similarity"]
    parts = [part for _, part in table.groupby(["model_a", "model_b"], sort=False)]
    matrices = [_matrix(part) for part in parts]
    n_layers = max(max(wide.shape) for wide in matrices)
    size = n_layers * max(LEAST, min(CELL, 260 // n_layers)) if n_layers > 6 else 6 * CELL
    shown, columns, rows = [], [], []
    for part, wide in zip(parts, matrices, strict=True):
        first, second = (_short(part[f"model_{side}"].iloc[0]) for side in "ab")
        cells = heat_map(
            wide,
            f"{first} layer %{{y}}, {second} layer %{{x}}: CKA %{{z:.3f}}",
            form=f"%{{z:.{2 if n_layers <= FEW else 1}f}}" if n_layers <= WRITTEN else "",
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
    """CKA of one pair of models; e2 is layer 2 of the encoder.  # [layers, layers]"""
    sides = {}
    for side in "ab":
        several = part[f"stack_{side}"].nunique() > 1
        sides[side] = [
            f"{stack[:1]}{layer}" if several else str(layer)
            for stack, layer in zip(part[f"stack_{side}"], part[f"layer_{side}"], strict=True)
        ]
    return matrix(sides["a"], sides["b"], part["cka"])


def _short(name: object) -> str:
    """A name; the last part of a path."""
    return escaped(str(name).rstrip("/").rsplit("/", 1)[-1])


def rewound(tables: Tables) -> go.Figure:
    """Score on the task with one layer reset to its weights before fine-tuning. Lines: no layer
    reset, and all layers reset."""
    table = tables["rewound"]
    rows = table[~table["stack"].isin(("none", "all"))]
    whole, before = (table.loc[table["stack"] == name, "value"].iloc[0] for name in ("none", "all"))
    shown = bars(
        rows["value"],
        [f"layer {layer}" for layer in rows["layer"]],
        "%{x} reset: score %{y:.3f} (change %{customdata:+.3f})",
        upright=True,
        width=0.5,
        customdata=rows["change"],
    )
    y = {"title": str(rows["metric"].iloc[0])}
    figure = plot([shown], 320, {"type": "category"}, y)
    for value, name, dash, where in (
        (whole, "no layer reset", "solid", "top left"),
        (before, "all layers reset", "dot", "top right"),
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
