"""Figures of `steering` and `erasure`, and of one difference.

Pure functions of the tables. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import (
    STATE,
    Trace,
    band,
    curve,
    level,
    multiples,
    plot,
    state_axis,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, CONTROL, MODEL, TUNED

NATS = "change of the difference of logits"
OWN = {"title": NATS, "matches": None}  # each panel has its own scale
LOST = "log-probability lost, nats"


def layers(tables: Tables) -> go.Figure:
    """Effect of the difference of two sets of texts, by layer, with 95 % intervals over exchanges
    of words.

    How to read: one panel for each two words, each with its own scale. The grey area reaches to the
    95th percentile of random directions of the same length; in layers where the curve is far above
    it, the model reads the difference. The dashed line is the distance of the two sets: more is
    more than the texts do.
    """
    table = tables["directions"]
    series = []
    for words, rows in table.groupby("words", sort=False):
        x = rows["layer"].tolist()
        low, high = rows["lower"] + rows["random"], rows["upper"] + rows["random"]
        gap = float(rows["gap"].iloc[0])
        random = _null(x, rows["random"], rows["random_high"], STATE)
        traces: list[Trace] = [
            *random,
            band(x, low.tolist(), high.tolist(), MODEL, "difference"),
            curve(x, rows["effect"], f"{STATE}: %{{y:.2f}}", "difference", 0, MODEL),
            level([x[0], x[-1]], gap, "distance of the sets: %{y:.2f}", "distance", 2,
                  line={"color": CONTROL}),
        ]  # fmt: skip
        series.append((words, traces))
    x_axis = state_axis(table["layer"].max())
    return multiples(series, tall=240, across=2, x=x_axis, y=OWN)


def strengths(tables: Tables) -> go.Figure:
    """Effect by strength, in the layer where the difference does most, with random directions
    beside it.

    How to read: 1 adds the difference as it is, −1 subtracts it. The grey area holds 90 % of random
    directions of the same length. Each panel has its own scale.
    """
    best = _best(tables["directions"])
    table = tables["strengths"]
    series = []
    for words, layer in best.items():
        rows = table[(table["words"] == words) & (table["layer"] == layer)]
        series.append((words, _strengths(rows)))
    return multiples(series, tall=220, across=2, x={"title": "strength"}, y=OWN)


def strength_curve(table: pd.DataFrame, names: tuple[str, str]) -> go.Figure:
    """Effect of the difference of two sets of texts by strength.

    How to read: 1 adds the difference as it is, −1 subtracts it. The grey area holds 90 % of random
    directions of the same length.
    """
    at = table[table["strength"] == 1].iloc[0]
    says = "more than" if at["effect"] > at["random_high"] else "no more than"
    title = f"The difference moves '{names[0]}' over '{names[1]}' {says} random directions"
    drawn = plot(_strengths(table), 380, {"title": "strength"}, {"title": NATS})
    return drawn.update_layout(title={"text": escaped(title)})


def _strengths(rows: pd.DataFrame) -> list[Trace]:
    x = rows["strength"].tolist()
    own = curve(x, rows["effect"], "%{x}: %{y:.2f}", "difference", 0, MODEL)
    return [*_null(x, rows["random"], rows["random_high"], "%{x}", rows["random_low"]), own]


def _null(
    x: list[float], mean: pd.Series, high: pd.Series, at: str, low: pd.Series | None = None
) -> list[Trace]:
    """Random directions: their mean, and the area up to their 95th percentile."""
    name = "random directions"
    under = (mean if low is None else low).tolist()
    return [
        band(x, under, high.tolist(), BASELINE, name),
        curve(x, mean, f"{at}, {name}: %{{y:.2f}}", name, 3, BASELINE),
    ]


def _best(table: pd.DataFrame) -> dict[str, int]:
    """The layer with the largest effect above random directions, by words."""
    order = table.sort_values(["significant", "excess"], ascending=False, kind="stable")
    first = order.drop_duplicates("words").set_index("words")["layer"]
    return {words: int(first[words]) for words in dict.fromkeys(table["words"])}


# --- erasure --------------------------------------------------------------------------------------


def costs(tables: Tables) -> go.Figure:
    """Log-probability lost when the label of the predicted word is erased, by layer, with 95 %
    intervals over documents.

    How to read: the grey area reaches to the 95th percentile of random subspaces of the same size.
    Where the curve is above it, the model uses what was erased. The third curve adds the mean of
    what was removed from words of the same label: near 0, the label is all that was lost.
    """
    table = tables["layers"]
    x = table["layer"].tolist()
    low, high = table["lower"] + table["random"], table["upper"] + table["random"]
    name = "random subspaces"
    drawn: list[Trace] = [
        band(x, table["random"].tolist(), table["random_high"].tolist(), BASELINE, name),
        curve(x, table["random"], f"{STATE}, {name}: %{{y:.3f}}", name, 3, BASELINE),
        band(x, low.tolist(), high.tolist(), MODEL, "erased"),
        curve(x, table["effect"], f"{STATE}, erased: %{{y:.3f}}", "erased", 0, MODEL),
        curve(x, table["injected"], f"{STATE}, injected: %{{y:.3f}}", "injected", 1, TUNED),
    ]
    return plot(drawn, 400, state_axis(table["layer"].max()), {"title": LOST})


def probe(tables: Tables) -> go.Figure:
    """Accuracy of a linear probe of the label on other documents, by layer, before and after.

    How to read: after the erasure a probe should find no more than always answering the label that
    is most frequent among the fitted words, the grey line; what is above it is left, for the
    directions were fitted on few words.
    """
    table = tables["layers"]
    x = table["layer"].tolist()
    drawn: list[Trace] = [
        curve(x, table["probe"], f"{STATE}: %{{y:.1%}}", "before", 0, MODEL),
        curve(x, table["probe_erased"], f"{STATE}, erased: %{{y:.1%}}", "erased", 1, TUNED),
        level([x[0], x[-1]], float(table["majority"].iloc[0]), "most frequent in the fit: %{y:.1%}",
              "most frequent in the fit", 3, line={"color": BASELINE}),
    ]  # fmt: skip
    y = {"title": "accuracy", "tickformat": ".0%"}
    return plot(drawn, 360, state_axis(table["layer"].max()), y)


STEERING = {"layers": layers, "strengths": strengths}
ERASURE = {"costs": costs, "probe": probe}
