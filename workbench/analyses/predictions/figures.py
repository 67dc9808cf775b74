"""Figures of what a change of the text does to a prediction. Pure functions of tables.

Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.drawing.primitives import DOWN, LONGEST, bars, distinct, plot
from workbench.drawing.theme import MODEL, TUNED


def word_effects(table: pd.DataFrame, label: str = "the prediction") -> go.Figure:
    """The change of a prediction without each word, in reading order.

    How to read: bars to the left are words without which the choice is less probable.
    """
    largest = table["change"].abs().nlargest(LONGEST).index
    shown = table.loc[sorted(largest)]
    colours = [MODEL if change > 0 else TUNED for change in shown["change"]]
    names = distinct(shown["text"])
    drawn = bars(shown["change"], names, "%{y}: %{x:+.4f}", marker={"color": colours})
    axis = {"title": f"change of the {label}"}
    return plot([drawn], 110 + 22 * len(shown), axis, DOWN)


def before_and_after(table: pd.DataFrame) -> go.Figure:
    """The probability of each choice before and after edits of the text.

    How to read: two bars for each choice, for the text and for the edited text.
    """
    names = distinct(table["choice"])
    drawn = [
        bars(table[name], names, "%{y}: %{x:.1%}", name, colour)
        for name, colour in (("before", TUNED), ("after", MODEL))
    ]
    axis = {"title": "probability", "tickformat": ".0%"}
    return plot(drawn, 140 + 36 * len(table), axis, DOWN)
