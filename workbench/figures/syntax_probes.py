"""Figures of the structural probe: layers and their baselines, and predicted trees and gold ones.

Pure functions of the tables of `structural-probe`; they cost milliseconds.
"""

from collections.abc import Mapping, Sequence
from math import cos, pi, sin

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, DASHES, EITHER, MARKS, marked

Tables = Mapping[str, pd.DataFrame]
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
    metrics = list(dict.fromkeys(table["metric"]))
    titles = [NAMES.get(str(metric), escaped(str(metric))) for metric in metrics]
    figure = make_subplots(1, max(len(metrics), 1), subplot_titles=titles, horizontal_spacing=0.07)
    stacks = list(dict.fromkeys(table.loc[table["encoder"] == "model", "stack"]))
    deepest = max(int(table["layer"].max()), 1) if len(table) else 1
    for column, metric in enumerate(metrics, start=1):
        own = table[table["metric"] == metric]
        for place, stack in enumerate(stacks):
            for encoder in ("model", "random"):
                rows = own[(own["encoder"] == encoder) & (own["stack"] == stack)]
                look = 2 * place + (encoder == "random")
                name = f"{stack}" if encoder == "model" else f"{stack}{RANDOM}"
                figure.add_trace(_curve(rows, name, look, column == 1), 1, column)
        for place, encoder in enumerate(("chain", "static"), start=2 * len(stacks)):
            rows = own[own["encoder"] == encoder]
            figure.add_trace(_line(rows, encoder, place, deepest, column == 1), 1, column)
        figure.update_xaxes(title="layer", dtick=1 if deepest <= 12 else 4, row=1, col=column)
    figure.update_layout(height=400, margin={"t": 96}, legend={"y": 1.12})
    return figure


def _curve(rows: pd.DataFrame, name: str, place: int, named: bool) -> go.Scatter:
    colour = GREY if name.endswith(RANDOM) else EITHER
    return go.Scatter(
        x=rows["layer"],
        y=rows["value"],
        name=name,
        legendgroup=name,
        showlegend=named,
        mode="lines+markers",
        line={"dash": DASHES[place % len(DASHES)], "color": colour},
        marker=marked(rows["learnt"], rows["converged"], MARKS[place % len(MARKS)]),
        error_y={
            "type": "data",
            "symmetric": False,
            "array": rows["upper"] - rows["value"],
            "arrayminus": rows["value"] - rows["lower"],
        },
        hovertemplate=f"{escaped(name)}, layer %{{x}}: %{{y:.3f}}<extra></extra>",
    )


def _line(rows: pd.DataFrame, name: str, place: int, deepest: int, named: bool) -> go.Scatter:
    value = list(rows["value"])[:1] * 2
    return go.Scatter(
        x=[0, deepest][: len(value)],
        y=value,
        name=name,
        legendgroup=name,
        showlegend=named,
        mode="lines",
        line={"dash": DASHES[place % len(DASHES)], "color": GREY},
        hovertemplate=f"{escaped(name)}: %{{y:.3f}}<extra></extra>",
    )


def tree(tables: Tables) -> go.Figure:
    """A sentence of the held-out split: gold edges above the words, predicted ones below, of the
    best layer. A menu chooses among sentences."""
    table = tables["trees"]
    figure = go.Figure()
    sentences = list(table.groupby(["stack", "sentence"], sort=False))
    names = []
    for place, ((stack, _), own) in enumerate(sentences):
        words = [escaped(str(word)) for word in own["word"]]
        names.append(f"{stack}, sentence {int(own['sentence'].iloc[0]) + 1}")
        gold, found = own["head"].tolist(), own["neighbour"].tolist()
        for edges, side, name in ((gold, 1, "gold"), (found, -1, "predicted")):
            x, y = _arcs(edges, side)
            figure.add_trace(
                go.Scatter(
                    x=x,
                    y=y,
                    mode="lines",
                    name=name,
                    visible=place == 0,
                    line={"dash": "solid" if side > 0 else "dash"},
                    hoverinfo="skip",
                )
            )
        figure.add_trace(
            go.Scatter(
                x=list(range(len(words))),
                y=[0.0] * len(words),
                text=words,
                mode="text",
                visible=place == 0,
                showlegend=False,
                hovertemplate="%{text}<extra></extra>",
            )
        )
    if len(sentences) > 1:
        buttons = [
            {
                "label": escaped(name),
                "method": "update",
                "args": [{"visible": [each // 3 == place for each in range(3 * len(names))]}],
            }
            for place, name in enumerate(names)
        ]
        figure.update_layout(
            updatemenus=[{"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.12,
                          "yanchor": "bottom"}]
        )  # fmt: skip
    figure.update_layout(height=420, margin={"t": 96})
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


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
    figure = go.Figure()
    names = {layer: "all" if layer < 0 else str(layer) for layer in means["layer"]}
    order = [names[layer] for layer in sorted(names, key=lambda layer: (layer < 0, layer))]
    series = list(means[means["layer"] >= 0].groupby(["probe", "encoder", "stack"], sort=False))
    for place, ((probe, encoder, stack), _) in enumerate(series):
        rows = means[
            (means["probe"] == probe) & (means["encoder"] == encoder) & (means["stack"] == stack)
        ].sort_values("layer", key=lambda layers: layers.where(layers >= 0, layers.max() + 1))
        weights = ", random weights" if encoder == "random" else ""
        name = escaped(f"{stack}: {probe}{weights}")
        figure.add_trace(
            go.Scatter(
                x=[names[layer] for layer in rows["layer"]],
                y=rows["value"],
                name=name,
                mode="lines+markers",
                line={"dash": DASHES[place % len(DASHES)]},
                marker=marked(rows["learnt"], rows["converged"], MARKS[place % len(MARKS)]),
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": rows["upper"] - rows["value"],
                    "arrayminus": rows["value"] - rows["lower"],
                },
                hovertemplate=f"{name}, layer %{{x}}: %{{y:.1%}}<extra></extra>",
            )
        )
    lines = [("words", value) for value in means.loc[means["probe"] == "words", "value"]]
    lines += [("best offset", value) for value in summary["baseline_offset"][:1]]
    for place, (name, value) in enumerate(lines, start=len(series)):
        figure.add_trace(
            go.Scatter(
                x=order,
                y=[value] * len(order),
                name=name,
                mode="lines",
                line={"dash": DASHES[place % len(DASHES)]},
                hovertemplate=f"{name}: %{{y:.1%}}<extra></extra>",
            )
        )
    figure.update_layout(height=420)
    figure.update_xaxes(title="heads of layer", type="category", categoryarray=order)
    figure.update_yaxes(title="attached to the gold head", tickformat=".0%", rangemode="tozero")
    return figure


def weights(tables: Tables) -> go.Figure:
    """How much the probe that sees every head makes of each, in both directions."""
    table = tables["weights"]
    stacks = list(dict.fromkeys(table["stack"]))
    titles = [
        f"{escaped(str(stack))}: {about}" if len(stacks) > 1 else about
        for stack in stacks
        for about in DIRECTIONS.values()
    ]
    figure = make_subplots(max(len(stacks), 1), len(DIRECTIONS), subplot_titles=titles)
    for row, stack in enumerate(stacks, start=1):
        own = table[table["stack"] == stack]
        for column, direction in enumerate(DIRECTIONS, start=1):
            wide = own.pivot(index="layer", columns="head", values=direction)
            figure.add_trace(
                go.Heatmap(
                    z=wide.to_numpy(),
                    x=list(wide.columns),
                    y=list(wide.index),
                    coloraxis="coloraxis",
                    hovertemplate="layer %{y}, head %{x}: %{z:.2f}<extra></extra>",
                ),
                row,
                column,
            )
            figure.update_xaxes(title="head", dtick=1, row=row, col=column)
            figure.update_yaxes(title="layer", dtick=1, autorange="reversed", row=row, col=column)
    figure.update_layout(
        height=120 + 260 * max(len(stacks), 1),
        margin={"t": 48},
        coloraxis={"cmid": 0, "colorbar": {"title": {"text": "weight"}}},
    )
    return figure


def relations(tables: Tables) -> go.Figure:
    """Words attached to their head by relation, next to that relation's best fixed offset."""
    table = tables["by_relation"]
    kept = list(dict.fromkeys(table["relation"]))[:MOST]
    table = table[table["relation"].isin(kept)]
    figure = go.Figure()
    for (stack, probe), own in table.groupby(["stack", "probe"], sort=False):
        name = str(probe) if stack == "static" else f"{stack}: {probe}"
        figure.add_trace(
            go.Bar(
                y=[escaped(str(relation)) for relation in own["relation"]],
                x=own["uas"],
                name=escaped(name),
                orientation="h",
                customdata=own["n"],
                hovertemplate=f"%{{y}}, {escaped(name)}: %{{x:.1%}}, "
                "n = %{customdata:,}<extra></extra>",
            )
        )
    first = table.drop_duplicates("relation")
    figure.add_trace(
        go.Scatter(
            y=[escaped(str(relation)) for relation in first["relation"]],
            x=first["baseline"],
            name="best offset",
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 18, "line": {"width": 3}},
            cliponaxis=False,
            customdata=first["offset"],
            hovertemplate="%{y}, offset %{customdata}: %{x:.1%}<extra></extra>",
        )
    )
    figure.update_layout(height=160 + 46 * len(kept), barmode="group")
    figure.update_xaxes(title="attached to the gold head", tickformat=".0%", range=[0, 1])
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


ATTENTION_PROBE_FIGURES = {
    "layers": attachment_by_layer,
    "weights": weights,
    "relations": relations,
}
