"""Figures of activation patching over a corpus: by layer and place, by head, by MLP, and pairs.

Pure functions of the tables of `patching`. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.core.head_names import block_name, state_name
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    STATE,
    Look,
    Trace,
    band,
    bars,
    curve,
    drawable,
    ends,
    head_grid,
    heat_maps,
    interval,
    marks,
    matrix,
    panels,
    plot,
    plot_or_panels,
    state_axis,
)
from workbench.drawing.theme import BASELINE, MODEL, NOT_SIGNIFICANT, TUNED

EFFECT = "restored share of the difference"
HOVER = "%{y}, %{x}: %{z:.1%}"
NEGATIVE = 0.05  # effects less negative than this are shown as 0
LINES = {"changed": ("exchanged words", MODEL, 0), "predicted": ("predicting place", TUNED, 1)}


def states(tables: Tables) -> go.Figure:
    """Effect of restored states, by layer and place, as a share of the difference between the clean
    and the corrupt text.

    How to read: the embeddings are at the bottom. At first the exchanged words
    hold what decides, at last the place that predicts; the layers between show where it moves.
    Grey cells restore no more than the states of unrelated texts.
    """
    table = _known(tables["states"])
    parts: list[tuple[str, list[Trace]]] = []
    heights = []
    several = table["stack"].nunique() > 1
    scale = _scale(table["effect"])
    for stack, rows in table.groupby("stack", sort=False):
        rows = rows.iloc[::-1]  # the last layer on top
        at = rows["layer"].map(state_name), rows["place"]
        columns = [place for place in dict.fromkeys(table["place"]) if place in set(rows["place"])]
        wide = matrix(*at, rows["effect"]).reindex(columns=columns)
        sure = matrix(*at, rows["restores"].astype(bool)).reindex(columns=columns)
        cells = heat_maps(
            wide,
            sure.fillna(False).astype(bool),
            HOVER,
            title="effect",
            form="%{z:.0%}",
            tickformat=".0%",
            showscale=not parts,
            **scale,
        )
        parts.append((str(stack) if several else "", list(cells)))
        heights.append(30 * len(wide))
    x = {**CELLS, "type": "category", "title": "place"}
    return panels(parts, heights, x=x, y={**CELLS, **DOWN})


def layers(tables: Tables) -> go.Figure:
    """Effect of the exchanged words and of the place that predicts, by layer, with 95 % intervals
    over exchanges of words.

    How to read: where the curves cross, what decides has moved from the one to the other. Dashed
    grey curves are the same places with states of unrelated texts, which only remove what was
    wrong.
    """
    table = _known(tables["states"])
    parts = []
    for stack, own in table.groupby("stack", sort=False):
        traces: list[Trace] = []
        for place, (name, colour, style) in LINES.items():
            rows = own[own["place"] == place]
            if rows.empty:
                continue
            x = rows["layer"].tolist()
            low, high = rows["lower"].tolist(), rows["upper"].tolist()
            traces.append(band(x, low, high, colour, name))
            hover = f"{STATE}, {name}: %{{y:.1%}}"
            traces.append(curve(x, rows["effect"], hover, name, style, colour))
            if rows["random"].notna().all():
                label = f"{name}, unrelated texts"
                traces.append(
                    curve(x, rows["random"], f"{STATE}, {label}: %{{y:.1%}}", label, 4 + style,
                          BASELINE)
                )  # fmt: skip
        if traces:
            parts.append((str(stack) if table["stack"].nunique() > 1 else "", traces))
    x_axis = state_axis(table["layer"].max())
    y_axis = {"title": EFFECT, "tickformat": ".0%"}
    return plot_or_panels(parts, x=x_axis, y=y_axis)


def heads(tables: Tables) -> go.Figure:
    """Effect of each attention head's restored output, as a share of the difference between the
    clean and the corrupt text.

    How to read: one cell per head, one panel per kind of attention. Grey heads restore no more than
    the outputs of unrelated texts.
    """
    rows = _known(tables["heads"])
    return head_grid(
        rows,
        rows["effect"],
        significant=rows["restores"],
        form="%{z:.0%}",
        hover="head %{y}.%{x}: %{z:.1%}",
        tickformat=".0%",
        **_scale(rows["effect"]),
    )


def mlps(tables: Tables) -> go.Figure:
    """Effect of each MLP's restored output, with 95 % intervals over exchanges of words.

    How to read: pale bars restore no more than the outputs of unrelated texts, which are the grey
    diamonds.
    """
    table = _known(tables["mlps"])
    several = table["stack"].nunique() > 1
    names = [
        f"{stack} {block_name(layer)}" if several else block_name(layer)
        for stack, layer in zip(table["stack"], table["layer"], strict=True)
    ]
    colours = [MODEL if restores else NOT_SIGNIFICANT for restores in table["restores"]]
    drawn: list[Trace] = [
        bars(
            table["effect"],
            names,
            "%{y}: %{x:.1%}",
            marker={"color": colours},
            spread=interval(table, "effect"),
        ),
        marks(
            table["random"],
            names,
            "%{y}, unrelated texts: %{x:.1%}",
            "unrelated texts",
            BASELINE,
            "diamond",
        ),
    ]
    return plot(drawn, 130 + 30 * len(table), {"title": EFFECT, "tickformat": ".0%"}, DOWN)


def pairs(tables: Tables) -> go.Figure:
    """Difference of logits between the clean and the corrupt text, in nats, by phenomenon, with
    95 % intervals over exchanges of words.

    How to read: right of 0, the model prefers the word that is right after each context. Pale
    phenomena are not significantly above 0.
    """
    table = tables["pairs"]
    drawn = [
        marks(
            rows["difference"],
            rows["phenomenon"],
            "%{y}: %{x:.2f} nats, n = %{customdata}",
            name,
            colour,
            "circle",
            size=10,
            error_x={**interval(rows, "difference"), "color": colour},
            customdata=rows["n"],
        )
        for rows, name, colour in (
            (table[table["significant"].astype(bool)], "p < 0.05", MODEL),
            (table[~table["significant"].astype(bool)], "not significant", NOT_SIGNIFICANT),
        )
        if len(rows)
    ]
    y = {**DOWN, "categoryorder": "array", "categoryarray": list(table["phenomenon"])}
    x = {"title": "difference of logits, nats", "rangemode": "tozero"}
    return plot(drawn, 130 + 28 * len(table), x, y)


def _scale(effects: pd.Series) -> Look:
    """One colour scale; around 0 if an effect is clearly negative."""
    return ends(effects, around=bool(effects.min() < -NEGATIVE))


def _known(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with an effect: of a place in pairs that the model distinguishes."""
    return drawable(
        table[table["effect"].notna()].reset_index(drop=True), "no pair is distinguished"
    )


FIGURES = {"states": states, "layers": layers, "heads": heads, "mlps": mlps, "pairs": pairs}
