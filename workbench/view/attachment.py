"""Figures of the attention probe: layers next to baselines, weights of heads, and relations.

Pure functions of the tables of `attention-probe`; they cost milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.theme import DASHES, MARKS, marked

Tables = Mapping[str, pd.DataFrame]
DIRECTIONS = {"weight_to_head": "what a word gives its head", "weight_from_head": "what it gets"}
MOST = 20  # relations shown


def layers(tables: Tables) -> go.Figure:
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


FIGURES = {"layers": layers, "weights": weights, "relations": relations}
