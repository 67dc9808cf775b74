"""Figures of mean attention over a corpus: by relative offset, and by pairs of tags.

Pure functions of the tables of `attention-averages`. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.experiment import HEAD
from workbench.figures.primitives import DOWN, Tables, choice, heat_map, matrix, plot


def offsets(tables: Tables) -> go.Figure:
    """Mean attention of each head (row) at each relative offset (column). Negative offsets: to the
    left."""
    table = tables["offsets"]
    wide = matrix(_names(table), table["offset"], table["attention"])
    cells = heat_map(
        wide, "%{y}, offset %{x}: mean attention %{z:.3f}", "mean attention", gap=0, zmin=0
    )
    x = {"title": "offset, in words (left: negative)", "dtick": 2}
    return plot([cells], 160 + 18 * len(wide), x, DOWN)


def tags(tables: Tables) -> go.Figure:
    """Mean attention between parts of speech, over the heads of each layer. Rows: the attending
    word; columns: the word attended to. Choose the layer in the menu."""
    parts = []
    for (stack, kind, layer), rows in tables["tags"].groupby([*HEAD[:3]], sort=False):
        mean = rows.groupby(["tag", "to_tag"], sort=False)["attention"].mean().unstack()
        cells = heat_map(
            mean, "%{y} to %{x}: mean attention %{z:.3f}", "mean attention", gap=0, zmin=0
        )
        parts.append((f"{stack} {kind}, layer {layer}", [cells]))
    x = {"title": "tag attended to", "type": "category"}
    return choice(
        parts, 480, x=x, y={"title": "tag of the attending word", **DOWN}, margin={"t": 72}
    )


def _names(table: pd.DataFrame) -> list[str]:
    several = len(table[[*HEAD[:2]]].drop_duplicates()) > 1
    return [
        f"{stack} {kind} {layer}.{head}" if several else f"layer {layer}, head {head}"
        for stack, kind, layer, head in table[[*HEAD]].itertuples(index=False)
    ]


FIGURES = {"offsets": offsets, "tags": tags}
