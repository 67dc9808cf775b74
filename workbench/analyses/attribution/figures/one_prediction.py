"""The figure of the attribution of one prediction. A pure function of its table.

Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import percent
from workbench.drawing.primitives import (
    DOWN,
    LONGEST,
    bars,
    distinct,
    plot,
)
from workbench.drawing.theme import MODEL, TUNED


def attribution_map(table: pd.DataFrame, label: str = "the prediction") -> go.Figure:
    """The score of each word, piece or segment, in reading order.

    How to read: bars to the right speak for the prediction, bars to the left against it. Special
    pieces and the predicted one have no score and are not drawn.
    """
    scored = table[~table["fixed"].astype(bool)]
    largest = scored["score"].abs().nlargest(LONGEST).index
    shown = scored.loc[sorted(largest)]
    names = distinct(shown["unit"])
    colours = [MODEL if score > 0 else TUNED for score in shown["score"]]
    drawn = bars(shown["score"], names, "%{y}: %{x:.4f}", marker={"color": colours})
    return plot(
        [drawn],
        110 + 22 * len(shown),
        {"title": "attribution (for the prediction: positive)"},
        DOWN,
        title={"text": _finding(shown, label)},
        margin={"t": 48},
    )


def _finding(shown: pd.DataFrame, label: str) -> str:
    """The largest score, and its share of all absolute scores."""
    total = shown["score"].abs().sum()
    if not total:
        return f"No unit has a score for {label}"
    first = shown.iloc[int(shown["score"].abs().argmax())]
    side = "for" if first["score"] > 0 else "against"
    unit = " ".join(str(first["unit"]).split())
    unit = unit if len(unit) <= 30 else f"{unit[:29]}…"
    return (
        f"“{unit}” speaks most {side} {label}: {percent(abs(first['score']) / total)} of all scores"
    )
