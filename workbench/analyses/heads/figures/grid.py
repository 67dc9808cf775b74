"""Heads as a grid, one row per layer: coloured by role, or by a score.

Pure functions of the table `heads`. Invisible marks lie over the cells: they receive the pointer,
and their `customdata` begins with the row of the table. Costs: milliseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.heads.roles import DIRECTIONS
from workbench.core.head_names import FIRST, ROLES
from workbench.drawing.heads import COLOUR, NONE, NOTHING, PALE, groups, named
from workbench.drawing.primitives import (
    ends,
    head_grid,
    marks,
    sign,
)

_HOVER = (
    "<b>%{customdata[1]}</b>: %{customdata[2]}<br>%{customdata[3]}: %{customdata[4]:.1%},"
    " best baseline %{customdata[5]:.1%}<br>"
    "offset %{customdata[6]:+d}: %{customdata[7]:.1%} of words<br>"
    "confidence %{customdata[8]:.1%}, entropy %{customdata[9]:.1%}<br>"
    "rarest word %{customdata[10]:.1%} of words<br>attention on special pieces "
    "%{customdata[11]:.1%}, weighted by norm %{customdata[12]:.1%}<extra></extra>"
)

_ALSO = (
    "relation_accuracy", "relation_baseline", "offset", "offset_share", "confidence", "entropy",
    "rare_share", "special_mass", "special_mass_normed",
)  # fmt: skip


def by_role(heads: pd.DataFrame, shown: Sequence[bool] | None = None) -> go.Figure:
    """The grid with one colour and code per role; heads that are not `shown` stay empty."""
    heads = heads.reset_index(drop=True)
    kept = _kept(heads, shown)
    order = list(ROLES)
    colours = [NOTHING, *(COLOUR[role] for role in order)]
    edges = [index / len(colours) for index in range(len(colours) + 1)]
    figure = head_grid(
        heads,
        heads["role"].map(lambda role: order.index(role) if role in order else -1).where(kept),
        heads["role"].map(lambda role: CODES.get(role, "")).where(kept, ""),
        lambda part: [_pointed(heads, part[kept[part.index]])],
        form="%{text}",
        zmin=-1.5,
        zmax=len(order) - 0.5,
        showscale=False,
        colorscale=[
            (edge, colour)
            for index, colour in enumerate(colours)
            for edge in edges[index : index + 2]
        ],
    )
    counts = heads["role"].value_counts()
    return figure.add_traces(
        [
            sign(
                f"{role_of(role)} ({counts[role]})",
                marker={"color": COLOUR.get(role, PALE), "symbol": "square", "size": 12},
            )
            for role in [*order, ""]
            if role in counts
        ]
    )


def by_score(heads: pd.DataFrame, name: str, shown: Sequence[bool] | None = None) -> go.Figure:
    """The grid coloured by a score, with one scale for all panels."""
    heads = heads.reset_index(drop=True)
    score, values, kept = SCORES[name], value_of(heads, name), _kept(heads, shown)
    form, title = (".0%" if score.is_share else ".1f"), ""
    if score.above:
        values, form, title = 100 * values, "+.0f", "points"
    return head_grid(
        heads,
        values.where(kept),
        title=title,
        over=lambda part: [_pointed(heads, part[kept[part.index]])],
        form=f"%{{z:{form}}}",
        tickformat=form,
        **(ends(values) if score.above or not score.is_share else {"zmin": 0, "zmax": 1}),
    )


def outlined(figure: go.Figure, heads: pd.DataFrame, row: int, colour: str) -> go.Figure:
    """The grid with a frame around the head of one row of the table."""
    here = heads.loc[row]
    panel = groups(heads).index((str(here["stack"]), str(here["kind"]))) + 1
    x, y = int(str(here["head"])) + FIRST, int(str(here["layer"])) + FIRST
    box = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    figure.add_shape(type="rect", **box, line={"color": colour, "width": 3}, row=panel, col=1)
    return figure


def _kept(heads: pd.DataFrame, shown: Sequence[bool] | None) -> pd.Series:
    return pd.Series(True if shown is None else list(shown), heads.index)


def _pointed(heads: pd.DataFrame, part: pd.DataFrame) -> go.Scatter:
    """The invisible marks that receive the pointer."""
    names = pd.Series(named(heads), heads.index)[part.index]
    unseen = {"marker": {"opacity": 0}}
    return marks(
        part["head"] + FIRST,
        part["layer"] + FIRST,
        _HOVER,
        colour="#808080",
        symbol="square",
        size=26,
        marker={"opacity": 0},
        selected=unseen,
        unselected=unseen,
        showlegend=False,
        customdata=[
            [
                number,
                name,
                here["roles"] or NONE,
                f"{here['best_relation'] or 'no relation'} "
                f"{DIRECTIONS.get(here['best_direction'], '')}".strip(),
                *(here[name] for name in _ALSO),
            ]
            for name, (number, here) in zip(names, part.iterrows(), strict=True)
        ],
    )


CODES: Mapping[str, str] = {
    "induction": "ind",
    "duplicate": "dup",
    "coreference": "cor",
    "syntactic": "syn",
    "rare": "rare",
    "positional": "pos",
    "separator": "sep",
    "first": "1st",
    "block": "blk",
    "vertical": "ver",
    "diagonal": "dia",
}  # in the cells, so that roles do not depend on colour alone

SYMBOLS = (
    "star", "hourglass", "pentagon", "circle", "diamond", "square", "triangle-up",
    "triangle-down", "hexagon2", "cross", "x",
)  # fmt: skip

SYMBOL: Mapping[str, str] = dict(zip(ROLES, SYMBOLS, strict=True))

NO_SYMBOL = "circle-open"

WAYS: Mapping[str, str] = {
    "its governor": "dependent-to-head",
    "a dependent": "head-to-dependent",
}  # what a word attends to, and its name in the tables


@dataclass(frozen=True)
class Score:
    """A column of the table `heads`: its meaning, and the columns of its baselines."""

    column: str
    about: str
    baselines: tuple[str, ...] = ()
    above: bool = False  # shown as the difference to the best baseline
    is_share: bool = True
    of: str = ""  # a column over the same words that has an interval


SCORES: Mapping[str, Score] = {
    "confidence": Score("confidence", "mean largest attention weight, without separators"),
    "entropy": Score("entropy", "entropy of the attention, as a share of its maximum"),
    "distance": Score("distance", "mean distance of the attention, in words", is_share=False),
    "one offset": Score("offset_share", "share of words that attend to the most frequent offset"),
    "best relation": Score(
        "relation_accuracy",
        "accuracy on its best relation",
        ("relation_baseline",),
    ),
    "best relation above baseline": Score(
        "relation_accuracy",
        "accuracy on its best relation minus the best simple rule: a fixed offset, the first or "
        "the longest word",
        ("relation_baseline",),
        above=True,
    ),
    "rarest word": Score(
        "rare_share", "share of words that attend to the rarest word", ("rare_null", "rare_longest")
    ),
    "two rarest words": Score(
        "two_rarest_share",
        "share of words that attend to one of the two rarest words",
        of="rare_share",
    ),
    "special pieces": Score("special_mass", "mean attention on special pieces"),
    "special pieces by norm": Score(
        "special_mass_normed",
        "attention on special pieces, weighted by the norm of the written value",
    ),
    "separator": Score(
        "separator_mass", "mean attention on the special piece after the text", ("separator_even",)
    ),
    "first": Score("first_mass", "mean attention on the beginning of the text", ("first_even",)),
    "coreference": Score(
        "coref_accuracy",
        "share of mentions that attend to an earlier mention of their chain",
        ("coref_nearest", "coref_head_match"),
    ),
    "induction": Score(
        "induction",
        "attention on the piece after the earlier copy, in random blocks that occur twice",
    ),
    "duplicate": Score(
        "duplicate", "attention on the earlier copy, in random blocks that occur twice"
    ),
    "previous": Score("previous", "mean attention on the word before"),
    "vertical": Score(
        "vertical", "mean attention on the word or special token that gets most", ("vertical_even",)
    ),
    "diagonal": Score(
        "diagonal", "mean attention on the word itself and its two neighbours", ("diagonal_even",)
    ),
    "reliable": Score("reliable", "share of words whose maximum is reliable"),
    "own sentence": Score(
        "block", "share of the attention on words that stays in the sentence", ("block_even",)
    ),
}


EVIDENCE: Mapping[str, str] = {
    "positional": "one offset",
    "syntactic": "best relation",
    "rare": "rarest word",
    "block": "own sentence",
}  # the score that a role stands on, if they have two names


def score_of(role: str) -> Score | None:
    """The score that a role stands on."""
    return SCORES.get(EVIDENCE.get(role, role))


def role_of(role: object) -> str:
    """A role as text; `none` for a head without a role."""
    return str(role) if role else NONE


def value_of(table: pd.DataFrame, name: str) -> pd.Series:
    """The values of a score, as shown."""
    score = SCORES[name]
    if not score.above:
        return table[score.column]
    return table[score.column] - table[list(score.baselines)].max(axis=1)
