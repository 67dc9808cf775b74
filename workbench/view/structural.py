"""Figures of the structural probe: layers and their baselines, and predicted trees and gold ones.

Pure functions of the tables of `structural-probe`; they cost milliseconds.
"""

from collections.abc import Mapping, Sequence
from math import cos, pi, sin

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.theme import COLOURS, DASHES, EITHER, MARKS, marked

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


def layers(tables: Tables) -> go.Figure:
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


FIGURES = {"layers": layers, "tree": tree}
