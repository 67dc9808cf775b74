"""Figures of heads: grids by role and score, relations, offsets, a map and a tree of similar heads.

Pure functions of the tables of `heads`. A role has its own colour and its own code or mark, so that
no figure depends on colour alone. Costs: milliseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.heads.figures.grid import (
    NO_SYMBOL,
    SCORES,
    SYMBOL,
    by_role,
    role_of,
)
from workbench.analyses.heads.roles import DIRECTIONS
from workbench.core.findings import Tables
from workbench.core.groups import grouped
from workbench.core.head_names import FIRST, ROLES, head_number
from workbench.drawing.heads import COLOUR, groups, in_percent, named, offset_map, short
from workbench.drawing.primitives import (
    ACROSS,
    CELLS,
    DOWN,
    LETTER,
    THIN,
    WRITTEN,
    Trace,
    bars,
    curve,
    drawable,
    heat_map,
    heat_maps,
    interval,
    marks,
    matrix,
    panels,
    plot,
)
from workbench.drawing.theme import BASELINE, CONTROL, MODEL, NOT_SIGNIFICANT
from workbench.experiment.definition import HEAD

PALE = "rgba(131,141,151,.4)"
MEASURES = {
    "order": "order",
    "same": "same position",
    "first": "first word",
    "last": "last word",
    "special": "special tokens",
    "entropy": "entropy",
}  # columns of `cross` and their names
RULES = {
    "fixed offset": ("baseline_accuracy", "diamond"),
    "first word": ("baseline_first", "x"),
    "longest word": ("baseline_longest", "square-open"),
    "shuffled trees": ("null_mean", "circle-open"),
}  # marks next to the bars of accuracies: column and symbol
NAMED = 48  # maximum number of heads whose values are all written, or names on the map
ROW = 20  # pixels of a bar


def roles(tables: Tables) -> go.Figure:
    """The role that each head fills best.

    How to read: a row is a layer; the code in a cell is a role, and its colour the same role in all
    figures; pale cells have no role.
    """
    return by_role(tables["heads"])


SHOWN: Mapping[str, str] = {
    "first": "first",
    "separator": "separator",
    "rarest word": "rare",
    "coreference": "coreference",
    "induction": "induction",
}  # scores of the figure `scores`, and the role that each decides


def scores(tables: Tables) -> go.Figure:
    """Share of attention, or of words, that goes to one target per panel, in %.

    How to read: a row is a layer, a column a head; a coloured cell has the role, a grey one does
    not reach its baseline (below the panel) and thresholds. All panels have one scale.
    """
    heads = tables["heads"]
    names = [
        name
        for name in SHOWN
        if SCORES[name].column in heads and not _unmeasured(heads, SCORES[name].column)
    ]
    if not names:
        raise KeyError("scores of heads")
    several, across = _several(heads), min(3, len(names))
    rows = [
        f"{stack} {kind} {layer + FIRST}" if several else str(layer + FIRST)
        for stack, kind, layer in heads[[*HEAD[:3]]].itertuples(index=False)
    ]
    size, widest = len(set(rows)), int(heads["head"].max()) + 1
    width = ACROSS * 0.85 / across  # pixels of a panel
    is_written = widest * (2 * LETTER + 4) <= width
    parts: list[tuple[str, list[Trace]]] = []
    has_scale = is_written
    for name in names:
        score = SCORES[name]
        has_role = heads["roles"].map(lambda roles, r=SHOWN[name]: r in str(roles).split(", "))
        columns = heads["head"] + FIRST
        wide = matrix(rows, columns, heads[score.column])
        cells = heat_maps(
            wide,
            matrix(rows, columns, has_role).fillna(False).astype(bool),
            f"layer %{{y}}, head %{{x}}: {score.about}: %{{z:.1%}}",
            form="%{text}" if is_written else "",
            text=in_percent(wide),
            tickformat=".0%",
            width=width,
            zmin=0,
            zmax=1,
        )
        cells[1].showscale = bool(has_role.any()) and not has_scale
        has_scale |= bool(cells[1].showscale)
        parts.append(("first position" if name == "first" else name, cells))
    fixed = {**CELLS, "fixedrange": True}
    is_first = [index % across == 0 for index in range(len(names))]
    return panels(
        parts,
        size * max(THIN, min(26, 900 // size)),
        across,
        gap=84,
        top=0,
        apart=0.12,
        x=[
            {
                **fixed,
                "title": _baseline_of(heads, SCORES[name].baselines),
                "dtick": 1 if widest <= WRITTEN // 2 else 4,
            }
            for name in names
        ],
        y=[{**fixed, **DOWN, **({"title": "layer"} if first else _UNNAMED)} for first in is_first],
        hovermode="closest",
    )


_UNNAMED = {"showticklabels": False, "ticks": ""}  # an axis whose names stand at another panel


def _unmeasured(heads: pd.DataFrame, column: str) -> bool:
    """Whether no head has a case of this score, or all have nothing."""
    ends = [heads.get(f"{column}_{end}", default) for end, default in (("lower", 0), ("upper", 0))]
    width: pd.Series = pd.Series(ends[1], heads.index) - pd.Series(ends[0], heads.index)
    return bool((width >= 1).all() or not heads[column].any())


def _baseline_of(heads: pd.DataFrame, columns: Sequence[str]) -> str:
    """The best baseline of all heads, as text below a panel."""
    if not columns:
        return "head"
    best = heads[[*columns]].max(axis=1)
    low, high = f"{100 * best.min():.0f}", f"{100 * best.max():.0f}"
    return f"baseline {low} %" if low == high else f"baseline {low} to {high} %"


def relations(tables: Tables) -> go.Figure:
    """Accuracy of the best head on each relation: arcs whose word attends most to its partner.

    How to read: a bar is the head named to its right, with its 95 % interval; blue: significantly
    above every baseline, grey: not; diamonds: the best simple rule. E, D, X: encoder, decoder,
    cross-attention.
    """
    best = drawable(tables["best"], "no relations")
    gains = best.groupby("relation")[["syntactic", "gain"]].max()
    order = [*gains.sort_values(["syntactic", "gain"], ascending=False, kind="stable").index]
    tall = (ROW if len(order) <= 24 else 16) * len(order)
    parts: list[tuple[str, list[Trace]]] = []
    axes: list[dict[str, object]] = []
    for way, title in DIRECTIONS.items():
        part = best[best["direction"] == way]
        if len(part):
            axes.append({**_ranked(order), "showticklabels": not parts})
            parts.append((title, _best_bars(part)))
    return panels(
        parts,
        tall,
        len(parts),
        x={**_SHARE, "range": [0, 1.25], "tickvals": [0, 0.5, 1]},
        y=axes,
        top=0,
        apart=0.08,
        barmode="overlay",
        showlegend=False,
    )


def _best_bars(rows: pd.DataFrame) -> list[Trace]:
    """The bars of one direction, the names of their heads, and the best simple rule."""
    simple = [column for column, _ in RULES.values() if column in rows]
    best_rule = rows[simple].max(axis=1)
    shown = []
    is_sure = rows["syntactic"].astype(bool)
    for mask, colour in ((is_sure, MODEL), (~is_sure, NOT_SIGNIFICANT)):
        part = rows[mask]
        shown.append(
            bars(
                part["accuracy"],
                part["relation"],
                "%{y}, head %{customdata[3]}: accuracy %{x:.1%}, 95 % interval "
                "%{customdata[0]:.1%} to %{customdata[1]:.1%}, %{customdata[2]:,} arcs",
                colour=colour,
                spread={**interval(part, "accuracy"), "color": CONTROL},
                customdata=part[["lower", "upper", "n"]].assign(name=named(part)).to_numpy(object),
            )
        )
    names = marks(
        [1.07] * len(rows),
        rows["relation"],
        "",
        mode="text",
        text=short(rows),
        textposition="middle right",
        textfont={"size": 12},
        cliponaxis=False,
        hoverinfo="skip",
    )
    rules = marks(
        best_rule,
        rows["relation"],
        "%{y}: best simple rule %{x:.1%} (offset %{customdata[0]:+d}: %{customdata[1]:.1%})",
        colour=BASELINE,
        symbol="diamond",
        marker={"line": {"width": 1, "color": "#ffffff"}},
        cliponaxis=False,
        customdata=rows[["baseline_offset", "baseline_accuracy"]].to_numpy(dtype=object),
    )
    return [*shown, names, rules]


def accuracies(rows: pd.DataFrame, names: Sequence[str]) -> list[Trace]:
    """Accuracies as bars with intervals, and simple rules as marks."""
    shown, is_sure = [], rows["syntactic"].astype(bool)
    for sure, colour, name in (
        (is_sure, MODEL, "significantly above all baselines"),
        (~is_sure, NOT_SIGNIFICANT, "not significant"),
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
                spread={**interval(part, "accuracy"), "color": CONTROL},
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
                    CONTROL if column == "null_mean" else BASELINE,
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
    """Share of words that attend most to the word at each offset, in %.

    How to read: a row is a head, a column an offset (negative: to the left); cells that
    stand out: most words attend there. Only words that have a word at this offset count.
    """
    table = drawable(tables["offsets"], "no offsets")
    wide = matrix(named(table), table["offset"], table["share"])
    return offset_map(wide, "head %{y}, offset %{x:+d}: %{z:.1%} of words")


def kin_map(tables: Tables) -> go.Figure:
    """Distances of heads by their attention from the same words, projected to two dimensions.

    How to read: heads that are near each other attend alike (approximately); bands join a head to
    its most similar one in the same cluster; colours and marks are roles. E, D, X: encoder,
    decoder, cross-attention.
    """
    points = drawable(tables["clusters"], "no clusters")
    both = points.merge(tables["heads"][[*HEAD, "role"]], on=[*HEAD], how="left")
    both["role"] = both["role"].fillna("")
    near = both[[f"nearest_{name}" for name in HEAD]].set_axis([*HEAD], axis=1)
    both = both.assign(
        name=named(both), near=named(near, _several(both)), label=short(both), at=range(len(both))
    )
    order = [role for role in [*ROLES, ""] if (both["role"] == role).any()]
    scale = _scale(both)
    links = _links(both, near)
    lines, labels, space = _labels(both, links, scale)
    shown = [_bands(both, links), lines, labels]
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False}
    for role in order:
        part = both[both["role"] == role]
        shown.append(
            marks(
                part["x"],
                part["y"],
                "<b>%{customdata[1]}</b>: %{customdata[2]}, cluster %{customdata[3]}"
                "<br>most similar head: %{customdata[4]}, distance %{customdata[5]:.2f}",
                role_of(role),
                colour=COLOUR.get(role, BASELINE),
                symbol=SYMBOL.get(role, NO_SYMBOL),
                size=11,
                marker={"line": {"width": 0 if role else 2}},
                cliponaxis=False,
                customdata=part.assign(role=role_of(role))[
                    ["at", "name", "role", "cluster", "near", "distance"]
                ].to_numpy(dtype=object),
            )
        )
    return plot(
        shown,
        MAP,
        {**bare, "range": [space[0] / scale, space[1] / scale]},
        {**bare, "range": [space[2] / scale, space[3] / scale], "scaleanchor": "x"},
        hovermode="closest",
        margin={"t": 40, "b": 8},
    )


Box = tuple[float, float, float, float]  # left, right, low, high
MAP, TOP = 520, 48  # pixels of the map: its height, and those above and below the points
NEAREST = 14  # pixels between a mark and its label
NEAR = 8  # places next to a mark; a line leads to the others


def _scale(points: pd.DataFrame) -> float:
    """Pixels of a unit: the same in both directions, so that all points are in view."""
    width, height = ((points[name].max() - points[name].min()) or 1e-6 for name in ("x", "y"))
    edges = 6 * NEAREST
    return float(min((ACROSS - edges) / width, (MAP - TOP - edges) / height))


def _links(points: pd.DataFrame, near: pd.DataFrame) -> list[tuple[int, int]]:
    """Rows of heads and of their most similar ones, where both are in one cluster."""
    place = {tuple(key): row for row, key in enumerate(points[[*HEAD]].to_numpy().tolist())}
    clusters = points["cluster"].tolist()
    pairs = [
        (row, place.get(tuple(key), row))
        for row, key in enumerate(near[[*HEAD]].to_numpy().tolist())
    ]
    return [(a, b) for a, b in pairs if a != b and clusters[a] == clusters[b]]


def _bands(points: pd.DataFrame, links: Sequence[tuple[int, int]]) -> Trace:
    """Pale bands between linked heads."""
    ends = {name: points[name].tolist() for name in ("x", "y")}
    x, y = (
        [value for a, b in links for value in (ends[name][a], ends[name][b], None)]
        for name in ("x", "y")
    )
    return curve(x, y, "", colour=PALE, line={"width": 7}, mode="lines", hoverinfo="skip")


def _labels(
    points: pd.DataFrame, links: Sequence[tuple[int, int]], scale: float
) -> tuple[Trace, Trace, Box]:
    """Lines from names of heads to marks that are not the nearest, the names, and their space.

    A name goes to the first place around its mark that is free of marks, links and other names; one
    that finds none is left out. Of more heads than `NAMED`, only those have a name that have room
    for it next to their mark. `scale` are the pixels of a unit; the space is in pixels.
    """
    at = scale * points[["x", "y"]].to_numpy(dtype=float)  # [heads, 2]
    taken = [(x - 7, x + 7, y - 7, y + 7) for x, y in at]
    for a, b in links:
        steps = np.linspace(at[a], at[b], 2 + int(np.hypot(*(at[a] - at[b])) // 6))
        taken += [(x - 3, x + 3, y - 3, y + 3) for x, y in steps]
    placed: list[tuple[float, float, str]] = []
    x_lines: list[float | None] = []
    y_lines: list[float | None] = []
    are_few = len(points) <= NAMED
    by_role = sorted(range(len(points)), key=lambda row: not points["role"].iloc[row])
    for row in by_role:
        text = str(points["label"].iloc[row])
        half = LETTER * 0.9 * len(text) / 2
        places = _around(half)
        for place in (places if are_few else places[:NEAR]) if text else ():
            x, y = at[row, 0] + place[0], at[row, 1] + place[1]
            box = (x - half - 1, x + half + 1, y - 7, y + 7)
            nearest = np.hypot(at[:, 0] - x, at[:, 1] - y).argmin()
            if not any(_overlap(box, other) for other in taken) and (are_few or nearest == row):
                taken.append(box)
                placed.append((x / scale, y / scale, text))
                if place in places[NEAR:] or nearest != row:
                    edge = 1 - min(
                        abs(reach / move) if move else 1
                        for reach, move in zip((half, 7), place, strict=True)
                    )
                    x_lines += [at[row, 0] / scale, (at[row, 0] + edge * place[0]) / scale, None]
                    y_lines += [at[row, 1] / scale, (at[row, 1] + edge * place[1]) / scale, None]
                break
    names = marks(
        [x for x, _, _ in placed],
        [y for _, y, _ in placed],
        "",
        mode="text",
        text=[text for *_, text in placed],
        textposition="middle center",
        textfont={"size": 12},
        cliponaxis=False,
        hoverinfo="skip",
    )
    lines = curve(
        x_lines, y_lines, "", colour=BASELINE, line={"width": 1}, mode="lines", hoverinfo="skip"
    )
    left, right, low, high = np.array(taken).T
    return lines, names, (left.min() - 4, right.max() + 4, low.min() - 4, high.max() + 4)


def _around(half: float) -> list[tuple[float, float]]:
    """Places of a label around its mark, the best first; `half` is half its width."""
    found = []
    for step in (1, 2, 3, 4):
        up, side = NEAREST * step, (half + NEAREST * (step - 0.3))
        found += [(0.0, up), (0.0, -up), (side, 0.0), (-side, 0.0)]
        found += [(side, up), (-side, up), (side, -up), (-side, -up)]
    return found


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def dendrogram(tables: Tables) -> go.Figure:
    """Mean distance of the attention of heads from the same words: 0 (equal) to 1 (disjoint).

    How to read: heads that are joined further to the left attend more alike; a line across is a
    merge of two clusters.
    """
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
    tree = curve(x, y, "", colour=MODEL, line={"width": 1.5}, mode="lines", hoverinfo="skip")
    joints = marks(
        merged["distance"],
        [position[node] for node in range(n_heads, len(height))],
        "%{customdata} heads, distance %{x:.2f}",
        colour=MODEL,
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
    """How the cross-attention heads of a decoder follow the text that the encoder read.

    How to read: a row is a head. Order: correlation of the position of a word with the position it
    attends to; same position, first word, last word, special tokens: share of words that attend to
    them; entropy: share of its maximum.
    """
    table = drawable(tables["cross"], "cross-attention")
    names = [head_number(row.layer, row.head) for row in table.itertuples()]
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
    """Share of words that attend most to the word at each offset.

    How to read: negative offsets are to the left; only words that have a word at an offset count.
    """
    drawable(rows, "no offsets")
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
    """Accuracy of this head on each relation, with 95 % intervals.

    How to read: top: the largest difference to the simple rules; blue bars are significantly above
    all of them; grey marks are the rules and shuffled trees.
    """
    drawable(table, "no relations")
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
    gold = grouped(
        ((int(sentence), int(word)), int(partner))
        for sentence, word, partner in arcs[["sentence", *ends]].itertuples(index=False)
        if not is_causal or partner < word
    )
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
