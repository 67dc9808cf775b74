"""Figures of the contents of a corpus: sizes, lengths, tags, relations, labels, words.

Pure functions of the tables of `describe`; without a layer there is no table and no figure. Costs:
milliseconds.
"""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import DOWN, Look, Tables, bars, interval, marks, panels, plot

BAR = 22  # pixels from one bar to the next
AROUND = 96  # pixels of a figure that are not bars
LONGEST = 24  # characters of a label on an axis; hovering shows all of it
MOST = 15  # bars of one panel; the table has all
NAMED = 12  # words written next to their points


def sizes(tables: Tables) -> go.Figure:
    """Number of words and of distinct words (types) of each split."""
    table = tables["sizes"]
    shown = [
        _named(table[column], table["split"], "%{x:,} " + column, name=column, colour=None)
        for column in ("words", "types")
    ]
    height = AROUND + 2 * BAR * len(table) + 20
    return plot(shown, height, {"title": "number of words"}, _down(table["split"]), barmode="group")


def lengths(tables: Tables) -> go.Figure:
    """Number of sentences of each length, in words."""
    table = tables["lengths"]
    first, last = table["first"], table["last"]
    shown = bars(
        table["count"],
        (first + last) / 2,
        "%{customdata[0]} to %{customdata[1]} words: %{y:,} sentences",
        colour=None,
        upright=True,
        width=last - first + 1,
        marker={"line": {"width": 1, "color": "rgba(128,128,128,0.35)"}},
        customdata=table[["first", "last"]],
    )
    return plot(
        [shown], 340, {"title": "words in the sentence"}, {"title": "number of sentences"}, bargap=0
    )


def tags(tables: Tables) -> go.Figure:
    """Number of words with the most frequent part-of-speech tags, by annotation layer."""
    return _panels(tables["tags"], "layer", "tag")


def relations(tables: Tables) -> go.Figure:
    """Number of edges of each dependency relation. Next to each bar: the most frequent offset of
    the head, and the share of edges with this offset. The colour shows the same share."""
    table = tables["relations"]
    offsets = zip(table["offset"], table["share"], strict=True)
    shown = _named(
        table["count"],
        table["relation"],
        "%{customdata}: %{x:,} edges<br>most frequent offset of the head and its share: %{text}",
        text=[f"{offset:+d}: {share:.0%}".replace("-", "−") for offset, share in offsets],
        textposition="outside",
        cliponaxis=False,
        marker={"color": table["share"], "coloraxis": "coloraxis"},
    )
    return plot(
        [shown],
        AROUND + BAR * len(table),
        {"title": "number of edges"},
        _down(table["relation"]),
        margin={"r": 72},
        coloraxis={"cmin": 0, "cmax": 1, "showscale": False},
    )


def labels(tables: Tables) -> go.Figure:
    """Number of spans and edges with the most frequent labels, by annotation layer."""
    return _panels(tables["labels"], "layer", "label")


def classes(tables: Tables) -> go.Figure:
    """Number of texts with each class, one panel per label (such as sentiment)."""
    return _panels(tables["classes"], "label", "value")


def scores(tables: Tables) -> go.Figure:
    """Mean of each numeric label of the texts; bars: from the minimum to the maximum."""
    table = tables["scores"]
    shown = marks(
        table["mean"],
        table["label"],
        "%{y}: mean %{x:.4g}, from %{customdata[0]:.4g} to %{customdata[1]:.4g}, "
        "%{customdata[2]:,} texts",
        size=10,
        error_x=interval(table, "mean", "min", "max"),
        customdata=table[["min", "max", "count"]],
    )
    height = AROUND + 2 * BAR * len(table)
    return plot([shown], height, {"title": "value of the label"}, _down(table["label"]))


def words(tables: Tables) -> go.Figure:
    """Count of the most frequent words by rank, both axes logarithmic. Zipf's law is a straight
    line."""
    table = tables["words"]
    shown = marks(
        table["rank"],
        table["count"],
        "%{customdata}: %{y:,} times, rank %{x}",
        mode="markers+text",
        text=[_short(word) if index < NAMED else "" for index, word in enumerate(table["word"])],
        textposition="top right",
        cliponaxis=False,
        textfont={"size": 11},
        customdata=table["word"],
    )
    log = {"type": "log", "dtick": "D2"}
    return plot([shown], 420, {"title": "rank", **log}, {"title": "count", **log})


def _panels(table: pd.DataFrame, panel: str, item: str) -> go.Figure:
    """A panel of bars for each value of a column, with at most `MOST` bars."""
    parts, axes, heights = [], [], []
    for name, whole in table.groupby(panel, sort=False):
        part = whole.head(MOST)
        title = (
            f"{_short(name)}: the {MOST} most frequent" if len(part) < len(whole) else _short(name)
        )
        # no pattern in print: each panel has a title instead of a legend
        plain = {"pattern": {"shape": ""}}
        shown = _named(part["count"], part[item], "%{customdata}: %{x:,}", marker=plain)
        parts.append((title, [shown]))
        axes.append(_down(part[item]))
        heights.append(BAR * (len(part) + 0.5))
    return panels(parts, heights, gap=2.4 * BAR, y=axes, top=0, showlegend=False)


def _named(values: "pd.Series[int]", names: "pd.Series[str]", hover: str, **look: Any) -> go.Bar:
    """Horizontal bars; hovering shows whole names."""
    return bars(values, names, hover, customdata=names, **look)


def _down(names: "pd.Series[str]") -> Look:
    """An axis of names in their order, long ones shortened."""
    ticks = {"tickmode": "array", "tickvals": list(names), "ticktext": list(map(_short, names))}
    return {**DOWN, "showgrid": False, **ticks}


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


FIGURES = {
    "sizes": sizes,
    "lengths": lengths,
    "tags": tags,
    "relations": relations,
    "labels": labels,
    "classes": classes,
    "scores": scores,
    "words": words,
}
