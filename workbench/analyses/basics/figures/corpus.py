"""Figures of the contents of a corpus: sizes, lengths, tags, relations, labels, words.

Pure functions of the tables of `describe`; without a layer there is no table and no figure. Costs:
milliseconds.
"""

import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables, percent
from workbench.drawing.primitives import DOWN, LETTER, bars, interval, marks, panels, plot
from workbench.drawing.theme import EITHER, NOT_SIGNIFICANT

BAR = 22  # pixels from one bar to the next
AROUND = 96  # pixels of a figure that are not bars
LONGEST = 24  # characters of a label on an axis; hovering shows all of it
ACROSS = 2  # panels next to each other
WIDE = 760  # pixels of a figure of usual width
MOST = 15  # bars of one panel; the table has all
NAMED = 1.4  # factor between the ranks of words written next to their points


def sizes(tables: Tables) -> go.Figure:
    """Number of words and of distinct words of each split.

    How to read: one bar per split; the two panels have different scales.
    """
    table = tables["sizes"]
    parts = [
        (
            title,
            [
                _named(
                    table[column],
                    table["split"],
                    "%{customdata}: %{x:,} " + title,
                    texttemplate="%{x:,}",
                    textposition="outside",
                    cliponaxis=False,
                )
            ],
        )
        for column, title in (("words", "words"), ("types", "distinct words"))
    ]
    x = [
        {"nticks": 5, "range": [0, 1.25 * max(table[column].max(), 1)]}
        for column in ("words", "types")
    ]
    axis, tall = _down(table["split"]), BAR * (len(table) + 0.5)
    return panels(parts, tall, 2, x=x, y=axis, top=0, apart=0.3, showlegend=False)


def lengths(tables: Tables) -> go.Figure:
    """Number of sentences of each length, in words.

    How to read: one bar per length, or per range of lengths in a text with long sentences.
    """
    table = tables["lengths"]
    first, last = table["first"], table["last"]
    shown = bars(
        table["count"],
        (first + last) / 2,
        "%{customdata[0]} to %{customdata[1]} words: %{y:,} sentences",
        upright=True,
        width=last - first + 1,
        marker={"line": {"width": 1, "color": "rgba(128,128,128,0.35)"}},
        customdata=table[["first", "last"]],
    )
    return plot(
        [shown], 340, {"title": "words in the sentence"}, {"title": "number of sentences"}, bargap=0
    )


def tags(tables: Tables) -> go.Figure:
    """Number of words with each part-of-speech tag, by annotation layer.

    How to read: one panel per layer, the most frequent tag on top.
    """
    return _panels(tables["tags"], "layer", "tag")


def relations(tables: Tables) -> go.Figure:
    """Number of edges of each dependency relation, and those at the most frequent offset of the
    head.

    How to read: blue is the part at the offset written next to the bar (+1: the head is the next
    word); a long blue part means that a head of fixed offset already follows the relation.
    """
    table = tables["relations"]
    at_offset = (table["share"] * table["count"]).round().astype(int)
    texts = [
        f"{offset:+d}: {percent(share)}".replace("-", "−")
        for offset, share in zip(table["offset"], table["share"], strict=True)
    ]
    hover = "%{customdata}: %{x:,} edges "
    shown = [
        _named(at_offset, table["relation"], hover + "at the most frequent offset"),
        _named(
            table["count"] - at_offset,
            table["relation"],
            hover + "at other offsets",
            colour=NOT_SIGNIFICANT,
            text=texts,
            textposition="outside",
            cliponaxis=False,
        ),
    ]
    return plot(
        shown,
        AROUND + BAR * len(table),
        {"title": "number of edges"},
        _down(table["relation"]),
        margin={"r": 72},
        barmode="stack",
        showlegend=False,
    )


def labels(tables: Tables) -> go.Figure:
    """Number of spans and edges with each label, by annotation layer.

    How to read: one panel per layer, the most frequent label on top.
    """
    return _panels(tables["labels"], "layer", "label")


def classes(tables: Tables) -> go.Figure:
    """Number of texts with each class of a label, such as sentiment.

    How to read: one panel per label; the longest bar is what a majority baseline always chooses.
    """
    return _panels(tables["classes"], "label", "value")


def scores(tables: Tables) -> go.Figure:
    """Mean of each numeric label of the texts, in the unit of the label.

    How to read: one point per label; the line goes from its minimum to its maximum.
    """
    table = tables["scores"]
    shown = marks(
        table["mean"],
        table["label"],
        "%{y}: mean %{x:.4g}, from %{customdata[0]:.4g} to %{customdata[1]:.4g}, "
        "%{customdata[2]:,} texts",
        colour=EITHER,
        size=10,
        error_x=interval(table, "mean", "min", "max"),
        customdata=table[["min", "max", "count"]],
    )
    height = AROUND + 2 * BAR * len(table)
    return plot([shown], height, {"title": "value of the label"}, _down(table["label"]))


def words(tables: Tables) -> go.Figure:
    """Count of the most frequent words by rank, both axes logarithmic.

    How to read: one point per word; Zipf's law is a straight line that falls at 45 degrees where
    both axes have the same scale.
    """
    table = tables["words"]
    shown = marks(
        table["rank"],
        table["count"],
        "%{customdata}: %{y:,} times, rank %{x}",
        colour=EITHER,
        mode="markers+text",
        text=[
            _short(word) if _is_named(rank) else ""
            for word, rank in zip(table["word"], table["rank"], strict=True)
        ],
        textposition="top right",
        cliponaxis=False,
        textfont={"size": 12},
        customdata=table["word"],
    )
    log = {"type": "log", "dtick": "D2"}
    return plot([shown], 420, {"title": "rank", **log}, {"title": "count", **log})


def _is_named(rank: int) -> bool:
    """Whether the word of this rank is named: ranks evenly spaced on a logarithmic axis."""
    return math.floor(math.log(rank, NAMED)) > math.floor(math.log(max(rank - 1, 0.5), NAMED))


def _panels(table: pd.DataFrame, panel: str, item: str) -> go.Figure:
    """A panel of bars for each value of a column, with at most `MOST` bars."""
    parts, axes, sizes = [], [], []
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
        sizes.append(len(part))
    rows = [max(sizes[index : index + ACROSS]) for index in range(0, len(sizes), ACROSS)]
    for index, axis in enumerate(axes):  # bars of one height in all panels of a row
        axis |= {"autorange": False, "range": [rows[index // ACROSS] - 0.5, -0.5]}
    longest = max(len(_short(each)) for each in table[item])
    return panels(
        parts,
        [BAR * (row + 0.5) for row in rows],
        ACROSS,
        gap=2.4 * BAR,
        x={"nticks": 5},
        y=axes,
        top=0,
        apart=ACROSS * (0.04 + LETTER * longest / WIDE),
        showlegend=False,
    )


def _named(values: "pd.Series[int]", names: "pd.Series[str]", hover: str, **look: Any) -> go.Bar:
    """Horizontal bars; hovering shows whole names."""
    return bars(values, names, hover, customdata=names, **look)


def _down(names: "pd.Series[str]") -> dict[str, Any]:
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
