"""Heads as a grid, a layer a row: coloured by role, with its name, or by a score.

Pure functions of the table `heads`. Over the cells lie marks that nobody sees: they are what one
points at, and their `customdata` begins with the row of the table. Costs milliseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from workbench.core.experiment import HEAD
from workbench.figures.primitives import ends, head_grid, marks, sign
from workbench.figures.theme import MANY
from workbench.heads.roles import ROLES

NOTHING, PALE = "rgba(128,128,128,.25)", "rgba(128,128,128,.4)"  # a head without a role
_HOVER = (
    "<b>%{customdata[1]}</b>: %{customdata[2]}<br>%{customdata[3]}: %{customdata[4]:.1%},"
    " baseline %{customdata[5]:.1%}<br>offset %{customdata[6]:+d}: %{customdata[7]:.1%}<br>"
    "confidence %{customdata[8]:.1%}, entropy %{customdata[9]:.1%}<br>"
    "rarest word %{customdata[10]:.1%}<br>special pieces %{customdata[11]:.1%},"
    " by norm %{customdata[12]:.1%}<extra></extra>"
)
_ALSO = (
    "relation_accuracy", "relation_baseline", "offset", "offset_share", "confidence", "entropy",
    "rare_share", "special_mass", "special_mass_normed",
)  # fmt: skip


def by_role(heads: pd.DataFrame, shown: Sequence[bool] | None = None) -> go.Figure:
    """The grid with a colour and a word a role; heads that are not `shown` stay empty."""
    heads = heads.reset_index(drop=True)
    kept = _kept(heads, shown)
    order = list(ROLES)
    colours = [NOTHING, *(COLOUR[role] for role in order)]
    edges = [place / len(colours) for place in range(len(colours) + 1)]
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
            for place, colour in enumerate(colours)
            for edge in edges[place : place + 2]
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
    """The grid with a score as colour, one scale for all panels."""
    heads = heads.reset_index(drop=True)
    score, values, kept = SCORES[name], value_of(heads, name), _kept(heads, shown)
    form = ".0%" if score.is_share else ".1f"
    return head_grid(
        heads,
        values.where(kept),
        over=lambda part: [_pointed(heads, part[kept[part.index]])],
        form=f"%{{z:{form}}}",
        tickformat=form,
        **ends(values, score.above),
    )


def outlined(figure: go.Figure, heads: pd.DataFrame, row: int, colour: str) -> go.Figure:
    """A frame round the head of one row of the table."""
    here = heads.loc[row]
    panel = groups(heads).index((str(here["stack"]), str(here["kind"]))) + 1
    x, y = int(str(here["head"])), int(str(here["layer"]))
    box = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    figure.add_shape(type="rect", **box, line={"color": colour, "width": 3}, row=panel, col=1)
    return figure


def _kept(heads: pd.DataFrame, shown: Sequence[bool] | None) -> pd.Series:
    return pd.Series(True if shown is None else list(shown), heads.index)


def _pointed(heads: pd.DataFrame, part: pd.DataFrame) -> go.Scatter:
    """The marks that one points at."""
    names = pd.Series(named(heads), heads.index)[part.index]
    unseen = {"marker": {"opacity": 0}}
    return marks(
        part["head"],
        part["layer"],
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
                f"{here['best_relation'] or 'no relation'} {here['best_direction']}".strip(),
                *(here[name] for name in _ALSO),
            ]
            for name, (number, here) in zip(names, part.iterrows(), strict=True)
        ],
    )


# --- names and scores of heads --------------------------------------------------------------------
#
# What heads, their scores and their roles are called in figures and on the page, the same in
# both.
#
# Names and colours alone, and ways to lay the tables of `heads` out by them. Costs nothing.

GROUP = [*HEAD[:2]]
NONE = "none"  # of the roles
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
}  # written where a colour alone would have to say it
COLOUR: Mapping[str, str] = dict(zip(ROLES, MANY, strict=False))
SYMBOLS = (
    "star", "hourglass", "pentagon", "circle", "diamond", "square", "triangle-up",
    "triangle-down", "hexagon2", "cross", "x",
)  # fmt: skip
SYMBOL: Mapping[str, str] = dict(zip(ROLES, SYMBOLS, strict=True))
NO_SYMBOL = "circle-open"
WAYS: Mapping[str, str] = {
    "its head": "dependent-to-head",
    "a dependent": "head-to-dependent",
}  # what a word looks at, and what the tables call it
DIRECTIONS: Mapping[str, str] = {
    "dependent-to-head": "words that look at the word they depend on",
    "head-to-dependent": "words that look at a word that depends on them",
}


@dataclass(frozen=True)
class Score:
    """A column of `heads`: what it says, and the columns that it is to be held against."""

    column: str
    about: str
    beside: tuple[str, ...] = ()
    above: bool = False  # it is shown as what it is more than what it is held against
    is_share: bool = True
    of: str = ""  # a column that is asked of the same words, and has an interval


SCORES: Mapping[str, Score] = {
    "confidence": Score("confidence", "the mean largest weight, separators left out"),
    "entropy": Score("entropy", "how evenly it looks, of the most even there is"),
    "distance": Score("distance", "how far it looks, in words", is_share=False),
    "one offset": Score("offset_share", "words that look at its favourite offset"),
    "best relation": Score(
        "relation_accuracy",
        "words that look at their partner in its best relation",
        ("relation_baseline",),
    ),
    "best relation above baseline": Score(
        "relation_accuracy",
        "its best relation, less the best simple rule: a fixed offset, the first or longest word",
        ("relation_baseline",),
        above=True,
    ),
    "rarest word": Score(
        "rare_share", "words that look at the rarest word", ("rare_null", "rare_longest")
    ),
    "two rarest words": Score(
        "two_rarest_share", "words that look at one of the two rarest", of="rare_share"
    ),
    "special pieces": Score("special_mass", "attention that rests on special pieces"),
    "special pieces by norm": Score(
        "special_mass_normed", "the same, weighed by the length of what is written"
    ),
    "separator": Score(
        "separator_mass", "attention on the special piece behind the text", ("separator_even",)
    ),
    "first": Score("first_mass", "attention on where the text begins", ("first_even",)),
    "coreference": Score(
        "coref_accuracy",
        "mentions that look at one of their chain",
        ("coref_nearest", "coref_head_match"),
    ),
    "induction": Score("induction", "on blocks that come twice: at what followed before"),
    "duplicate": Score("duplicate", "on blocks that come twice: at the same piece before"),
    "previous": Score("previous", "attention on the word before"),
    "vertical": Score("vertical", "words that look at one and the same", ("vertical_even",)),
    "diagonal": Score(
        "diagonal", "attention on the word itself and those beside it", ("diagonal_even",)
    ),
    "reliable": Score("reliable", "words whose maximum is reliable"),
    "own sentence": Score("block", "attention within the sentence", ("block_even",)),
}


def groups(table: pd.DataFrame) -> list[tuple[str, str]]:
    """The stacks and kinds of attention, in the order of the table."""
    return [(str(stack), str(kind)) for stack, kind in table[GROUP].drop_duplicates().to_numpy()]


def named(table: pd.DataFrame, several: bool | None = None) -> list[str]:
    """Each row's head: 3-1 is head 1 of layer 3; with stack and kind where there are several."""
    several = len(groups(table)) > 1 if several is None else several
    return [
        f"{row.stack} {row.kind} {row.layer}-{row.head}" if several else f"{row.layer}-{row.head}"
        for row in table[[*HEAD]].itertuples()
    ]


def role_of(role: object) -> str:
    """A role as it is shown; a head may have none."""
    return str(role) if role else NONE


def value_of(table: pd.DataFrame, name: str) -> pd.Series:
    """A score of each row, as it is shown."""
    score = SCORES[name]
    if not score.above:
        return table[score.column]
    return table[score.column] - table[list(score.beside)].max(axis=1)
