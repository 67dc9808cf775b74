"""Figures of heads: grids by role and score, relations, offsets, a map and a tree of similar heads.

Pure functions of the tables of `heads`. A role has its own colour and its own code or mark, so that
no figure depends on colour alone. Costs: milliseconds.
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

GREY = COLOURS["light"][4]  # visible on light and dark
PALE = "rgba(131,141,151,.4)"
MEASURES = {
    "order": "order",
    "same": "same position",
    "first": "first word",
    "last": "last word",
    "special": "special pieces",
    "entropy": "entropy",
}  # columns of `cross` and their names
RULES = {
    "fixed offset": ("baseline_accuracy", "diamond"),
    "first word": ("baseline_first", "x"),
    "longest word": ("baseline_longest", "square-open"),
    "shuffled trees": ("null_mean", "circle-open"),
}  # marks next to the bars of accuracies: column and symbol
NAMED = 48  # maximum number of heads whose names are written on the map
ROW = 22  # pixels of a bar


def roles(tables: Tables) -> go.Figure:
    """Role of each head, one row per layer. The colour is the role that the head fills best; hover
    to see all its roles and scores."""
    return by_role(tables["heads"])


def scores(tables: Tables) -> go.Figure:
    """One score of each head, one row per layer. Choose the score in the menu."""
    heads = tables["heads"]
    names = [name for name, score in SCORES.items() if score.column in heads]
    if not names:
        raise KeyError("scores of heads")
    drawn = {name: by_score(heads, name) for name in names}
    figure = drawn[names[0]]
    maps = [index for index, trace in enumerate(figure.data) if trace.type == "heatmap"]
    buttons = []
    for name, grid in drawn.items():
        look = [grid.data[index] for index in maps]
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
    """The head with the highest accuracy on each relation (Clark et al. 2019: argmax over the other
    words, each dependent once), whatever its role. Error bars: 95 % intervals. Marks: simple rules
    (the best fixed offset, the first word, the word with most pieces)."""
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
    """Accuracies as bars with intervals, and simple rules as marks."""
    shown, is_sure = [], rows["syntactic"].astype(bool)
    for sure, colour, name in (
        (is_sure, EITHER, "syntactic (significantly above all baselines)"),
        (~is_sure, PALE, "not syntactic"),
    ):
        part = rows[sure]
        shown.append(
            bars(
                part["accuracy"],
                [each for each, is_own in zip(names, sure, strict=True) if is_own],
                "%{y}: accuracy %{x:.1%}, 95 % interval %{customdata[0]:.1%} to "
                "%{customdata[1]:.1%}, %{customdata[2]:,} arcs",
                name,
                colour,
                spread={**interval(part, "accuracy"), "color": "#808a95"},
                customdata=part[["lower", "upper", "n"]].to_numpy(),
            )
        )
    for name, (column, symbol) in RULES.items():
        if column in rows:
            offset = " %{customdata:+d}" if column == "baseline_accuracy" else ""
            edge = {"width": 1, **({"color": "#ffffff"} if symbol == "diamond" else {})}
            shown.append(
                marks(
                    rows[column].where(rows[column] > 0),  # only rules with a hit
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


_SHARE = {
    "title": "accuracy",
    "range": [0, 1.03],
    "tickformat": ".0%",
    "fixedrange": True,
    "showticklabels": True,
}


def _ranked(names: Sequence[str]) -> dict[str, object]:
    """An axis of names in this order, first on top."""
    order = {"categoryorder": "array", "categoryarray": names}
    return {**DOWN, **order, "fixedrange": True, "dtick": 1}


def offsets(tables: Tables) -> go.Figure:
    """Share of words that attend most to the word at each offset. Only words that have a word at
    this offset count. Rows: heads. Negative offsets: to the left."""
    table = tables["offsets"]
    if table.empty:
        raise KeyError("no offsets")
    wide = matrix(named(table), table["offset"], table["share"])
    hover = "head %{y}, offset %{x:+d}: %{z:.1%} of words"
    top = largest(table["share"])
    return plot(
        [heat_map(wide, hover, "share of words", tickformat=".0%", gap=1, zmin=0, zmax=top)],
        150 + (20 if len(wide) <= 60 else 10) * len(wide),
        {**CELLS, "title": "offset, in words", "dtick": 1 if len(wide.columns) < 12 else 2},
        {**CELLS, **DOWN, "title": "head"},
    )


def kin_map(tables: Tables) -> go.Figure:
    """Similar heads are near each other: distances of their attention from the same words,
    projected to two dimensions, so that distances are approximate. Colours: clusters; marks:
    roles."""
    points = tables["clusters"]
    if points.empty:
        raise KeyError("no clusters")
    both = points.merge(tables["heads"][[*HEAD, "role"]], on=[*HEAD], how="left")
    both["role"] = both["role"].fillna("")
    names = named(both)
    near = both[[f"nearest_{name}" for name in HEAD]].set_axis([*HEAD], axis=1)
    both = both.assign(name=names, near=named(near, _several(both)), at=range(len(both)))
    sizes = both["cluster"].value_counts()
    several = sorted(cluster for cluster in sizes.index if sizes[cluster] > 1)
    hues = {cluster: MANY[index % len(MANY)] for index, cluster in enumerate(several)}
    order = [role for role in [*ROLES, ""] if (both["role"] == role).any()]
    is_named = len(both) <= NAMED and not _several(both)
    shown = []
    for role in order:
        part = both[both["role"] == role]
        shown.append(
            marks(
                part["x"],
                part["y"],
                "<b>%{customdata[1]}</b>: %{customdata[2]}, cluster %{customdata[3]}"
                "<br>most similar head: %{customdata[4]}, distance %{customdata[5]:.2f}",
                colour=[hues.get(cluster, GREY) for cluster in part["cluster"]],
                symbol=SYMBOL.get(role, NO_SYMBOL),
                size=12,
                marker={"line": {"width": 0 if role else 2}},
                mode="markers+text" if is_named else "markers",
                text=part["name"],
                textposition="top center",
                textfont={"size": 11},
                cliponaxis=False,
                customdata=part.assign(role=role_of(role))[
                    ["at", "name", "role", "cluster", "near", "distance"]
                ].to_numpy(dtype=object),
                showlegend=False,
            )
        )
    signs = [(role_of(role), SYMBOL.get(role, NO_SYMBOL), GREY) for role in order]
    signs += [(f"cluster {cluster}", "circle", colour) for cluster, colour in hues.items()]
    signs += [("no cluster", "circle", GREY)] if len(sizes) > len(several) else []
    shown += [
        sign(name, marker={"symbol": mark, "color": colour, "size": 10})
        for name, mark, colour in signs
    ]
    bare = {"showticklabels": False, "zeroline": False}
    y = {**bare, "scaleanchor": "x"}
    return plot(shown, 560, bare, y, hovermode="closest", margin={"t": 110})


def dendrogram(tables: Tables) -> go.Figure:
    """Order in which heads are merged, by the mean distance of their attention from the same words:
    0 (equal) to 1."""
    from scipy.cluster.hierarchy import leaves_list

    merged, leaves = tables["dendrogram"], tables["clusters"]
    if merged.empty or leaves.empty:
        raise KeyError("no clusters")
    n_heads = len(leaves)
    merges = merged[["left", "right", "distance", "size"]].to_numpy(dtype=float)
    order = [int(leaf) for leaf in leaves_list(merges)]
    height = [*([0.0] * n_heads), *merged["distance"].astype(float)]
    position = {leaf: float(index) for index, leaf in enumerate(order)}
    x: list[float | None] = []
    y: list[float | None] = []
    for node, (one, two, far, _) in enumerate(merges.tolist(), start=n_heads):
        left, right = int(one), int(two)
        x += [height[left], far, far, height[right], None]
        y += [position[left], position[left], position[right], position[right], None]
        position[node] = (position[left] + position[right]) / 2
    tree = curve(x, y, "", colour=EITHER, line={"width": 1.5}, mode="lines", hoverinfo="skip")
    joints = marks(
        merged["distance"],
        [position[node] for node in range(n_heads, len(height))],
        "%{customdata} heads, distance %{x:.2f}",
        colour=EITHER,
        symbol="circle",
        size=5,
        customdata=merged["size"],
    )
    names = named(leaves)
    return plot(
        [tree, joints],
        100 + max(14, min(20, 2000 // n_heads)) * n_heads,
        {"title": "distance (0 to 1)", "rangemode": "tozero"},
        {
            **CELLS,
            "title": "head",
            "tickvals": list(range(n_heads)),
            "ticktext": [names[leaf] for leaf in order],
            "range": [n_heads - 0.5, -0.5],
        },
        showlegend=False,
    )


def cross(tables: Tables) -> go.Figure:
    """How the heads of a decoder follow the text that the encoder read. Order: correlation of the
    position of a word with the position it attends to. Same position, first word, last word and
    special pieces: share of words that attend to them. Entropy: share of its maximum."""
    table = tables["cross"]
    if table.empty:
        raise KeyError("cross-attention")
    names = [f"{row.layer}-{row.head}" for row in table.itertuples()]
    if table["stack"].nunique() > 1:
        names = [f"{stack} {name}" for stack, name in zip(table["stack"], names, strict=True)]
    wide = table[list(MEASURES)].set_axis(names, axis=0).set_axis([*MEASURES.values()], axis=1)
    form = "%{z:.2f}" if len(table) <= NAMED else ""
    return plot(
        [heat_map(wide, "head %{y}, %{x}: %{z:.3f}", form=form, zmin=-1, zmax=1)],
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


# --- figures of one head: its offsets, and its relations with simple rules ------------------------
#
# Pure functions of the rows of `offsets` and `relations` for this head. Costs: milliseconds.


def offsets_of_head(rows: pd.DataFrame) -> go.Figure:
    """Share of words that attend most to the word at each offset (negative: to the left). Only
    words that have a word at this offset count."""
    if rows.empty:
        raise KeyError("no offsets")
    hover = "offset %{x:+d}: %{y:.1%} of %{customdata:,} words"
    return plot(
        [bars(rows["share"], rows["offset"], hover, upright=True, customdata=rows["n"])],
        300,
        {"title": "offset, in words", "dtick": 2, "zeroline": False, "fixedrange": True},
        {
            "title": "share of words",
            "tickformat": ".0%",
            "rangemode": "tozero",
            "fixedrange": True,
        },
        bargap=0.15,
    )


def relations_of_head(table: pd.DataFrame) -> go.Figure:
    """Accuracy of this head on each relation. Top: the largest difference to the simple rules."""
    if table.empty:
        raise KeyError("no relations")
    rows = table.sort_values("difference", ascending=False, kind="stable")
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
# Where a head is right and where it is wrong: words of a relation, their partners, and targets.
#
# Pure functions of the tables `looks` and `words`. Costs: a pass over the rows of one head.

TO_HEAD = "dependent-to-head"


@dataclass(frozen=True)
class Case:
    """A word, its gold partners, and the word it attends to (-1: no reliable maximum)."""

    sentence: int
    word: int
    gold: tuple[int, ...]
    looks_at: int
    weight: float

    @property
    def is_right(self) -> bool:
        """Whether the word attends to a gold partner."""
        return self.looks_at in self.gold


def cases(
    looks: pd.DataFrame, words: pd.DataFrame, relation: str, direction: str, is_causal: bool
) -> list[Case]:
    """Every word with a visible partner of the relation, in the order of the text.

    `looks` are the rows of one head. A causal head does not see later partners.
    """
    arcs = words[(words["relation"] == relation) & (words["governor"] >= 0)]
    ends = ("word", "governor") if direction == TO_HEAD else ("governor", "word")
    gold: dict[tuple[int, int], list[int]] = {}
    for sentence, word, partner in arcs[["sentence", *ends]].itertuples(index=False):
        if not is_causal or partner < word:
            gold.setdefault((int(sentence), int(word)), []).append(int(partner))
    columns = ["sentence", "word", "looks_at", "weight"]
    cases = [
        Case(int(sentence), int(word), tuple(gold[sentence, word]), int(target), float(weight))
        for sentence, word, target, weight in looks[columns].itertuples(index=False)
        if (sentence, word) in gold
    ]
    return sorted(cases, key=lambda case: (case.sentence, case.word))


@dataclass(frozen=True)
class Sentence:
    """A text, its words, and their spans in it."""

    words: tuple[str, ...]
    text: str
    spans: tuple[tuple[int, int], ...]


def sentences_of(words: pd.DataFrame) -> Mapping[int, Sentence]:
    """The text of each sentence, rebuilt from the table `words`."""
    sentences = {}
    for index, rows in words.sort_values(["sentence", "word"]).groupby("sentence"):
        text, spans = "", []
        for word, start in zip(rows["text"].astype(str), rows["start"], strict=True):
            text += " " * (int(start) - len(text))
            spans.append((len(text), len(text) + len(word)))
            text += word
        texts = tuple(rows["text"].astype(str))
        sentences[int(str(index))] = Sentence(texts, text, tuple(spans))
    return sentences
