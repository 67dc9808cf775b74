"""Figures of the explanation of one prediction: attribution, lens, and contributions.

Pure functions of tables, for the page Predict & explain. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import CELLS, DOWN, Tables, bars, ends, heat_map, plot
from workbench.figures.theme import BASELINE, MODEL


def attribution(tables: Tables) -> go.Figure:
    """The attribution of one prediction to each unit of the text, in reading order.

    How to read: bars to the right speak for the prediction, bars to the left against it.
    """
    table = tables["units"]
    names = _numbered(table["unit"])
    return plot(
        [
            bars(
                table["score"],
                names,
                "%{y}: %{x:.4f}",
                marker={"color": [BASELINE if fixed else MODEL for fixed in table["fixed"]]},
            )
        ],
        90 + 22 * len(table),
        {"title": "attribution"},
        DOWN,
    )


def cells(tables: Tables) -> go.Figure:
    """Layers (rows) and positions, choices or heads (columns) of one prediction.

    How to read: the darker a cell, the larger its value; the text in it is what the layer predicts.
    """
    table = tables["cells"]
    wide = table.pivot(index="row", columns="column", values="value")
    order = {name: list(dict.fromkeys(table[name])) for name in ("row", "column")}
    wide = wide.loc[order["row"], order["column"]]
    texts = table.pivot(index="row", columns="column", values="text").loc[
        order["row"], order["column"]
    ]
    shown = heat_map(
        wide, "%{y}, %{x}: %{z:.3f}", form="%{text}", text=texts.to_numpy(), **ends(table["value"])
    )
    return plot([shown], 110 + 24 * len(wide), {**CELLS, "side": "top"}, {**CELLS, **DOWN})


def _numbered(texts: pd.Series) -> list[str]:
    """Texts made different by invisible marks, so that a category axis keeps equal ones apart."""
    seen: dict[str, int] = {}
    names = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        names.append(f"{text}{f' ({seen[text]})' if seen[text] > 1 else ''}")
    return names
