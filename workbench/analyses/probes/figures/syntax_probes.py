"""Figures of the structural probe and of the attention probe.

Pure functions of the tables of `structural-probe` and `attention-probe`. The model has one colour,
its stacks differ by dash, and what it is compared with is grey. Costs: milliseconds.
"""

from collections.abc import Sequence
from math import cos, pi, sin

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.core.head_names import FIRST
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    STATE,
    Look,
    Trace,
    at_data,
    band,
    choice,
    curve,
    heat_map,
    interval,
    largest,
    level,
    marks,
    matrix,
    name_beyond,
    panels,
    plot,
    state_axis,
    symbols,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, CONTROL, MARKS, MODEL, NOT_SIGNIFICANT

STEPS = 16  # of an arc
NAMES = {
    "uuas": "edges right (UUAS)",
    "dspr": "distances (DSpr)",
    "root": "roots right",
    "nspr": "depths (NSpr)",
}
BASELINES = {"chain": "chain of words", "static": "static vectors"}


def structure_by_layer(tables: Tables) -> go.Figure:
    """Every measure of the trees at each layer: shares of edges and roots, rank correlations.

    How to read: bands are 95 % bootstrap intervals; grey lines are the baselines, ↓ is one below
    the axis. Grey marks are not above the chain or random weights; hollow marks did not converge.
    emb.: embeddings. Sentences name random weights at their own best layer on dev.
    """
    table = tables["means"]
    stacks = list(dict.fromkeys(table.loc[table["encoder"] == "model", "stack"]))
    deepest = max(int(table["layer"].max()), 1) if len(table) else 1
    parts = []
    for metric, of_metric in table.groupby("metric", sort=False):
        traces: list[Trace] = []
        for index, (encoder, name) in enumerate(BASELINES.items()):
            values = of_metric.loc[of_metric["encoder"] == encoder, "value"][:1]
            hover = f"{name}: %{{y:.3f}}"
            traces += [
                level([0, deepest], value, hover, name, 2 + index, colour=BASELINE)
                for value in values
            ]
        for index, stack in enumerate(stacks):
            of_stack = of_metric[of_metric["stack"] == stack].sort_values("layer")
            random = of_stack[of_stack["encoder"] == "random"]
            traces.append(_by_layer(random, "random weights", 1 + 3 * index, BASELINE))
            rows = of_stack[of_stack["encoder"] == "model"]
            name = str(stack) if len(stacks) > 1 else "model"
            if len(stacks) == 1:
                traces.append(_band(rows, name))
            traces.append(_by_layer(rows, name, index, MODEL))
        parts.append((NAMES.get(str(metric), metric), traces))
    x = state_axis(deepest)
    y = {"title": "score", "zeroline": False}
    looks = at_data(parts, y, 210, 4)
    return name_beyond(panels(parts, 210, 4, x={"matches": "x", **x}, y=looks, apart=0.3))


def _band(rows: pd.DataFrame, name: str) -> go.Scatter:
    ends = rows["lower"].tolist(), rows["upper"].tolist()
    return band(rows["layer"].tolist(), *ends, MODEL, escaped(name))


def _by_layer(
    rows: pd.DataFrame, name: str, index: int, colour: str, form: str = ".3f", where: str = STATE
) -> Trace:
    """A curve with its intervals in the hover; grey marks did not learn, hollow ones were cut."""
    shown = [
        f" ({low:{form}} to {high:{form}})"
        for low, high in zip(rows["lower"], rows["upper"], strict=True)
    ]
    colours = [colour if learnt else BASELINE for learnt in rows["learnt"]]
    marker: Look = {
        "symbol": symbols(rows, MARKS[index % len(MARKS)], ""),
        "color": colours,
        "line": {"color": colours},
        "size": 7 if colour == MODEL else 5,
    }
    hover = f"{escaped(name)}, {where}: %{{y:{form}}}%{{text}}"
    return curve(rows["layer"], rows["value"], hover, name, index, colour, marker, text=shown)


def tree(tables: Tables) -> go.Figure:
    """Sentences of the held-out split with their trees; predicted edges are of the best layer.

    How to read: gold edges are above the words, predicted edges below; dotted edges are not in the
    gold tree. The menu selects a sentence.
    """
    parts = []
    for (stack, _), rows in tables["trees"].groupby(["stack", "sentence"], sort=False):
        heads, others = rows["head"].tolist(), rows["neighbour"].tolist()
        gold = {frozenset(edge) for edge in enumerate(heads)}
        right = [other if {word, other} in gold else -1 for word, other in enumerate(others)]
        wrong = [-1 if {word, other} in gold else other for word, other in enumerate(others)]
        traces = []
        for edges, side, name, style, colour in (
            (heads, 1, "gold", 0, CONTROL),
            (right, -1, "predicted, in the gold tree", 0, MODEL),
            (wrong, -1, "predicted, not in the gold tree", 2, MODEL),
        ):
            x, y = _arcs(edges, side)
            traces.append(curve(x, y, "", name, style, colour, mode="lines", hoverinfo="skip"))
        look: Look = {"mode": "text", "text": list(rows["word"])}
        traces.append(marks([*range(len(rows))], [0.0] * len(rows), "%{text}", **look))
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
    "weight_to_head": "attention from word to its governor",
    "weight_from_head": "attention from governor to word",
}
MAX_RELATIONS = 20
ALL = -1  # the layer of a probe that reads all heads
PROBES = {"attention": "attention", "attention and words": "attention and word vectors"}


def attachment_by_layer(tables: Tables) -> go.Figure:
    """Share of words attached to their gold head, from the heads of one layer and from all heads.

    How to read: the right end is the probe of all heads; grey lines are the baselines, ↓ is one
    below the axis. Grey marks
    are not above the best offset and the control task; hollow marks did not reach their optimum.
    Bars: 95 % bootstrap intervals.
    """
    means = tables["means"]
    stacks = list(dict.fromkeys(means.loc[means["encoder"] == "model", "stack"]))
    layers = sorted({int(layer) + FIRST for layer in means["layer"] if layer >= 0})
    right = (layers[-1] if layers else 0) + 1
    offset = means.loc[means["encoder"] == "model", "baseline"][:1]
    words = means.loc[(means["probe"] == "words") & ~means["control"].astype(bool), "value"]
    parts = []
    for probe, title in PROBES.items():
        rows = means[means["probe"] == probe]
        rows = rows.assign(layer=(rows["layer"] + FIRST).where(rows["layer"] >= 0, right))
        if rows.empty:
            continue
        traces: list[Trace] = []
        for name, values, style in (("best offset", offset, 2), ("words alone", words, 5)):
            if name == "best offset" or probe != "attention":
                hover = f"{name}: %{{y:.1%}}"
                ends = [layers[0] if layers else 0, right]
                traces += [level(ends, v, hover, name, style, colour=BASELINE) for v in values]
        for index, stack in enumerate(stacks):
            of_stack = rows[rows["stack"] == stack].sort_values("layer")
            is_control = of_stack["control"].astype(bool)
            name = str(stack) if len(stacks) > 1 else "model"
            for encoder, control, label, style, colour in (
                ("random", False, "random weights", 1, BASELINE),
                ("model", True, "control task", 3, CONTROL),
                ("model", False, name, index, MODEL),
            ):
                own = of_stack[(of_stack["encoder"] == encoder) & (is_control == control)]
                if len(own) and not (control and index):
                    one = own["layer"] < right
                    traces.append(_by_layer(own[one], label, style, colour, ".1%"))
                    traces[-1].name = None  # the name is at the end, of the probe of all heads
                    of_all = own[~one], label, style, colour, ".1%", "all layers"
                    traces.append(_by_layer(*of_all))
                    if colour == MODEL and len(stacks) == 1:
                        traces[-2].error_y = interval(own[one], "value")
                        traces[-1].error_y = interval(own[~one], "value")
        parts.append((title, traces))
    if not parts:
        raise KeyError("attention")
    names = [*map(str, layers), "all"]
    x = {"title": "layer", "tickvals": [*layers, right], "ticktext": names, "zeroline": False}
    y = {"title": "UAS", "tickformat": ".0%"}
    looks = at_data(parts, y, 260, 2)
    return name_beyond(panels(parts, 260, 2, x={"matches": "x", **x}, y=looks, apart=0.2))


def weights(tables: Tables) -> go.Figure:
    """Weight of each attention head in the probe that reads all heads, in both directions.

    How to read: a positive weight means that the probe follows this head; both maps have one scale.
    """
    table = tables["weights"]
    several = table["stack"].nunique() > 1
    top = largest(table[list(DIRECTIONS)])
    parts: list[tuple[str, list[Trace]]] = []
    for stack, rows in table.groupby("stack", sort=False):
        for direction, about in DIRECTIONS.items():
            wide = matrix(rows["layer"] + FIRST, rows["head"] + FIRST, rows[direction])
            cells = heat_map(
                wide,
                "head %{y}.%{x}: %{z:.2f}",
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
    """Share of words attached to their gold head by the probes of all heads, for each relation.

    How to read: blue right of grey is a relation that the heads find more often than its best fixed
    offset does. The most frequent relations are on top.
    """
    table = tables["by_relation"]
    frequent = list(dict.fromkeys(table["relation"]))[:MAX_RELATIONS]
    table = table[table["relation"].isin(frequent)]
    several = table.loc[table["stack"] != "static", "stack"].nunique() > 1
    first = table.drop_duplicates("relation")
    hover = "%{y}, offset %{customdata}: %{x:.1%}"
    offset: Look = {"cliponaxis": False, "customdata": first["offset"]}
    traces = [
        marks(
            first["baseline"],
            first["relation"],
            hover,
            "best offset",
            BASELINE,
            "line-ns-open",
            16,
            {"line": {"width": 3, "color": BASELINE}},
            **offset,
        )
    ]
    order = {"words": 0, "attention and words": 1, "attention": 2}
    groups = sorted(
        table.groupby(["stack", "probe"], sort=False),
        key=lambda each: order.get(str(each[1]["probe"].iloc[0]), 3),
    )
    stacks = list(dict.fromkeys(table.loc[table["stack"] != "static", "stack"]))
    for (stack, probe), rows in groups:
        is_words = stack == "static"
        name = "words alone" if is_words else PROBES.get(str(probe), str(probe))
        name += f", {stack}" if several and not is_words else ""
        mark = "diamond" if is_words else MARKS[stacks.index(stack) % 2]
        look: Look = {"cliponaxis": False, "customdata": rows["n"]}
        text = f"%{{y}}, {escaped(name)}: %{{x:.1%}}, n = %{{customdata:,}}"
        traces.append(
            marks(
                rows["uas"],
                rows["relation"],
                text,
                name,
                NOT_SIGNIFICANT if is_words else MODEL,
                mark if probe != "attention and words" else f"{mark}-open",
                9,
                **look,
            )
        )
    x = {"title": "UAS", "tickformat": ".0%", "zeroline": False}
    return plot(traces, 150 + 24 * len(frequent), x, DOWN)


ATTENTION_PROBE_FIGURES = {
    "layers": attachment_by_layer,
    "weights": weights,
    "relations": relations,
}
