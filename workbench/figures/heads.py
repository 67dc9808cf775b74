"""Figures of what heads do: grids by role and score, relations, offsets, a map, a tree of kin.

Pure functions of the tables of `heads`; they cost milliseconds. A role has a colour and a word or a
mark of its own, so that neither has to be told by colour alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.core.experiment import HEAD
from workbench.figures.head_grid import (
    BETWEEN,
    DIRECTIONS,
    NO_SYMBOL,
    SCORES,
    SYMBOL,
    by_role,
    by_score,
    groups,
    named,
    role_of,
    titles_left,
)
from workbench.figures.theme import COLOURS, EITHER, MANY
from workbench.heads.roles import ROLES

Tables = Mapping[str, pd.DataFrame]
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
    drawn = [by_score(heads, name) for name in there]
    figure = drawn[0]
    maps = [place for place, trace in enumerate(figure.data) if trace.type == "heatmap"]
    buttons = []
    for name, own in zip(there, drawn, strict=True):
        look = [own.data[place] for place in maps]
        change = {
            "z": [trace.z for trace in look],
            "zmin": [trace.zmin for trace in look],
            "zmax": [trace.zmax for trace in look],
            "texttemplate": [trace.texttemplate for trace in look],
            "colorbar.tickformat": [trace.colorbar.tickformat for trace in look],
        }
        buttons.append({"label": name, "method": "restyle", "args": [change, maps]})
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    figure.update_layout(updatemenus=[menu])
    return figure


def relations(tables: Tables) -> go.Figure:
    """Of each relation the head of the highest accuracy (Clark et al. 2019: argmax over the other
    words, each dependent once), whatever its role, with its 95 % interval; next to it simple rules:
    the best fixed offset, the first word and the longest in pieces."""
    best = tables["best"]
    if best.empty:
        raise KeyError("no relations")
    parts = [(way, best[best["direction"] == way]) for way in DIRECTIONS]
    parts = [(way, part) for way, part in parts if len(part)]
    sizes = [len(part) for _, part in parts]
    inner = ROW * sum(sizes) + BETWEEN * (len(parts) - 1)
    figure = make_subplots(
        len(parts),
        1,
        subplot_titles=[DIRECTIONS[way] for way, _ in parts],
        row_heights=sizes,
        vertical_spacing=BETWEEN / inner if len(parts) > 1 else 0,
        shared_xaxes="all",
    )
    for row, (_, part) in enumerate(parts, start=1):
        part = part.sort_values("accuracy", ascending=False, kind="stable")
        pairs = zip(part["relation"], named(part, _several(best)), strict=True)
        bars(figure, part, [f"{relation}  {head}" for relation, head in pairs], row)
    titles_left(figure)
    figure.update_layout(height=inner + 134, margin={"t": 84, "b": 50})
    figure.update_layout(legend={"y": 1 + 30 / inner})
    return figure


def bars(figure: go.Figure, rows: pd.DataFrame, names: list[str], panel: int = 1) -> None:
    """Accuracies as bars with intervals and, as marks, the accuracy of simple rules."""
    first = panel == 1
    is_sure = rows["syntactic"].astype(bool).to_numpy()
    for sure, colour, name in (
        (True, EITHER, "beats its baselines, significantly"),
        (False, PALE, "does not, or not significantly"),
    ):
        there = is_sure == sure
        own = rows[there]
        figure.add_trace(
            go.Bar(
                name=name,
                legendgroup=name,
                showlegend=first,
                x=own["accuracy"],
                y=[each for each, is_own in zip(names, there, strict=True) if is_own],
                orientation="h",
                marker={"color": colour},
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": (own["upper"] - own["accuracy"]).clip(lower=0),
                    "arrayminus": (own["accuracy"] - own["lower"]).clip(lower=0),
                    "thickness": 1,
                    "width": 3,
                    "color": "#808a95",
                },
                customdata=own[["lower", "upper", "n"]].to_numpy(),
                hovertemplate="%{y}: %{x:.1%}, %{customdata[0]:.1%} to "
                "%{customdata[1]:.1%}, of %{customdata[2]:,} dependents<extra></extra>",
            ),
            panel,
            1,
        )
    marks = [
        ("fixed offset", "baseline_accuracy", "diamond"),
        ("first word", "baseline_first", "x"),
        ("longest word", "baseline_longest", "square-open"),
    ]
    for name, column, symbol in [*marks, ("shuffled trees", "null_mean", "circle-open")]:
        if column not in rows:
            continue
        offset = column == "baseline_accuracy"
        figure.add_trace(
            go.Scatter(
                name=name,
                legendgroup=name,
                showlegend=first,
                x=rows[column].where(rows[column] > 0),  # where it hits at all
                y=names,
                mode="markers",
                cliponaxis=False,
                marker={
                    "symbol": symbol,
                    "size": 8,
                    "color": COLOURS["light"][1],
                    "line": {"width": 1, "color": "#ffffff"}
                    if symbol == "diamond"
                    else {"width": 1},
                },
                customdata=rows["baseline_offset"] if offset else None,
                hovertemplate=f"%{{y}}, {name}"
                f"{' %{customdata:+d}' if offset else ''}: %{{x:.1%}}<extra></extra>",
            ),
            panel,
            1,
        )
    figure.update_xaxes(range=[0, 1.03], tickformat=".0%", fixedrange=True, showticklabels=True)
    figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=names, autorange="reversed",
        fixedrange=True, dtick=1, row=panel, col=1,
    )  # fmt: skip
    figure.update_layout(barmode="overlay")


def offsets(tables: Tables) -> go.Figure:
    """How many words look so far to the left (negative) or to the right, of those that have a word
    there. A head is a row."""
    table = tables["offsets"]
    if table.empty:
        raise KeyError("no offsets")
    names = named(table)
    wide = table.assign(name=names).pivot(index="name", columns="offset", values="share")
    wide = wide.loc[list(dict.fromkeys(names))]
    figure = go.Figure(
        go.Heatmap(
            z=wide.to_numpy(dtype=float),
            x=list(wide.columns),
            y=list(wide.index),
            zmin=0,
            zmax=float(table["share"].max()) or 1.0,
            xgap=1,
            ygap=1,
            autocolorscale=True,
            colorbar={"title": {"text": "words", "side": "right"}, "tickformat": ".0%"},
            hovertemplate="%{y}, offset %{x:+d}: %{z:.1%}<extra></extra>",
        )
    )
    figure.update_layout(height=150 + (20 if len(wide) <= 60 else 10) * len(wide))
    figure.update_xaxes(title="offset, in words", dtick=1 if len(wide.columns) < 12 else 2)
    figure.update_xaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(title="head", type="category", autorange="reversed", showgrid=False)
    return figure


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
    figure = go.Figure()
    order = [role for role in [*ROLES, ""] if (both["role"] == role).any()]
    is_named = len(both) <= NAMED and not _several(both)
    for role in order:
        own = both[both["role"] == role]
        figure.add_trace(
            go.Scatter(
                x=own["x"],
                y=own["y"],
                mode="markers+text" if is_named else "markers",
                text=own["name"],
                textposition="top center",
                textfont={"size": 11},
                cliponaxis=False,
                marker={
                    "symbol": SYMBOL.get(role, NO_SYMBOL),
                    "size": 12,
                    "color": [hues.get(cluster, GREY) for cluster in own["cluster"]],
                    "line": {"width": 0 if role else 2},
                },
                customdata=[
                    [row.at, row.name_, role_of(role), row.cluster, row.near, row.distance]
                    for row in own.rename(columns={"name": "name_"}).itertuples()
                ],
                hovertemplate="<b>%{customdata[1]}</b>: %{customdata[2]}, cluster %{customdata[3]}"
                "<br>nearest: %{customdata[4]}, %{customdata[5]:.2f} apart<extra></extra>",
                showlegend=False,
            )
        )
    for role in order:
        marker = {"symbol": SYMBOL.get(role, NO_SYMBOL), "color": GREY, "size": 10}
        figure.add_trace(_sign(role_of(role), marker))
    for cluster, colour in hues.items():
        figure.add_trace(_sign(f"cluster {cluster}", {"symbol": "circle", "color": colour}))
    if len(sizes) > len(several):
        figure.add_trace(_sign("with none", {"symbol": "circle", "color": GREY}))
    figure.update_layout(height=560, hovermode="closest", margin={"t": 110})
    figure.update_xaxes(showticklabels=False, zeroline=False)
    figure.update_yaxes(showticklabels=False, zeroline=False, scaleanchor="x")
    return figure


def dendrogram(tables: Tables) -> go.Figure:
    """In which order heads join, by the mean distance between what they do with the same words:
    from 0, the same, to 1."""
    joined, leaves = tables["dendrogram"], tables["clusters"]
    if joined.empty or leaves.empty:
        raise KeyError("no clusters")
    number = len(leaves)
    pairs = [
        (int(left), int(right), float(far))
        for left, right, far in joined[["left", "right", "distance"]].to_numpy()
    ]
    height = dict.fromkeys(range(number), 0.0)
    height |= {number + place: far for place, (_, _, far) in enumerate(pairs)}
    place = {leaf: float(at) for at, leaf in enumerate(_in_order(pairs, number))}
    x: list[float | None] = []
    y: list[float | None] = []
    for at, (left, right, far) in enumerate(pairs):
        x += [height[left], far, far, height[right], None]
        y += [place[left], place[left], place[right], place[right], None]
        place[number + at] = (place[left] + place[right]) / 2
    names = named(leaves)
    order = sorted(range(number), key=lambda leaf: place[leaf])
    figure = go.Figure(
        go.Scatter(x=x, y=y, mode="lines", line={"color": EITHER, "width": 1.5}, hoverinfo="skip")
    )
    figure.add_trace(
        go.Scatter(
            x=[height[number + at] for at in range(len(pairs))],
            y=[place[number + at] for at in range(len(pairs))],
            mode="markers",
            marker={"color": EITHER, "symbol": "circle", "size": 5},
            customdata=joined["size"],
            hovertemplate="%{customdata} heads, %{x:.2f} apart<extra></extra>",
        )
    )
    figure.update_layout(height=100 + max(14, min(20, 2000 // number)) * number, showlegend=False)
    figure.update_xaxes(title="distance", rangemode="tozero")
    figure.update_yaxes(
        tickvals=list(range(number)),
        ticktext=[names[leaf] for leaf in order],
        showgrid=False,
        zeroline=False,
        range=[number - 0.5, -0.5],
    )
    return figure


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
    figure = go.Figure(
        go.Heatmap(
            z=table[list(MEASURES)].to_numpy(dtype=float),
            x=list(MEASURES.values()),
            y=names,
            zmin=-1,
            zmax=1,
            autocolorscale=True,
            xgap=2,
            ygap=2,
            texttemplate="%{z:.2f}" if len(table) <= NAMED else "",
            hovertemplate="%{y}, %{x}: %{z:.3f}<extra></extra>",
        )
    )
    figure.update_layout(height=120 + (26 if len(table) <= NAMED else 12) * len(table))
    figure.update_xaxes(side="top", showgrid=False)
    figure.update_yaxes(title="head", type="category", autorange="reversed", showgrid=False)
    return figure


# --- what figures are made of ---------------------------------------------------------------------


def _several(table: pd.DataFrame) -> bool:
    return len(groups(table)) > 1


def _sign(name: str, marker: dict[str, object]) -> go.Scatter:
    """An entry of the legend."""
    return go.Scatter(x=[None], y=[None], name=name, mode="markers", marker=marker)


def _in_order(pairs: list[tuple[int, int, float]], leaves: int) -> list[int]:
    """The leaves so that no lines cross."""
    found: list[int] = []
    waiting = [leaves + len(pairs) - 1]
    while waiting:
        node = waiting.pop()
        if node < leaves:
            found.append(node)
        else:
            left, right, _ = pairs[node - leaves]
            waiting += [right, left]
    return found


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
    figure = go.Figure(
        go.Bar(
            x=own["offset"],
            y=own["share"],
            marker={"color": EITHER},
            customdata=own["n"],
            hovertemplate="%{x:+d}: %{y:.1%} of %{customdata:,} words<extra></extra>",
        )
    )
    figure.update_layout(height=300, bargap=0.15)
    figure.update_xaxes(title="offset, in words", dtick=2, zeroline=False, fixedrange=True)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero", fixedrange=True)
    return figure


def relations_of_head(own: pd.DataFrame) -> go.Figure:
    """Its relations, the furthest above the simple rules on top."""
    if own.empty:
        raise KeyError("no relations")
    rows = own.sort_values("difference", ascending=False, kind="stable")
    figure = go.Figure().set_subplots(1, 1)
    bars(figure, rows, [str(name) for name in rows["relation"]])
    figure.update_layout(height=140 + ROW * len(rows), margin={"t": 64})
    return figure


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
