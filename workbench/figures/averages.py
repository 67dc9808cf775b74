"""Figures of what attention comes to over a corpus: by relative offset, and by pairs of tags.

Pure functions of the tables of `attention-averages`; they cost milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.core.experiment import HEAD

Tables = Mapping[str, pd.DataFrame]


def offsets(tables: Tables) -> go.Figure:
    """A row for every head, a column for every offset."""
    table = tables["offsets"]
    wide = table.assign(name=_names(table)).pivot(
        index="name", columns="offset", values="attention"
    )
    wide = wide.loc[list(dict.fromkeys(_names(table)))]  # in the order of the layers
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(),
            x=list(wide.columns),
            y=list(wide.index),
            zmin=0,
            colorbar={"title": {"text": "attention"}},
            hovertemplate="%{y}, offset %{x}: %{z:.3f}<extra></extra>",
        )
    )
    figure.update_layout(height=160 + 18 * len(wide))
    figure.update_xaxes(title="words to the right (left: negative)", dtick=2)
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def tags(tables: Tables) -> go.Figure:
    """Who looks at whom by part of speech, on average over the heads of each layer."""
    table = tables["tags"]
    figure = go.Figure()
    layers = list(table.groupby(["stack", "kind", "layer"], sort=False))
    names = []
    for place, ((stack, kind, layer), own) in enumerate(layers):
        mean = own.groupby(["tag", "to_tag"], sort=False)["attention"].mean().unstack()
        names.append(f"{stack} {kind}, layer {layer}")
        figure.add_trace(
            go.Heatmap(
                z=mean.to_numpy(),
                x=list(mean.columns),
                y=list(mean.index),
                zmin=0,
                visible=place == 0,
                colorbar={"title": {"text": "attention"}},
                hovertemplate="%{y} to %{x}: %{z:.3f}<extra></extra>",
            )
        )
    if len(layers) > 1:
        buttons = [
            {
                "label": name,
                "method": "update",
                "args": [{"visible": [each == place for each in range(len(layers))]}],
            }
            for place, name in enumerate(names)
        ]
        figure.update_layout(
            updatemenus=[{"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02,
                          "yanchor": "bottom"}]
        )  # fmt: skip
    figure.update_layout(height=480, margin={"t": 72})
    figure.update_xaxes(title="looked at", type="category")
    figure.update_yaxes(title="looks", autorange="reversed", type="category")
    return figure


def _names(table: pd.DataFrame) -> list[str]:
    rows = table[[*HEAD]].itertuples(index=False)
    several = len(table[["stack", "kind"]].drop_duplicates()) > 1
    return [
        f"{stack} {kind} {layer}.{head}" if several else f"layer {layer}, head {head}"
        for stack, kind, layer, head in rows
    ]


FIGURES = {"offsets": offsets, "tags": tags}
