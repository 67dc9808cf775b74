"""Figures of what heads do: grids by role and score, relations, offsets, a map, a tree of kin.

Pure functions of the tables of `heads`; they cost milliseconds. A role has a colour and a word or a
mark of its own, so that neither has to be told by colour alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from workbench.core.experiment import HEAD
from workbench.figures.head_grid import (
    DIRECTIONS,
    NO_SYMBOL,
    SCORES,
    SYMBOL,
    by_role,
    by_score,
    groups,
    named,
    role_of,
)
from workbench.figures.primitives import (
    CELLS,
    DOWN,
    Tables,
    Trace,
    add_menu,
    bars,
    curve,
    heat_map,
    interval,
    largest,
    marks,
    matrix,
    panels,
    plot,
    sign,
)
from workbench.figures.theme import COLOURS, EITHER, MANY
from workbench.heads.roles import ROLES

GREY = COLOURS["light"][4]  # seen on light and on dark
PALE = "rgba(131,141,151,.4)"
MEASURES = {
    "order": "in order",
    "same": "same place",
    "first": "first word",
    "last": "last word",
    "special": "special",
    "entropy": "entropy",
}  # of `cross`, and what they are called
RULES = {
    "fixed offset": ("baseline_accuracy", "diamond"),
    "first word": ("baseline_first", "x"),
    "longest word": ("baseline_longest", "square-open"),
    "shuffled trees": ("null_mean", "circle-open"),
}  # beside the bars of accuracies: their column and mark
NAMED = 48  # heads on the map whose names stand beside them
ROW = 22  # pixels of a bar


def roles(tables: Tables) -> go.Figure:
    """Every head by its role, a layer a row. A head has the colour of the role it fills best; all
    of its roles are told when it is pointed at."""
    return by_role(tables["heads"])


def scores(tables: Tables) -> go.Figure:
    """Every head by one of its scores, a layer a row; the menu has the scores."""
    heads = tables["heads"]
    there = [name for name, score in SCORES.items() if score.column in heads]
    if not there:
        raise KeyError("scores of heads")
    drawn = {name: by_score(heads, name) for name in there}
    figure = drawn[there[0]]
    maps = [place for place, trace in enumerate(figure.data) if trace.type == "heatmap"]
    buttons = []
    for name, own in drawn.items():
        look = [own.data[place] for place in maps]
        change = {
            "z": [trace.z for trace in look],
            "zmin": [trace.zmin for trace in look],
            "zmax": [trace.zmax for trace in look],
            "texttemplate": [trace.texttemplate for trace in look],
            "colorbar.tickformat": [trace.colorbar.tickformat for trace in look],
        }
        buttons.append({"label": name, "method": "restyle", "args": [change, maps]})
    return add_menu(figure, buttons, figure.layout.legend.y)


def relations(tables: Tables) -> go.Figure:
    """Of each relation the head of the highest accuracy (Clark et al. 2019: argmax over the other
    words, each dependent once), whatever its role, with its 95 % interval; next to it simple rules:
    the best fixed offset, the first word and the longest in pieces."""
    best = tables["best"]
    if best.empty:
        raise KeyError("no relations")
    parts, heights, axes = [], [], []
    for way, title in DIRECTIONS.items():
        part = best[best["direction"] == way]
        part = part.sort_values("accuracy", ascending=False, kind="stable")
        pairs = zip(part["relation"], named(part, _several(best)), strict=True)
        names = [f"{relation}  {head}" for relation, head in pairs]
        if names:
            parts.append((title, accuracies(part, names)))
            heights.append(ROW * len(names))
            axes.append(_ranked(names))
    return panels(parts, heights, gap=72, x=_SHARE, y=axes, barmode="overlay")


def accuracies(rows: pd.DataFrame, names: Sequence[str]) -> list[Trace]:
    """Accuracies as bars with intervals and, as marks, the accuracy of simple rules."""
    shown, is_sure = [], rows["syntactic"].astype(bool)
    for sure, colour, name in (
        (is_sure, EITHER, "beats its baselines, significantly"),
        (~is_sure, PALE, "does not, or not significantly"),
    ):
        own = rows[sure]
        shown.append(
            bars(
                own["accuracy"],
                [each for each, is_own in zip(names, sure, strict=True) if is_own],
                "%{y}: %{x:.1%}, %{customdata[0]:.1%} to %{customdata[1]:.1%}, of "
                "%{customdata[2]:,} dependents",
                name,
                colour,
                spread={**interval(own, "accuracy"), "color": "#808a95"},
                customdata=own[["lower", "upper", "n"]].to_numpy(),
            )
        )
    for name, (column, symbol) in RULES.items():
        if column in rows:
            offset = " %{customdata:+d}" if column == "baseline_accuracy" else ""
            edge = {"width": 1, **({"color": "#ffffff"} if symbol == "diamond" else {})}
            shown.append(
                marks(
                    rows[column].where(rows[column] > 0),  # where it hits at all
                    names,
                    f"%{{y}}, {name}{offset}: %{{x:.1%}}",
                    name,
                    COLOURS["light"][1],
                    symbol,
                    marker={"line": edge},
                    cliponaxis=False,
                    customdata=rows["baseline_offset"] if offset else None,
                )
            )
    return shown


_SHARE = {"range": [0, 1.03], "tickformat": ".0%", "fixedrange": True, "showticklabels": True}


def _ranked(names: Sequence[str]) -> dict[str, object]:
    """An axis of names in this order."""
    order = {"categoryorder": "array", "categoryarray": names}
    return {**DOWN, **order, "fixedrange": True, "dtick": 1}


def offsets(tables: Tables) -> go.Figure:
    """How many words look so far to the left (negative) or to the right, of those that have a word
    there. A head is a row."""
    table = tables["offsets"]
    if table.empty:
        raise KeyError("no offsets")
    wide = matrix(named(table), table["offset"], table["share"])
    hover = "%{y}, offset %{x:+d}: %{z:.1%}"
    top = largest(table["share"])
    return plot(
        [heat_map(wide, hover, "words", tickformat=".0%", gap=1, zmin=0, zmax=top)],
        150 + (20 if len(wide) <= 60 else 10) * len(wide),
        {**CELLS, "title": "offset, in words", "dtick": 1 if len(wide.columns) < 12 else 2},
        {**CELLS, **DOWN, "title": "head"},
    )


def kin_map(tables: Tables) -> go.Figure:
    """Heads that look alike lie near each other: distances between what they do with the same
    words, laid flat, so that distances are about right at best. Colours are clusters, marks are
    roles."""
    places = tables["clusters"]
    if places.empty:
        raise KeyError("no clusters")
    both = places.merge(tables["heads"][[*HEAD, "role"]], on=[*HEAD], how="left")
    both["role"] = both["role"].fillna("")
    names = named(both)
    near = both[[f"nearest_{name}" for name in HEAD]].set_axis([*HEAD], axis=1)
    both = both.assign(name=names, near=named(near, _several(both)), at=range(len(both)))
    sizes = both["cluster"].value_counts()
    several = sorted(cluster for cluster in sizes.index if sizes[cluster] > 1)
    hues = {cluster: MANY[place % len(MANY)] for place, cluster in enumerate(several)}
    order = [role for role in [*ROLES, ""] if (both["role"] == role).any()]
    is_named = len(both) <= NAMED and not _several(both)
    shown = []
    for role in order:
        own = both[both["role"] == role]
        shown.append(
            marks(
                own["x"],
                own["y"],
                "<b>%{customdata[1]}</b>: %{customdata[2]}, cluster %{customdata[3]}"
                "<br>nearest: %{customdata[4]}, %{customdata[5]:.2f} apart",
                colour=[hues.get(cluster, GREY) for cluster in own["cluster"]],
                symbol=SYMBOL.get(role, NO_SYMBOL),
                size=12,
                marker={"line": {"width": 0 if role else 2}},
                mode="markers+text" if is_named else "markers",
                text=own["name"],
                textposition="top center",
                textfont={"size": 11},
                cliponaxis=False,
                customdata=own.assign(role=role_of(role))[
                    ["at", "name", "role", "cluster", "near", "distance"]
                ].to_numpy(dtype=object),
                showlegend=False,
            )
        )
    signs = [(role_of(role), SYMBOL.get(role, NO_SYMBOL), GREY) for role in order]
    signs += [(f"cluster {cluster}", "circle", colour) for cluster, colour in hues.items()]
    signs += [("with none", "circle", GREY)] if len(sizes) > len(several) else []
    shown += [
        sign(name, marker={"symbol": mark, "color": colour, "size": 10})
        for name, mark, colour in signs
    ]
    bare = {"showticklabels": False, "zeroline": False}
    y = {**bare, "scaleanchor": "x"}
    return plot(shown, 560, bare, y, hovermode="closest", margin={"t": 110})


def dendrogram(tables: Tables) -> go.Figure:
    """In which order heads join, by the mean distance between what they do with the same words:
    from 0, the same, to 1."""
    from scipy.cluster.hierarchy import leaves_list

    joined, leaves = tables["dendrogram"], tables["clusters"]
    if joined.empty or leaves.empty:
        raise KeyError("no clusters")
    number = len(leaves)
    merges = joined[["left", "right", "distance", "size"]].to_numpy(dtype=float)
    order = [int(leaf) for leaf in leaves_list(merges)]
    height = [*([0.0] * number), *joined["distance"].astype(float)]
    place = {leaf: float(at) for at, leaf in enumerate(order)}
    x: list[float | None] = []
    y: list[float | None] = []
    for node, (one, two, far, _) in enumerate(merges.tolist(), start=number):
        left, right = int(one), int(two)
        x += [height[left], far, far, height[right], None]
        y += [place[left], place[left], place[right], place[right], None]
        place[node] = (place[left] + place[right]) / 2
    tree = curve(x, y, "", colour=EITHER, line={"width": 1.5}, mode="lines", hoverinfo="skip")
    joints = marks(
        joined["distance"],
        [place[node] for node in range(number, len(height))],
        "%{customdata} heads, %{x:.2f} apart",
        colour=EITHER,
        symbol="circle",
        size=5,
        customdata=joined["size"],
    )
    names = named(leaves)
    return plot(
        [tree, joints],
        100 + max(14, min(20, 2000 // number)) * number,
        {"title": "distance", "rangemode": "tozero"},
        {
            **CELLS,
            "tickvals": list(range(number)),
            "ticktext": [names[leaf] for leaf in order],
            "range": [number - 0.5, -0.5],
        },
        showlegend=False,
    )


def cross(tables: Tables) -> go.Figure:
    """How a decoder's heads go along the text that the encoder read. In order: the correlation of a
    word's place with where it looks; then the words that look at the same place, the first word,
    the last, and special pieces; and the entropy, of the greatest there is."""
    table = tables["cross"]
    if table.empty:
        raise KeyError("cross-attention")
    names = [f"{row.layer}-{row.head}" for row in table.itertuples()]
    if table["stack"].nunique() > 1:
        names = [f"{stack} {name}" for stack, name in zip(table["stack"], names, strict=True)]
    wide = table[list(MEASURES)].set_axis(names, axis=0).set_axis([*MEASURES.values()], axis=1)
    form = "%{z:.2f}" if len(table) <= NAMED else ""
    return plot(
        [heat_map(wide, "%{y}, %{x}: %{z:.3f}", form=form, zmin=-1, zmax=1)],
        120 + (26 if len(table) <= NAMED else 12) * len(table),
        {**CELLS, "side": "top"},
        {**CELLS, **DOWN, "title": "head"},
    )


def _several(table: pd.DataFrame) -> bool:
    return len(groups(table)) > 1


FIGURES = {
    "roles": roles,
    "scores": scores,
    "relations": relations,
    "offsets": offsets,
    "map": kin_map,
    "dendrogram": dendrogram,
    "cross": cross,
}


# --- figures of one head: where it looks, and which relations it follows beside simple rules ------
#
# Pure functions of the rows of `offsets` and `relations` that speak of it. Costs milliseconds.


def offsets_of_head(own: pd.DataFrame) -> go.Figure:
    """Where it looks: words that look so far to the left (negative) or to the right, of those that
    have a word there."""
    if own.empty:
        raise KeyError("no offsets")
    hover = "%{x:+d}: %{y:.1%} of %{customdata:,} words"
    return plot(
        [bars(own["share"], own["offset"], hover, upright=True, customdata=own["n"])],
        300,
        {"title": "offset, in words", "dtick": 2, "zeroline": False, "fixedrange": True},
        {"tickformat": ".0%", "rangemode": "tozero", "fixedrange": True},
        bargap=0.15,
    )


def relations_of_head(own: pd.DataFrame) -> go.Figure:
    """Its relations, the furthest above the simple rules on top."""
    if own.empty:
        raise KeyError("no relations")
    rows = own.sort_values("difference", ascending=False, kind="stable")
    names = [str(name) for name in rows["relation"]]
    return plot(
        accuracies(rows, names),
        140 + ROW * len(rows),
        _SHARE,
        _ranked(names),
        barmode="overlay",
        margin={"t": 64},
    )


# --- sentences of one head ------------------------------------------------------------------------
#
# Where a head is right and where it is wrong: words of a relation, their partners, its looks.
#
# Pure functions of the tables `looks` and `words`. Costs a pass over the rows of one head.

TO_HEAD = "dependent-to-head"


@dataclass(frozen=True)
class Case:
    """A word, its gold partners, and the word it looked at (-1: no reliable maximum)."""

    sentence: int
    word: int
    gold: tuple[int, ...]
    looks_at: int
    weight: float

    @property
    def is_right(self) -> bool:
        return self.looks_at in self.gold


def cases(
    looks: pd.DataFrame, words: pd.DataFrame, relation: str, direction: str, is_causal: bool
) -> list[Case]:
    """Every word of the relation that the head could answer for, in the order of the text.

    `looks` are the rows of one head. Where it cannot look ahead, later partners are not asked for.
    """
    arcs = words[(words["relation"] == relation) & (words["governor"] >= 0)]
    ends = ("word", "governor") if direction == TO_HEAD else ("governor", "word")
    gold: dict[tuple[int, int], list[int]] = {}
    for sentence, word, partner in arcs[["sentence", *ends]].itertuples(index=False):
        if not is_causal or partner < word:
            gold.setdefault((int(sentence), int(word)), []).append(int(partner))
    columns = ["sentence", "word", "looks_at", "weight"]
    found = [
        Case(int(sentence), int(word), tuple(gold[sentence, word]), int(at), float(weight))
        for sentence, word, at, weight in looks[columns].itertuples(index=False)
        if (sentence, word) in gold
    ]
    return sorted(found, key=lambda case: (case.sentence, case.word))


@dataclass(frozen=True)
class Sentence:
    """A text, and where its words stand in it."""

    words: tuple[str, ...]
    text: str
    spans: tuple[tuple[int, int], ...]


def sentences_of(words: pd.DataFrame) -> Mapping[int, Sentence]:
    """The texts as the words tell them, each word where it stood."""
    found = {}
    for number, own in words.sort_values(["sentence", "word"]).groupby("sentence"):
        text, spans = "", []
        for said, start in zip(own["text"].astype(str), own["start"], strict=True):
            text += " " * (int(start) - len(text))
            spans.append((len(text), len(text) + len(said)))
            text += said
        found[int(str(number))] = Sentence(tuple(own["text"].astype(str)), text, tuple(spans))
    return found
