"""Figures of the explanation of one prediction: attribution, and contributions of parts.

Pure functions of tables. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.drawing.primitives import CELLS, DOWN, Tables, bars, ends, heat_map, plot
from workbench.drawing.theme import MODEL, TUNED

LONGEST = 60  # units; of a longer text those with the largest scores are drawn


def attribution_map(table: pd.DataFrame, label: str = "the prediction") -> go.Figure:
    """The score of each word, piece or segment, in reading order.

    How to read: bars to the right speak for the prediction, bars to the left against it. Special
    pieces and the predicted one have no score and are not drawn.
    """
    scored = table[~table["fixed"].astype(bool)]
    largest = scored["score"].abs().nlargest(LONGEST).index
    shown = scored.loc[sorted(largest)]
    names = _distinct(shown["unit"])
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


def word_effects(table: pd.DataFrame, label: str = "the prediction") -> go.Figure:
    """The change of a prediction without each word, in reading order.

    How to read: bars to the left are words without which the choice is less probable.
    """
    largest = table["change"].abs().nlargest(LONGEST).index
    shown = table.loc[sorted(largest)]
    colours = [MODEL if change > 0 else TUNED for change in shown["change"]]
    names = _distinct(shown["text"])
    drawn = bars(shown["change"], names, "%{y}: %{x:+.4f}", marker={"color": colours})
    axis = {"title": f"change of the {label}"}
    return plot([drawn], 110 + 22 * len(shown), axis, DOWN)


def before_and_after(table: pd.DataFrame) -> go.Figure:
    """The probability of each choice before and after edits of the text.

    How to read: two bars for each choice, for the text and for the edited text.
    """
    names = _distinct(table["choice"])
    drawn = [
        bars(table[name], names, "%{y}: %{x:.1%}", name, colour)
        for name, colour in (("before", TUNED), ("after", MODEL))
    ]
    axis = {"title": "probability", "tickformat": ".0%"}
    return plot(drawn, 140 + 36 * len(table), axis, DOWN)


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


def _finding(shown: pd.DataFrame, label: str) -> str:
    """The largest score, and its share of all absolute scores."""
    total = shown["score"].abs().sum()
    if not total:
        return f"No unit has a score for {label}"
    first = shown.iloc[int(shown["score"].abs().argmax())]
    side = "for" if first["score"] > 0 else "against"
    unit = " ".join(str(first["unit"]).split())
    unit = unit if len(unit) <= 30 else f"{unit[:29]}…"
    return f"“{unit}” speaks most {side} {label}: {abs(first['score']) / total:.0%} of all scores"


def _distinct(texts: pd.Series) -> list[str]:
    """Texts made different by a number, because a category axis joins equal names."""
    seen: dict[str, int] = {}
    names = []
    for text in texts.astype(str):
        shown = " ".join(text.split())
        shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
        seen[shown] = seen.get(shown, 0) + 1
        names.append(shown if seen[shown] == 1 else f"{shown} ({seen[shown]})")
    return names
