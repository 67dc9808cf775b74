"""Figures of the page Words: the nearest occurrences by layer, and the pieces of words.

Pure functions of tables. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.words.occurrences import in_context
from workbench.core.head_names import state_name
from workbench.drawing.primitives import CELLS, DOWN, bars, heat_map, matrix, panels, plot
from workbench.drawing.theme import MODEL

ROOM = 30  # characters on either side of a word
ROWS = 20  # neighbours of a layer that are drawn
WORDS = 24  # words whose pieces are drawn


def nearest(table: pd.DataFrame) -> go.Figure:
    """The nearest occurrences of a word in their sentences, for each model, text and layer.

    How to read: a bar is the cosine similarity of an occurrence with the chosen word.
    """
    parts, heights = [], []
    kinds = [name for name in ("model", "text") if table[name].nunique() > 1]
    for (model, text, layer), rows in table[table["rank"] <= ROWS].groupby(
        ["model", "text", "layer"], sort=False
    ):
        names = [
            f"{rank}. {in_context(sentence, start, end, ROOM)}"
            for rank, sentence, start, end in rows[["rank", "sentence", "start", "end"]].itertuples(
                index=False
            )
        ]
        title = {"model": str(model), "text": f"text {text}"}
        heading = ", ".join([*(title[name] for name in kinds), state_name(layer)])
        parts.append((heading, [bars(rows["similarity"], names, "%{y}: %{x:.3f}", colour=MODEL)]))
        heights.append(20 * len(rows) + 10)
    return panels(parts, heights, x={"title": "cosine similarity"}, y=DOWN, top=4)


def pieces(table: pd.DataFrame) -> go.Figure:
    """The number of pieces of each word (rows) by each model; the first words of a long text.

    How to read: point at a cell to read the pieces.
    """
    table = table[table["index"] < WORDS]
    names = (table["index"] + 1).astype(str) + ". " + table["word"]
    wide, texts = (matrix(names, table["model"], table[name]) for name in ("n_pieces", "pieces"))
    hover = "%{y}, %{x}: %{z} pieces, %{text}"
    cells = heat_map(wide, hover, "pieces", "%{z}", zmin=0, text=texts.to_numpy())
    return plot([cells], 90 + 26 * len(wide), {**CELLS, "side": "top"}, {**CELLS, **DOWN})
