"""Figures of what attention comes to over a corpus: by relative offset, and by pairs of tags.

Pure functions of the tables of `attention-averages`; they cost milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.experiment import HEAD
from workbench.figures.primitives import DOWN, Tables, choice, heat_map, matrix, plot


def offsets(tables: Tables) -> go.Figure:
    """A row for every head, a column for every offset."""
    table = tables["offsets"]
    wide = matrix(_names(table), table["offset"], table["attention"])
    cells = heat_map(wide, "%{y}, offset %{x}: %{z:.3f}", "attention", gap=0, zmin=0)
    x = {"title": "words to the right (left: negative)", "dtick": 2}
    return plot([cells], 160 + 18 * len(wide), x, DOWN)


def tags(tables: Tables) -> go.Figure:
    """Who looks at whom by part of speech, on average over the heads of each layer."""
    parts = []
    for (stack, kind, layer), own in tables["tags"].groupby([*HEAD[:3]], sort=False):
        mean = own.groupby(["tag", "to_tag"], sort=False)["attention"].mean().unstack()
        cells = heat_map(mean, "%{y} to %{x}: %{z:.3f}", "attention", gap=0, zmin=0)
        parts.append((f"{stack} {kind}, layer {layer}", [cells]))
    x = {"title": "looked at", "type": "category"}
    return choice(parts, 480, x=x, y={"title": "looks", **DOWN}, margin={"t": 72})


def _names(table: pd.DataFrame) -> list[str]:
    several = len(table[[*HEAD[:2]]].drop_duplicates()) > 1
    return [
        f"{stack} {kind} {layer}.{head}" if several else f"layer {layer}, head {head}"
        for stack, kind, layer, head in table[[*HEAD]].itertuples(index=False)
    ]


FIGURES = {"offsets": offsets, "tags": tags}
