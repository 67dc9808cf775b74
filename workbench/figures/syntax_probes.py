"""Figures of the structural probe and of the attention probe.

Pure functions of the tables of `structural-probe` and `attention-probe`. Costs: milliseconds.
"""

from collections.abc import Sequence
from itertools import product
from math import cos, pi, sin

import plotly.graph_objects as go

from workbench.figures.primitives import (
    CELLS,
    DOWN,
    Tables,
    Trace,
    bars,
    choice,
    curve,
    faded,
    heat_map,
    interval,
    largest,
    level,
    marks,
    matrix,
    panels,
    plot,
    tick,
)
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, EITHER, MARKS

STEPS = 16  # of an arc
RANDOM = ", random weights"
GREY = COLOURS["light"][4]  # of baselines
NAMES = {
    "uuas": "edges right (UUAS)",
    "dspr": "distance correlation (DSpr)",
    "root": "roots right",
    "nspr": "depth correlation (NSpr)",
}


def structure_by_layer(tables: Tables) -> go.Figure:
    """Every measure at each layer, with baselines: words in a chain, static vectors and the same
    model with random weights. Layer 0 is the embeddings. Error bars: 95 % bootstrap intervals.
    Faded marks: not above the chain or random weights. Hollow marks: still improving on dev at the
    maximum number of epochs."""
    table = tables["means"]
    stacks = list(dict.fromkeys(table.loc[table["encoder"] == "model", "stack"]))
    deepest = max(int(table["layer"].max()), 1) if len(table) else 1
    parts = []
    for metric, of_metric in table.groupby("metric", sort=False):
        traces = []
        for index, (stack, encoder) in enumerate(product(stacks, ("model", "random"))):
            rows = of_metric[(of_metric["encoder"] == encoder) & (of_metric["stack"] == stack)]
            name = f"{stack}{RANDOM if encoder == 'random' else ''}"
            traces.append(
                curve(
                    rows["layer"],
                    rows["value"],
                    f"{escaped(name)}, layer %{{x}}: %{{y:.3f}}",
                    name,
                    index,
                    GREY if encoder == "random" else EITHER,
                    faded(rows, MARKS[index % len(MARKS)]),
                    error_y=interval(rows, "value"),
                )
            )
        for index, encoder in enumerate(("chain", "static"), start=len(traces)):
            values = of_metric.loc[of_metric["encoder"] == encoder, "value"][:1]
            traces += [
                level([0, deepest], value, f"{encoder}: %{{y:.3f}}", encoder, index, colour=GREY)
                for value in values
            ]
        parts.append((NAMES.get(str(metric), metric), traces))
    x = {"title": "layer", "dtick": tick(deepest)}
    return panels(parts, 270, max(len(parts), 1), x=x, apart=0.28)


def tree(tables: Tables) -> go.Figure:
    """A sentence of the held-out split: gold edges above the words, predicted edges of the best
    layer below. Select a sentence in the menu."""
    parts = []
    for (stack, _), rows in tables["trees"].groupby(["stack", "sentence"], sort=False):
        traces = []
        for column, side, name in (("head", 1, "gold"), ("neighbour", -1, "predicted")):
            x, y = _arcs(rows[column].tolist(), side)
            traces.append(curve(x, y, "", name, int(side < 0), mode="lines", hoverinfo="skip"))
        words = [escaped(word) for word in rows["word"]]
        traces.append(
            marks(
                [*range(len(rows))],
                [0.0] * len(rows),
                "%{text}",
                mode="text",
                text=words,
            )
        )
        parts.append((f"{stack}, sentence {int(rows['sentence'].iloc[0]) + 1}", traces))
    bare = {"visible": False}
    return choice(parts, 420, 1.12, x=bare, y=bare, margin={"t": 96})


def _arcs(heads: Sequence[int], side: int) -> tuple[list[float | None], list[float | None]]:
    """Half ellipses between connected words, as one line with gaps; head -1: no edge."""
    x: list[float | None] = []
    y: list[float | None] = []
    for word, head in enumerate(heads):
        if head < 0:
            continue
        first, last = min(word, head), max(word, head)
        for step in range(STEPS + 1):
            angle = pi * step / STEPS
            x.append((first + last) / 2 - (last - first) / 2 * cos(angle))
            y.append(side * (0.25 + (last - first) / 2 * sin(angle)))
        x.append(None)
        y.append(None)
    return x, y


STRUCTURAL_PROBE_FIGURES = {"layers": structure_by_layer, "tree": tree}


# --- figures of the attention probe: layers with baselines, weights of heads, and relations -------

DIRECTIONS = {
    "weight_to_head": "attention from word to its head",
    "weight_from_head": "attention from head to word",
}
MAX_RELATIONS = 20


def attachment_by_layer(tables: Tables) -> go.Figure:
    """Share of words that the probe attaches to their gold head. It reads the attention heads of
    one layer, or of all layers. Baselines: random weights, static vectors without attention, and
    the best fixed offset. Error bars: 95 % bootstrap intervals. Faded marks: not above that offset
    or the control task. Hollow marks: the training stopped before the optimum."""
    means, summary = tables["means"], tables["summary"]
    means = means[~means["control"].astype(bool)]
    names = {layer: "all" if layer < 0 else str(layer) for layer in means["layer"]}
    order = [names[layer] for layer in sorted(names, key=lambda layer: (layer < 0, layer))]
    traces = []
    known = means[means["layer"] >= 0].groupby(["probe", "encoder", "stack"], sort=False)
    for index, (key, _) in enumerate(known):
        rows = means[(means[["probe", "encoder", "stack"]] == list(key)).all(axis=1)].sort_values(
            "layer", key=lambda layers: layers.where(layers >= 0, layers.max() + 1)
        )
        name = f"{key[2]}: {key[0]}{RANDOM if key[1] == 'random' else ''}"
        traces.append(
            curve(
                [names[layer] for layer in rows["layer"]],
                rows["value"],
                f"{escaped(name)}, layer %{{x}}: %{{y:.1%}}",
                name,
                index,
                marker=faded(rows, MARKS[index % len(MARKS)]),
                error_y=interval(rows, "value"),
            )
        )
    lines = [("words", value) for value in means.loc[means["probe"] == "words", "value"]]
    lines += [("best offset", value) for value in summary["baseline_offset"][:1]]
    traces += [
        level(order, value, f"{name}: %{{y:.1%}}", name, index)
        for index, (name, value) in enumerate(lines, start=len(traces))
    ]
    return plot(
        traces,
        420,
        {"title": "layer of the attention heads", "type": "category", "categoryarray": order},
        {"title": "words attached to the gold head", "tickformat": ".0%", "rangemode": "tozero"},
    )


def weights(tables: Tables) -> go.Figure:
    """Weight of each attention head in the probe that reads all heads, in both directions."""
    table = tables["weights"]
    several = table["stack"].nunique() > 1
    top = largest(table[list(DIRECTIONS)])
    parts: list[tuple[str, list[Trace]]] = []
    for stack, rows in table.groupby("stack", sort=False):
        for direction, about in DIRECTIONS.items():
            wide = matrix(rows["layer"], rows["head"], rows[direction])
            cells = heat_map(
                wide,
                "layer %{y}, head %{x}: %{z:.2f}",
                "weight",
                gap=0,
                zmin=-top,
                zmax=top,
                showscale=not parts,
            )
            parts.append((f"{stack}: {about}" if several else about, [cells]))
    y = {**CELLS, "title": "layer", "dtick": 1, "autorange": "reversed"}
    return panels(parts, 240, 2, x={**CELLS, "title": "head", "dtick": 1}, y=y, top=8)


def relations(tables: Tables) -> go.Figure:
    """Share of words attached to their gold head by relation, with the best fixed offset of each
    relation as baseline."""
    table = tables["by_relation"]
    frequent = list(dict.fromkeys(table["relation"]))[:MAX_RELATIONS]
    table = table[table["relation"].isin(frequent)]
    traces = []
    for (stack, probe), rows in table.groupby(["stack", "probe"], sort=False):
        name = str(probe) if stack == "static" else f"{stack}: {probe}"
        hover = f"%{{y}}, {escaped(name)}: %{{x:.1%}}, n = %{{customdata:,}}"
        traces.append(bars(rows["uas"], rows["relation"], hover, name, None, customdata=rows["n"]))
    first = table.drop_duplicates("relation")
    traces.append(
        marks(
            first["baseline"],
            first["relation"],
            "%{y}, offset %{customdata}: %{x:.1%}",
            "best offset",
            symbol="line-ns-open",
            size=18,
            marker={"line": {"width": 3}},
            cliponaxis=False,
            customdata=first["offset"],
        )
    )
    x = {"title": "words attached to the gold head", "tickformat": ".0%", "range": [0, 1]}
    return plot(traces, 160 + 46 * len(frequent), x, DOWN, barmode="group")


ATTENTION_PROBE_FIGURES = {
    "layers": attachment_by_layer,
    "weights": weights,
    "relations": relations,
}
