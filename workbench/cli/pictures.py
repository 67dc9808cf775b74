"""Small pictures of tables as text, one list of lines each, for the stops of the demo.

A picture has one bar, curve or row of words a line and needs no colour, so that it can be read in a
log, and copied. Costs: nothing.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len

from workbench.core.findings import percent
from workbench.core.head_names import block_name, state_name

if TYPE_CHECKING:
    import pandas as pd

LEVELS = "▁▂▃▄▅▆▇█"
BAR = 20  # length of a bar, in characters


def sparkline(values: Sequence[float]) -> str:
    """Return a curve as one character a value, the lowest value lowest."""
    low, high = min(values), max(values)
    steps = len(LEVELS) - 1
    return "".join(LEVELS[round(steps * (v - low) / ((high - low) or 1))] for v in values)


def bars(rows: Iterable[tuple[str, float, str]], most: float = 1.0, length: int = BAR) -> list[str]:
    """Return one bar a row: its name, its share, and words after it; a share of `most` is full."""
    rows = list(rows)
    width = max(cell_len(name) for name, _, _ in rows)
    return [
        f"{_padded(name, width)}  {_bar(share / most, length)} {percent(share):>5}  {rest}".rstrip()
        for name, share, rest in rows
    ]


def head_roles(heads: "pd.DataFrame") -> list[str]:
    """Return the grid of heads: a line for each layer, in it the role of each head."""
    width = max(map(len, heads["role"]))
    lines = []
    for layer in heads["layer"].drop_duplicates():
        roles = [str(role) or "·" for role in heads.loc[heads["layer"] == layer, "role"]]
        lines.append(
            f"{block_name(layer)}   {'  '.join(role.ljust(width) for role in roles)}".rstrip()
        )
    return lines


def curves(table: "pd.DataFrame", name: str, y: str) -> list[str]:
    """Return a curve over layers for each value of a column, with the ends of y."""
    width = max(cell_len(str(each)) for each in table[name])
    lines = []
    for each, rows in table.groupby(name, sort=False):
        values = rows.sort_values("layer")[y].tolist()
        best = sorted(rows["layer"])[values.index(max(values))]
        lines.append(
            f"{_padded(str(each), width)}  {sparkline(values)}  "
            f"F1 {100 * min(values):.0f} to {100 * max(values):.0f}, best {state_name(best)}"
        )
    return lines


def scored_words(words: Sequence[str], scores: Sequence[float]) -> list[str]:
    """Return a text, and under each word a block that is higher the higher its score."""
    most = max(map(abs, scores)) or 1.0
    under = [
        LEVELS[round((len(LEVELS) - 1) * max(0.0, score) / most)] * cell_len(word)
        for word, score in zip(words, scores, strict=True)
    ]
    return [" ".join(words), " ".join(under)]


def side_by_side(lines: Sequence[str], abreast: int = 2, gap: int = 4) -> list[str]:
    """Return lines in columns, several in one line."""
    width = max(map(cell_len, lines)) + gap
    groups = groupby(enumerate(lines), key=lambda each: each[0] // abreast)
    return ["".join(_padded(text, width) for _, text in group).rstrip() for _, group in groups]


def _bar(share: float, length: int) -> str:
    filled = round(length * min(1.0, max(0.0, share)))
    return "█" * filled + "░" * (length - filled)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
