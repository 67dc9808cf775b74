"""The data of views: tokens, predictions, cells, words in sentences, and pieces of words.

Plain data for JSON. Texts are shown as text, whatever they contain. Costs: nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workbench.core.findings import percent
from workbench.drawing.sanitize import is_right_to_left

View = dict[str, Any]


@dataclass(frozen=True)
class Token:
    """A token of a strip; `slot` is a place without a word, such as the next one."""

    t: str  # its text
    i: int  # what a click on it refers to
    special: bool = False
    fixed: bool = False  # cannot be chosen
    mark: str = ""  # hidden, deleted, changed or moved
    score: float | None = None
    tip: str = ""  # shown when pointed at
    slot: bool = False
    under: str = ""  # a second line, such as a tag
    chosen: bool = False  # the selected word of all pages


@dataclass(frozen=True)
class Tool:
    """What a click on a token does."""

    name: str
    label: str
    help: str


@dataclass(frozen=True)
class Choice:
    """A row of a list of predictions."""

    id: int
    t: str
    p: float  # probability
    mark: str = ""  # target or against
    note: str = ""
    change: float = 0.0  # of the probability


@dataclass(frozen=True)
class Predictions:
    """A list of predictions; `rest` is the probability of all other choices."""

    name: str
    rows: Sequence[Choice]
    about: str = ""
    rest: float = 0.0


@dataclass(frozen=True)
class Context:
    """A word in its sentence; `value` is a number from 0 to 1, such as a similarity."""

    id: int
    before: str
    word: str
    after: str
    value: float | None = None
    tag: str = ""
    tip: str = ""  # shown when pointed at: the whole sentence
    is_open: bool = False


@dataclass(frozen=True)
class Contexts:
    """A list of words in their sentences, with a line above and a line below."""

    name: str
    rows: Sequence[Context]
    about: str = ""
    note: str = ""


@dataclass(frozen=True)
class Box:
    """A piece of a word; `part` is its index in the word, and its colour."""

    t: str
    part: int = 0
    id: int | None = None  # its row in the vocabulary
    mark: str = ""  # special, unknown or new
    tip: str = ""


@dataclass(frozen=True)
class Step:
    """One step of a tokenizer: the pieces so far, the text that is not yet split, and why."""

    boxes: Sequence[Box]
    about: str = ""
    rest: str = ""


@dataclass(frozen=True)
class Steps:
    """The steps of one tokenizer; `ordered`: each follows from the one before."""

    name: str
    rows: Sequence[Step]
    about: str = ""
    ordered: bool = True


def strip(
    name: str,
    label: str,
    tokens: Sequence[Token],
    *,
    selected: int | None = None,
    pickable: bool = True,
    tools: Sequence[Tool] = (),
    legend: tuple[str, str] | None = None,
    diverging: bool = True,
    top: float | None = None,
    note: str = "",
    scrolls: bool = False,
) -> View:
    """A strip of tokens; `legend` says what low and high scores mean.

    `top` is the score of the strongest colour (default: the largest of the strip). A strip that
    scrolls is never higher than some lines.
    """
    items = [{**asdict(token), "score": _finite(token.score)} for token in tokens]
    scores = [abs(item["score"]) for item in items if item["score"] is not None]
    words = [token.t for token in tokens if not token.special and not token.slot]
    return {
        "kind": "strip",
        "scrolls": scrolls,
        "name": name,
        "label": label,
        "items": items,
        "selected": selected,
        "pickable": pickable,
        "tools": [asdict(tool) for tool in tools] or None,
        "legend": None if legend is None else {"low": legend[0], "high": legend[1]},
        "diverging": diverging,
        "top": top or max(scores, default=0.0) or 1.0,
        "note": note,
        "rtl": sum(map(is_right_to_left, words)) > len(words) / 2,
    }


def written_strip(name: str, label: str, pieces: Sequence[tuple[str, float]], **look: Any) -> View:
    """A strip of the pieces that a model wrote, with the probability of each."""
    tokens = [
        Token(text, n, score=p, tip=f"probability {percent(p, 1)}")
        for n, (text, p) in enumerate(pieces)
    ]
    return strip(name, label, tokens, diverging=False, top=1.0, **look)


def bars(
    name: str, lists: Sequence[Predictions], *, pickable: bool = False, about: str = ""
) -> View:
    """Lists of predictions next to each other; `about` says what a click does."""
    return {
        "kind": "bars",
        "name": name,
        "lists": [asdict(each) for each in lists],
        "pickable": pickable,
        "about": about,
    }


def grid(
    name: str,
    label: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    texts: Sequence[Sequence[str]] | None = None,
    tips: Sequence[Sequence[str]] | None = None,
    corner: str = "",
    marked: Sequence[tuple[int, int]] = (),
    column: int | None = None,
    row: int | None = None,
    chosen: int | None = None,
    pickable: bool = False,
    legend: tuple[str, str] | None = None,
    diverging: bool = False,
    top: float | None = None,
    percent: bool = False,
    note: str = "",
) -> View:
    """A grid of cells, coloured by their values; `texts` stand in them instead of numbers.

    `marked` cells have a frame; `row` and `column` are selected, and `chosen` is the column of the
    word that is selected on all pages. Shares are written in percent.
    """
    finite = [[_finite(value) for value in line] for line in values]
    largest = max((abs(v) for line in finite for v in line if v is not None), default=0.0)
    return {
        "kind": "grid",
        "name": name,
        "label": label,
        "rows": list(rows),
        "columns": list(columns),
        "values": finite,
        "texts": None if texts is None else [list(line) for line in texts],
        "tips": None if tips is None else [list(line) for line in tips],
        "corner": corner,
        "marked": [list(cell) for cell in marked],
        "column": column,
        "row": row,
        "chosen": chosen,
        "pickable": pickable,
        "legend": None if legend is None else {"low": legend[0], "high": legend[1]},
        "diverging": diverging,
        "top": top or largest or 1.0,
        "percent": percent,
        "note": note,
    }


def contexts(
    name: str, lists: Sequence[Contexts], *, pickable: bool = False, about: str = ""
) -> View:
    """Lists of words in their sentences next to each other; `about` says what a click does."""
    return {
        "kind": "contexts",
        "name": name,
        "lists": [
            {**asdict(each), "rows": [_with_finite(asdict(row), "value") for row in each.rows]}
            for each in lists
        ],
        "pickable": pickable,
        "about": about,
    }


def pieces(
    name: str,
    label: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Sequence[Box]]],
    *,
    words: Sequence[int | None],
    row: int | None = None,
    heads: Sequence[str] = (),
    foot: Sequence[str] = (),
    pickable: bool = False,
    about: str = "",
    note: str = "",
) -> View:
    """A table of pieces: a row for each word, a column for each model.

    `words` has the index of the word of each row, None for a row without one, which cannot be
    chosen. `heads` are second lines of the columns' names, `foot` is a last row; `row` is selected.
    """
    return {
        "kind": "pieces",
        "name": name,
        "label": label,
        "rows": list(rows),
        "columns": list(columns),
        "cells": [[[asdict(box) for box in cell] for cell in line] for line in cells],
        "words": list(words),
        "row": row,
        "heads": list(heads),
        "foot": list(foot),
        "pickable": pickable,
        "about": about,
        "note": note,
    }


def steps(name: str, lists: Sequence[Steps]) -> View:
    """Steps of tokenizers next to each other, to go through with buttons or arrow keys."""
    return {"kind": "steps", "name": name, "lists": [asdict(each) for each in lists]}


def _with_finite(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {**row, key: _finite(row[key])}


def index_in(chosen: Mapping[str, Any], name: str, count: int) -> int | None:
    """An index that the visitor chose; None if it is none: a browser can send anything."""
    value = chosen.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_index = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
    return value if is_index else None


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
