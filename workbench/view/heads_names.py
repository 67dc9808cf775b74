"""What heads, their scores and their roles are called in figures and on the page, the same in both.

Names and colours alone, and ways to lay the tables of `heads` out by them. Costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from workbench.heads.roles import ROLES
from workbench.view.theme import MANY

HEAD = ["stack", "kind", "layer", "head"]
GROUP = HEAD[:2]
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
        for row in table[HEAD].itertuples()
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
