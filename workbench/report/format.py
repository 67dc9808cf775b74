"""Tables as text for reading: short numbers, explicit signs, and a dash for missing values.

Whole numbers have all digits, others have four; `workbench export` writes all digits. Costs: a pass
over the rows that are shown.
"""

import math
import numbers
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from workbench.core.findings import MINUS
from workbench.experiment.definition import HEAD

MOST = 100  # maximum number of rows of a table in a report
FEWER = 40  # in a report of several runs, and in LaTeX
LONGEST = 1_000  # maximum number of characters of a cell
NONE = "–"
HOW_ALIGNED = (
    "Rows are aligned by their keys. A difference is the value of a run minus the value of run A. "
    f"{NONE}: the run has no such row."
)
INDICES = "layer and head are indices from 0: layer 2, head 6 is written head 3.7."
_DIFFERENCE = re.compile(r"[B-Z] − A ")  # a column of `workbench.runs.compare`


@dataclass(frozen=True)
class Column:
    """One column as text."""

    name: str
    is_key: bool
    is_number: bool
    cells: tuple[str, ...]

    def width(self, maximum: int) -> int:
        """Return the characters of its longest cell, at most `maximum`."""
        return min(maximum, max(map(len, (self.name, *self.cells))))


@dataclass(frozen=True)
class Grid:
    """A table as text: its first rows, and its number of rows."""

    name: str
    about: str
    columns: tuple[Column, ...]
    total: int
    most: int = MOST  # maximum number of rows that are shown

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows that are shown."""
        return zip(*(column.cells for column in self.columns), strict=True)

    @property
    def shown(self) -> int:
        return min(self.total, self.most)

    @property
    def left_out(self) -> int:
        return self.total - self.shown

    def width(self, maximum: int) -> int:
        """Return the characters of a row, at most `maximum` per cell."""
        return sum(column.width(maximum) for column in self.columns)

    def wraps(self, maximum: int) -> bool:
        """Return whether a column of text has cells of so many characters."""
        return any(not each.is_number and each.width(maximum) >= maximum for each in self.columns)


def grid(
    name: str, table: pd.DataFrame, keys: Sequence[str] | None = None, most: int = MOST
) -> Grid:
    """Return a table of a run as text, at most its first `most` rows."""
    head = table.iloc[:most]
    about, stored_keys = attributes(table)
    keys = stored_keys if keys is None else keys
    columns = tuple(
        column(str(title), head.iloc[:, index].tolist(), str(title) in keys)
        for index, title in enumerate(head.columns)
    )
    return Grid(name, about, columns, len(table), most)


def attributes(table: pd.DataFrame) -> tuple[str, list[str]]:
    """Return the description and the keys of a table, if it has them.

    Heads have indices in tables and other names elsewhere: the description of their table says so.
    """
    about, keys = table.attrs.get("about", ""), table.attrs.get("keys", ())
    if about and {*HEAD} <= {*table.columns}:
        about = f"{about} {INDICES}"
    is_list = isinstance(keys, list | tuple)
    return str(about), [key for key in keys if isinstance(key, str)] if is_list else []


def column(name: str, values: Sequence[Any], is_key: bool = False) -> Column:
    """Return one column; numbers in a column of differences have a sign."""
    present = [value for value in values if not _is_missing(value)]
    is_number = bool(present) and all(map(_is_number, present))
    signed = is_number and bool(_DIFFERENCE.match(name))
    whole = is_number and all(float(value).is_integer() for value in present)
    cells = tuple(_cell(value, whole, signed) for value in values)
    return Column(name, is_key, is_number, cells)


def number(value: float, signed: bool = False) -> str:
    """Return a number with four digits, or with all digits before the point."""
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
