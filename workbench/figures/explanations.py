"""Figures of the explanation of one prediction: attribution, and contributions of parts.

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


def contributions(tables: Tables) -> go.Figure:
    """The direct contribution of each head and MLP to one prediction, the last layer on top.

    How to read: blue parts speak for the prediction, orange ones against it.
    """
    table = tables["parts"]
    order = [list(dict.fromkeys(table[name])) for name in ("layer", "part")]
    wide = table.pivot(index="layer", columns="part", values="contribution")
    wide = wide.loc[order[0], order[1]]
    cells = heat_map(wide, "%{y}, %{x}: %{z:+.4f}", form="%{z:+.2f}", **ends(table["contribution"]))
    return plot([cells], 110 + 24 * len(wide), {**CELLS, "side": "top"}, {**CELLS, **DOWN})


def _numbered(texts: pd.Series) -> list[str]:
    """Texts made different by invisible marks, so that a category axis keeps equal ones apart."""
    seen: dict[str, int] = {}
    names = []
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        names.append(f"{text}{f' ({seen[text]})' if seen[text] > 1 else ''}")
    return names
