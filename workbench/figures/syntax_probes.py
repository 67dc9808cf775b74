"""Figures of the structural probe: layers and their baselines, and predicted trees and gold ones.

Pure functions of the tables of `structural-probe`; they cost milliseconds.
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
GREY = COLOURS["light"][4]  # of baselines, in every panel alike
NAMES = {
    "uuas": "edges right (UUAS)",
    "dspr": "rank of distances (DSpr)",
    "root": "roots right",
    "nspr": "rank of depths (NSpr)",
}


def structure_by_layer(tables: Tables) -> go.Figure:
    """Every measure by layer with 95 % intervals, words in a chain, static vectors and the same
    model with random weights. Layer 0 is the embeddings. Faded markers: no better than the chain or
    random weights. Hollow markers: cut off while dev still gained."""
    table = tables["means"]
    stacks = list(dict.fromkeys(table.loc[table["encoder"] == "model", "stack"]))
    deepest = max(int(table["layer"].max()), 1) if len(table) else 1
    parts = []
    for metric, own in table.groupby("metric", sort=False):
        shown = []
        for place, (stack, encoder) in enumerate(product(stacks, ("model", "random"))):
            rows = own[(own["encoder"] == encoder) & (own["stack"] == stack)]
            name = f"{stack}{RANDOM if encoder == 'random' else ''}"
            shown.append(
                curve(
                    rows["layer"],
                    rows["value"],
                    f"{escaped(name)}, layer %{{x}}: %{{y:.3f}}",
                    name,
                    place,
                    GREY if encoder == "random" else EITHER,
                    faded(rows, MARKS[place % len(MARKS)]),
                    error_y=interval(rows, "value"),
                )
            )
        for place, encoder in enumerate(("chain", "static"), start=len(shown)):
            values = own.loc[own["encoder"] == encoder, "value"][:1]
            shown += [
                level([0, deepest], value, f"{encoder}: %{{y:.3f}}", encoder, place, colour=GREY)
                for value in values
            ]
        parts.append((NAMES.get(str(metric), metric), shown))
    x = {"title": "layer", "dtick": tick(deepest)}
    return panels(parts, 270, max(len(parts), 1), x=x, apart=0.28)


def tree(tables: Tables) -> go.Figure:
    """A sentence of the held-out split: gold edges above the words, predicted ones below, of the
    best layer. A menu chooses among sentences."""
    parts = []
    for (stack, _), own in tables["trees"].groupby(["stack", "sentence"], sort=False):
        shown = []
        for column, side, name in (("head", 1, "gold"), ("neighbour", -1, "predicted")):
            x, y = _arcs(own[column].tolist(), side)
            place = int(side < 0)
            shown.append(curve(x, y, "", name, place, mode="lines", hoverinfo="skip"))
        words = [escaped(word) for word in own["word"]]
        shown.append(
            marks([*range(len(own))], [0.0] * len(own), "%{text}", mode="text", text=words)
        )
        parts.append((f"{stack}, sentence {int(own['sentence'].iloc[0]) + 1}", shown))
    bare = {"visible": False}
    return choice(parts, 420, 1.12, x=bare, y=bare, margin={"t": 96})


def _arcs(heads: Sequence[int], side: int) -> tuple[list[float | None], list[float | None]]:
    """Half ellipses from each word to another, as one line with gaps; -1 is no edge."""
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


# --- figures of the attention probe: layers next to baselines, weights of heads, and relations ----
#
# Pure functions of the tables of `attention-probe`; they cost milliseconds.

DIRECTIONS = {"weight_to_head": "what a word gives its head", "weight_from_head": "what it gets"}
MOST = 20  # relations shown


def attachment_by_layer(tables: Tables) -> go.Figure:
    """Words attached to their head by the heads of one layer, and of all, with 95 % intervals; next
    to them random weights, words without attention, and the best fixed offset. Faded markers: no
    better than that offset or the control task. Hollow markers: cut off before the optimum."""
    means, summary = tables["means"], tables["summary"]
    means = means[~means["control"].astype(bool)]
    names = {layer: "all" if layer < 0 else str(layer) for layer in means["layer"]}
    order = [names[layer] for layer in sorted(names, key=lambda layer: (layer < 0, layer))]
    shown = []
    known = means[means["layer"] >= 0].groupby(["probe", "encoder", "stack"], sort=False)
    for place, (key, _) in enumerate(known):
        rows = means[(means[["probe", "encoder", "stack"]] == list(key)).all(axis=1)].sort_values(
            "layer", key=lambda layers: layers.where(layers >= 0, layers.max() + 1)
        )
        name = f"{key[2]}: {key[0]}{RANDOM if key[1] == 'random' else ''}"
        shown.append(
            curve(
                [names[layer] for layer in rows["layer"]],
                rows["value"],
                f"{escaped(name)}, layer %{{x}}: %{{y:.1%}}",
                name,
                place,
                marker=faded(rows, MARKS[place % len(MARKS)]),
                error_y=interval(rows, "value"),
            )
        )
    lines = [("words", value) for value in means.loc[means["probe"] == "words", "value"]]
    lines += [("best offset", value) for value in summary["baseline_offset"][:1]]
    shown += [
        level(order, value, f"{name}: %{{y:.1%}}", name, place)
        for place, (name, value) in enumerate(lines, start=len(shown))
    ]
    return plot(
        shown,
        420,
        {"title": "heads of layer", "type": "category", "categoryarray": order},
        {"title": "attached to the gold head", "tickformat": ".0%", "rangemode": "tozero"},
    )


def weights(tables: Tables) -> go.Figure:
    """How much the probe that sees every head makes of each, in both directions."""
    table = tables["weights"]
    several = table["stack"].nunique() > 1
    top = largest(table[list(DIRECTIONS)])
    parts: list[tuple[str, list[Trace]]] = []
    for stack, own in table.groupby("stack", sort=False):
        for direction, about in DIRECTIONS.items():
            wide = matrix(own["layer"], own["head"], own[direction])
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
    """Words attached to their head by relation, next to that relation's best fixed offset."""
    table = tables["by_relation"]
    kept = list(dict.fromkeys(table["relation"]))[:MOST]
    table = table[table["relation"].isin(kept)]
    shown = []
    for (stack, probe), own in table.groupby(["stack", "probe"], sort=False):
        name = str(probe) if stack == "static" else f"{stack}: {probe}"
        hover = f"%{{y}}, {escaped(name)}: %{{x:.1%}}, n = %{{customdata:,}}"
        shown.append(bars(own["uas"], own["relation"], hover, name, None, customdata=own["n"]))
    first = table.drop_duplicates("relation")
    shown.append(
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
    x = {"title": "attached to the gold head", "tickformat": ".0%", "range": [0, 1]}
    return plot(shown, 160 + 46 * len(kept), x, DOWN, barmode="group")


ATTENTION_PROBE_FIGURES = {
    "layers": attachment_by_layer,
    "weights": weights,
    "relations": relations,
}
