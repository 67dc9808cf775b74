"""Tables as text for people: numbers short and grouped, signs explicit, what is missing a dash.

Whole numbers stay whole, others have four digits: a report is for reading, and `workbench export`
has every digit. Costs a walk through the rows that are shown.
"""

import math
import numbers
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

MOST = 2_000  # rows of a table in a report
FIRST = 20  # rows in view at once
LONGEST = 1_000  # characters of a cell
MINUS = "−"
NONE = "–"
HOW_ALIGNED = (
    "Rows are aligned by what they speak of. A difference is the number of a run less that of A; "
    f"{NONE} is where a run has no such row."
)
_DIFFERENCE = re.compile(r"[B-Z] − A ")  # a column of `workbench.runs.compare`


@dataclass(frozen=True)
class Column:
    """One column as text."""

    name: str
    is_key: bool
    is_number: bool
    cells: tuple[str, ...]

    def width(self, most: int) -> int:
        """Characters of its longest cell, or so many."""
        return min(most, max(map(len, (self.name, *self.cells))))


@dataclass(frozen=True)
class Grid:
    """A table as text: its first rows, and how many there are."""

    name: str
    about: str
    columns: tuple[Column, ...]
    total: int

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows that are shown."""
        return zip(*(column.cells for column in self.columns), strict=True)

    @property
    def shown(self) -> int:
        return min(self.total, MOST)

    @property
    def left_out(self) -> int:
        return self.total - self.shown

    def width(self, most: int) -> int:
        """Characters of a row, of each cell so many at most."""
        return sum(column.width(most) for column in self.columns)


def grid(name: str, table: pd.DataFrame, keys: Sequence[str] | None = None) -> Grid:
    """A run's table as text."""
    head = table.iloc[:MOST]
    about, own = attributes(table)
    keys = own if keys is None else keys
    columns = tuple(
        column(str(title), head.iloc[:, place].tolist(), str(title) in keys)
        for place, title in enumerate(head.columns)
    )
    return Grid(name, about, columns, len(table))


def attributes(table: pd.DataFrame) -> tuple[str, list[str]]:
    """What a table is about, and its keys, where it says so."""
    about, keys = table.attrs.get("about", ""), table.attrs.get("keys", ())
    is_list = isinstance(keys, list | tuple)
    return str(about), [key for key in keys if isinstance(key, str)] if is_list else []


def column(name: str, values: Sequence[Any], is_key: bool = False) -> Column:
    """One column; in one of differences every number has its sign."""
    given = [value for value in values if not _is_missing(value)]
    is_number = bool(given) and all(map(_is_number, given))
    signed = is_number and bool(_DIFFERENCE.match(name))
    whole = is_number and all(float(value).is_integer() for value in given)
    cells = tuple(_cell(value, whole, signed) for value in values)
    return Column(name, is_key, is_number, cells)


def number(value: float, signed: bool = False) -> str:
    """A number with four digits, or all of them before the point."""
    size = abs(value)
    if math.isinf(size):
        text = "∞"
    elif size == 0 or (size < 1e15 and float(size).is_integer()):
        text = f"{int(size):,}"
    elif 1_000 <= size < 1e9:
        text = f"{size:,.0f}"
    elif 1e-4 <= size < 1_000:
        text = f"{size:.{max(0, 3 - math.floor(math.log10(size)))}f}"
    else:
        text = f"{size:.3e}"
    plus = "+" if signed and value > 0 else ""
    return (MINUS if value < 0 else plus) + text.replace("e-", f"e{MINUS}")


def _cell(value: Any, whole: bool, signed: bool) -> str:
    if _is_missing(value):
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_number(value):
        return number(value, signed)
    text = str(value)
    if len(text) > LONGEST:
        return f"{text[:LONGEST]}… ({len(text):,} characters)"
    return text


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_missing(value: object) -> bool:
    if isinstance(value, numbers.Real):
        return value != value
    return value is None or value is pd.NA or value is pd.NaT
