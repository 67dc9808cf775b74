"""How much each head changes when a text is edited: between the maps before and after.

Words are aligned by their texts; words that replace as many others are aligned with these. The
change of a head is the total variation distance between the attention of a word before and after,
averaged over the aligned words; attention on words that are not aligned counts as one more place.
Costs: a pass over all maps of both texts.
"""

from difflib import SequenceMatcher

import numpy as np

from workbench.analyses.attention.grids import Group, Options, grid_of
from workbench.analyses.attention.maps_of_text import Floats, MapsOfText

MARKED = 3  # heads that changed most
Changes = tuple[tuple[float | None, ...], ...]  # rows of columns


def changes(before: MapsOfText, after: MapsOfText, group: Group, options: Options) -> Changes:
    """The change of each head, from 0 to 1; None for a head that one side lacks."""
    by_words = Options(unit="words", layers=options.layers, heads=options.heads)
    one, other = grid_of(before, group, by_words), grid_of(after, group, by_words)
    rows = _aligned(one.sides.rows.names, other.sides.rows.names)
    columns = _aligned(one.sides.columns.names, other.sides.columns.names)
    former = {(row, column): shown for row, column, shown in one.each()}
    found: list[list[float | None]] = [[None] * len(other.columns) for _ in other.rows]
    for row, column, shown in other.each():
        if (row, column) in former and rows and columns:
            parts = former[row, column], shown
            found[row][column] = _distance(
                *(_restricted(m, side, rows, columns) for side, m in enumerate(parts))
            )
    return tuple(map(tuple, found))


def changed_most(found: Changes) -> list[tuple[int, int]]:
    """The heads with the largest changes, the largest first."""
    cells = [
        (value, (row, column))
        for row, values in enumerate(found)
        for column, value in enumerate(values)
        if value
    ]
    cells.sort(key=lambda cell: (-cell[0], cell[1]))
    return [cell for _, cell in cells[:MARKED]]


def _aligned(before: tuple[str, ...], after: tuple[str, ...]) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for _, i, i_end, j, j_end in SequenceMatcher(None, before, after, False).get_opcodes():
        if i_end - i == j_end - j:
            pairs += zip(range(i, i_end), range(j, j_end), strict=True)
    return pairs


def _restricted(
    shown: Floats, side: int, rows: list[tuple[int, int]], columns: list[tuple[int, int]]
) -> Floats:
    """The attention between aligned words, and on all others.  # [rows, columns + 1]"""
    kept = shown[[pair[side] for pair in rows]]
    inside = kept[:, [pair[side] for pair in columns]]
    rest = (kept.sum(-1) - inside.sum(-1)).clip(0)
    return np.concatenate([inside, rest[:, None]], axis=1)


def _distance(one: Floats, other: Floats) -> float:
    return float(0.5 * np.abs(one - other).sum(-1).mean())
