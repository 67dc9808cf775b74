"""Figures of what a corpus holds: sizes, lengths, tags, relations, labels, words.

Pure functions of the tables of `describe`; a corpus that lacks a layer lacks its table, and its
figure. They cost milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.sanitize import escaped
from workbench.figures.theme import EITHER

Tables = Mapping[str, pd.DataFrame]
BAR = 22  # pixels from one bar to the next
AROUND = 96  # pixels of a figure that are not bars
LONGEST = 24  # characters of a label on an axis; all of it shows on hovering
MOST = 15  # bars of one panel; the table has them all
NAMED = 12  # words written beside their points


def sizes(tables: Tables) -> go.Figure:
    """Words and distinct words of each split."""
    table = tables["sizes"]
    figure = go.Figure(
        [
            _bars(table[column], table["split"], "%{x:,} " + column, name=column)
            for column in ("words", "types")
        ]
    )
    figure.update_layout(height=AROUND + 2 * BAR * len(table) + 20, barmode="group")
    figure.update_xaxes(title="words")
    _first_on_top(figure, table["split"])
    return figure


def lengths(tables: Tables) -> go.Figure:
    """How many sentences have so many words."""
    table = tables["lengths"]
    first, last = table["first"], table["last"]
    bars = go.Bar(
        x=(first + last) / 2,
        y=table["count"],
        width=last - first + 1,
        marker_line={"width": 1, "color": "rgba(128,128,128,0.35)"},
        customdata=table[["first", "last"]],
        hovertemplate="%{customdata[0]} to %{customdata[1]} words: %{y:,} sentences<extra></extra>",
    )
    figure = go.Figure(bars)
    figure.update_layout(height=340, bargap=0)
    figure.update_xaxes(title="words in a sentence")
    figure.update_yaxes(title="sentences")
    return figure


def tags(tables: Tables) -> go.Figure:
    """How often the most frequent part-of-speech tags occur, by layer."""
    return _panels(tables["tags"], "layer", "tag")


def relations(tables: Tables) -> go.Figure:
    """How often each relation occurs; beside a bar the most frequent offset of the head, and the
    share of the edges that have it, which also gives the colour."""
    table = tables["relations"]
    hover = "%{customdata}: %{x:,} edges<br>the head most often at %{text}"
    bars = _bars(table["count"], table["relation"], hover)
    offsets = zip(table["offset"], table["share"], strict=True)
    bars.update(
        text=[f"{offset:+d}: {share:.0%}".replace("-", "−") for offset, share in offsets],
        textposition="outside",
        cliponaxis=False,
        marker={"color": table["share"], "coloraxis": "coloraxis"},
    )
    figure = go.Figure(bars)
    figure.update_layout(
        height=AROUND + BAR * len(table),
        margin={"r": 72},
        coloraxis={"cmin": 0, "cmax": 1, "showscale": False},
    )
    figure.update_xaxes(title="edges")
    _first_on_top(figure, table["relation"])
    return figure


def labels(tables: Tables) -> go.Figure:
    """How often the most frequent labels of spans and edges occur, by layer."""
    return _panels(tables["labels"], "layer", "label")


def classes(tables: Tables) -> go.Figure:
    """How often each value is said of a whole text, by label."""
    return _panels(tables["classes"], "label", "value")


def scores(tables: Tables) -> go.Figure:
    """From the least to the greatest value of each number said of whole texts, with the mean."""
    table = tables["scores"]
    ends = {
        "type": "data",
        "symmetric": False,
        "array": table["max"] - table["mean"],
        "arrayminus": table["mean"] - table["min"],
    }
    points = go.Scatter(
        x=table["mean"],
        y=table["label"],
        mode="markers",
        marker={"size": 10},
        error_x=ends,
        customdata=table[["min", "max", "count"]],
        hovertemplate="%{y}: mean %{x:.4g}, from %{customdata[0]:.4g} to %{customdata[1]:.4g}, "
        "%{customdata[2]:,} texts<extra></extra>",
    )
    figure = go.Figure(points)
    figure.update_layout(height=AROUND + 2 * BAR * len(table))
    figure.update_xaxes(title="value")
    _first_on_top(figure, table["label"])
    return figure


def words(tables: Tables) -> go.Figure:
    """The most frequent words by rank, both axes logarithmic: Zipf's law is a straight line."""
    table = tables["words"]
    named = [_short(word) if place < NAMED else "" for place, word in enumerate(table["word"])]
    points = go.Scatter(
        x=table["rank"],
        y=table["count"],
        mode="markers+text",
        text=named,
        textposition="top right",
        cliponaxis=False,
        textfont={"size": 11},
        customdata=table["word"],
        hovertemplate="%{customdata}: %{y:,} times, rank %{x}<extra></extra>",
    )
    figure = go.Figure(points)
    figure.update_layout(height=420)
    figure.update_xaxes(title="rank", type="log", dtick="D2")
    figure.update_yaxes(title="occurrences", type="log", dtick="D2")
    return figure


def _panels(table: pd.DataFrame, panel: str, item: str) -> go.Figure:
    """Bars for each value of a column, under one another; the first where there are many."""
    parts = [(name, part.head(MOST)) for name, part in table.groupby(panel, sort=False)]
    titles = [
        escaped(_short(name))
        if len(part) == (table[panel] == name).sum()
        else f"{escaped(_short(name))}: the first {MOST}"
        for name, part in parts
    ]
    heights = [BAR * len(part) for _, part in parts]
    whole = sum(heights) + 2 * BAR * len(parts) + 40
    figure = make_subplots(
        rows=len(parts),
        cols=1,
        row_heights=heights,
        vertical_spacing=min(0.9 / max(len(parts) - 1, 1), 2.4 * BAR / whole),
        subplot_titles=titles,
    )
    for row, (_, part) in enumerate(parts, start=1):
        bars = _bars(part["count"], part[item], "%{customdata}: %{x:,}")
        bars.marker.pattern.shape = ""  # on paper too: no legend tells panels apart
        figure.add_trace(bars, row=row, col=1)
        _first_on_top(figure, part[item], row)
    figure.update_annotations(x=0, xanchor="left", xref="paper", font={"size": 13})
    figure.update_layout(height=whole + 40, showlegend=False, colorway=[EITHER])
    return figure


def _bars(lengths: "pd.Series[int]", names: "pd.Series[str]", hover: str, name: str = "") -> go.Bar:
    """Bars to the right; what is named is at hand on hovering, whole."""
    return go.Bar(
        x=lengths,
        y=names,
        orientation="h",
        customdata=names,
        name=name,
        hovertemplate=f"{hover}<extra></extra>",
    )


def _first_on_top(figure: go.Figure, names: "pd.Series[str]", row: int | None = None) -> None:
    """Names down the side in their order, long ones shortened."""
    figure.update_yaxes(
        type="category",
        autorange="reversed",
        tickmode="array",
        tickvals=list(names),
        ticktext=[_short(name) for name in names],
        showgrid=False,
        row=row,
        col=None if row is None else 1,
    )


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
