"""Figures of what training changed, and of similar layers.

Pure functions of the tables of `drift` and `similarity`. Costs: milliseconds.
"""

import math
from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.transfer.findings import ERROR, significant
from workbench.core.findings import Tables
from workbench.core.head_names import EMBEDDINGS, state_name
from workbench.core.metrics import spelt
from workbench.drawing.heads import grid
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    SHORT,
    STATE,
    WRITTEN,
    Draw,
    Look,
    Trace,
    bars,
    curve,
    ends,
    heat_map,
    heat_maps,
    interval,
    largest,
    level,
    matrix,
    panels,
    plot,
    state_axis,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import MODEL, NOT_SIGNIFICANT, SERIES, TUNED

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
    """Change of each layer by training, one measure in each panel.

    How to read: without change, CKA is 1 and the other measures are 0.
    emb.: the embeddings.
    """
    table = tables["drift"]
    measures = [name for name in MEASURES if table[name].notna().any()]
    several = table["stack"].nunique() > 1
    parts, axes = [], []
    for name in measures:
        known = table[table[name].notna()]
        lines = [
            curve(
                rows["layer"],
                rows[name],
                f"{escaped(stack)} {STATE}: {MEASURES[name]} %{{y:.4f}}",
                str(stack) if several else None,
                index,
                SERIES[index % len(SERIES)],
            )
            for index, stack in enumerate(dict.fromkeys(table["stack"]))
            for rows in [known[known["stack"] == stack]]
        ]
        parts.append(("", lines))
        axes.append({"title": MEASURES[name], **_span(table[name], name)})
    x = state_axis(table["layer"].max())
    return panels(parts, 120, gap=24, x=x, y=axes, shared=True, top=None if several else 4)


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
    """Distance that the weights of each module moved in training, as a share of their norm before.

    How to read: a column is a layer, a row a module; the darker, the further it moved.
    """
    table = tables["modules"]
    table = table[table["weight_distance"].notna()]
    several = table.loc[table["stack"] != "", "stack"].nunique() > 1
    columns = [
        ELSEWHERE if layer < 0 else _state(stack, layer, several)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = matrix(table["module"], columns, table["weight_distance"])
    wide = wide[sorted(wide.columns, key=lambda name: name == ELSEWHERE)]  # otherwise in order
    shown = heat_map(
        wide,
        "%{y}, %{x}: moved by %{z:.4f} of its norm",
        "share of norm",
        "%{z:.2g}",
        hoverongaps=False,
        **ends(table["weight_distance"], around=False),
    )
    return plot([shown], 120 + 22 * len(wide), _layers(wide), {**CELLS, **DOWN})


def _state(stack: object, layer: int, several: bool) -> str:
    """The name of a layer, with its stack if there are several."""
    return f"{stack} {state_name(layer)}" if several else state_name(layer)


def _layers(wide: pd.DataFrame) -> Look:
    """The axis of columns that are layers, by their short names."""
    short = [_short_state(str(name)) for name in wide.columns]
    axis = {"type": "category", "title": "layer", "tickvals": [*wide.columns], "ticktext": short}
    return {**CELLS, **axis}


def _short_state(name: str) -> str:
    """A layer as `2` or `emb.`; `e2` is layer 2 of an encoder."""
    if name == ELSEWHERE:
        return name
    stack, _, number = name.replace("layer ", "").replace(EMBEDDINGS, SHORT).rpartition(" ")
    return f"{stack[:1]}{number}" if number != SHORT else f"{stack[:1]} {number}".strip()


def heads(tables: Tables) -> go.Figure:
    """Change of each head's attention on the same texts: Jensen-Shannon divergence, in bits.

    How to read: a row is a layer, a column a head. 0 bits: the same attention; 1 bit: no overlap.
    """
    return grid(tables["heads"], "attention_js", "JS divergence (bits)")


def losses(tables: Tables) -> go.Figure:
    """Change of the language model's loss (nats per piece), perplexity and accuracy by training.

    How to read: after minus before, with 95 % bootstrap intervals over sentences; grey: the
    interval includes 0. Forgetting is a loss above 0.
    """
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
            colour=TUNED
            if row["lower"].iloc[0] > 0 or row["upper"].iloc[0] < 0
            else NOT_SIGNIFICANT,
            spread=interval(row, "change"),
            width=0.5,
            customdata=row[["before", "after"]],
        )
        parts.append(("", [shown]))
    x, y = {"type": "category"}, {"title": "change"}
    return panels(parts, 240, len(parts), x=x, y=y, top=8, apart=0.24)


def probing(tables: Tables) -> go.Figure:
    """Change of the probes' score by training, in points (score × 100).

    How to read: a row is a task, a column a layer; above 0, probes find more after training; grey:
    not significant after Holm's correction.
    """
    table = tables["probing"]
    several = table["stack"].nunique() > 1
    columns = [
        _state(stack, layer, several)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    wide = 100 * matrix(table["task"], columns, table["delta"])
    sure = matrix(table["task"], columns, significant(table))
    top = largest(wide)
    hover = "%{y}, %{x}: change of score %{z:+.1f}"
    shown = heat_maps(wide, sure, hover, title="points", form="%{z:+.1f}", zmin=-top, zmax=top)
    return plot(shown, 140 + 28 * len(wide), _layers(wide), {**CELLS, **DOWN})


def similarity(tables: Tables) -> go.Figure:
    """Similarity of every layer of one model to every layer of another: debiased linear CKA.

    How to read: a row is a layer of the first model (↓), a column one of the second (→); 1 is the
    same up to rotation, scale and shift, 0 is unrelated. emb. are the embeddings; e2 is layer 2 of
    an encoder, d2 of a decoder. All matrices have one colour scale.
    """
    table = tables["similarity"]
    parts = [part for _, part in table.groupby(["model_a", "model_b"], sort=False)]
    matrices = [_matrix(part) for part in parts]
    n_layers = max(max(wide.shape) for wide in matrices)
    size = n_layers * max(LEAST, min(CELL, 260 // n_layers)) if n_layers > 6 else 6 * CELL
    low = min(0.0, float(table["cka"].min()))
    shown: list[tuple[str, list[Trace]]] = []
    columns, rows = [], []
    for part, wide in zip(parts, matrices, strict=True):
        first, second = (_short(part[f"model_{side}"].iloc[0]) for side in "ab")
        cells = heat_map(
            wide,
            f"{escaped(first)} %{{y}}, {escaped(second)} %{{x}}: CKA %{{z:.3f}}",
            form=f"%{{z:.{2 if n_layers <= FEW else 1}f}}" if n_layers <= WRITTEN else "",
            gap=1,
            title="CKA",
            zmin=low,
            zmax=1,
            showscale=not shown,
        )
        shown.append((f"{first} ↓ {second} →", [cells]))
        columns.append({**_layers(wide), "title": None})  # the title of the panel says it
        rows.append({**_layers(wide.T), **DOWN, "title": None})
    return panels(shown, size, ACROSS, 96, columns, rows, top=20, apart=0.28)


def _matrix(part: pd.DataFrame) -> pd.DataFrame:
    """CKA of one pair of models.  # [layers, layers]"""
    sides = {}
    for side in "ab":
        several = part[f"stack_{side}"].nunique() > 1
        sides[side] = [
            _state(stack, layer, several)
            for stack, layer in zip(part[f"stack_{side}"], part[f"layer_{side}"], strict=True)
        ]
    return matrix(sides["a"], sides["b"], part["cka"])


def _short(name: object) -> str:
    """A name; the last part of a path."""
    return str(name).rstrip("/").rsplit("/", 1)[-1]


def rewound(tables: Tables) -> go.Figure:
    """Score on the task (metric × 100) with one layer's weights reset to those before training.

    How to read: the lower a bar, the more the task needs what training changed in this layer; grey:
    no significant change (Holm's correction); lines: no layer reset, and all layers reset.
    """
    table = tables["rewound"]
    rows = table[~table["stack"].isin(("none", "all"))]
    scale = 1 if rows["metric"].iloc[0] == ERROR else 100
    values = scale * table.set_index("stack")["value"]
    sure = significant(rows, value="change")
    names = [state_name(layer) for layer in rows["layer"]]
    shown = [
        bars(
            scale * rows["value"],
            names,
            "%{x} reset: score %{y:.1f} (change %{customdata:+.1f})",
            upright=True,
            marker={"color": [TUNED if each else NOT_SIGNIFICANT for each in sure]},
            width=0.5,
            customdata=scale * rows["change"],
        ),
        *(
            level([names[0], names[-1]], float(values[key]), f"{name}: %{{y:.1f}}", name, style,
                  colour=colour)
            for key, name, style, colour in (
                ("none", "no layer reset", 0, TUNED), ("all", "all layers reset", 2, MODEL)
            )
        ),
    ]  # fmt: skip
    times = f" × {scale}" if scale > 1 else ""
    title = f"{spelt(rows['metric'].iloc[0])}{times}"
    return plot(shown, 320, {"type": "category"}, {"title": title, "rangemode": "tozero"})


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
