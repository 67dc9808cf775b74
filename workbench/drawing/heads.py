"""Attention heads in figures: their names, the colours of their roles, grids and maps of offsets.

Costs: milliseconds.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import MINUS
from workbench.core.head_names import ROLES, head_number
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    ends,
    head_grid,
    heat_map,
    plot,
)
from workbench.drawing.theme import MANY
from workbench.experiment.definition import HEAD

NOTHING, PALE = "rgba(128,128,128,.25)", "rgba(128,128,128,.4)"  # a head without a role


def offset_map(wide: pd.DataFrame, hover: str) -> go.Figure:
    """Shares of heads (rows) by offset (columns), written in %; all such maps have one scale."""
    cells = heat_map(
        wide,
        hover,
        form="%{text}",
        tickformat=".0%",
        gap=1,
        text=in_percent(wide),
        textfont={"size": 12},
        zmin=0,
        zmax=1,
    )
    return plot(
        [cells],
        90 + (20 if len(wide) <= 60 else 10) * len(wide),
        {**CELLS, "title": "offset, in words", "dtick": 1 if len(wide.columns) < 12 else 2},
        {**CELLS, **DOWN, "title": "head"},
    )


def in_percent(wide: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.object_]]":
    """Shares as text in whole per cent, for narrow cells.  # [rows, columns]"""
    texts = wide.map(lambda share: "" if pd.isna(share) else f"{100 * share:.0f}")
    return texts.to_numpy(dtype=object)


GROUP = [*HEAD[:2]]

NONE = "none"  # a head without a role

COLOUR: Mapping[str, str] = dict(zip(ROLES, MANY, strict=False))


def groups(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Stacks and kinds of attention, in the order of the table."""
    return [(str(stack), str(kind)) for stack, kind in table[GROUP].drop_duplicates().to_numpy()]


def named(table: pd.DataFrame, several: bool | None = None) -> list[str]:
    """The head of each row: 3.7 is head 7 of layer 3; with stack and kind if there are several."""
    several = len(groups(table)) > 1 if several is None else several
    return [
        f"{stack} {kind} {head_number(layer, head)}" if several else head_number(layer, head)
        for stack, kind, layer, head in table[[*HEAD]].itertuples(index=False)
    ]


_INITIALS = {"self": "E", "causal": "D", "cross": "X"}  # of heads where there are several kinds


def short(table: pd.DataFrame) -> list[str]:
    """The shortest name of the head of each row; X3.7 is a cross-attention head. Longer names where
    that is not unique."""
    is_plain = table["stack"].isin(["encoder", "decoder"]) & table["kind"].isin([*_INITIALS])
    are_alike = len(groups(table)) == 1 and table["kind"].iloc[0] != "cross"
    if are_alike or not is_plain.all():
        return named(table)
    return [
        f"{_INITIALS[str(kind)]}{head_number(layer, head)}"
        for _, kind, layer, head in table[[*HEAD]].itertuples(index=False)
    ]


def grid(
    table: pd.DataFrame,
    column: str,
    title: str,
    around: bool = False,
    form: str = ".3f",
    significant: pd.Series | None = None,
) -> go.Figure:
    """A grid of heads, one row per layer, coloured by a column; `around`: scale around 0.

    `title` is what the column has, as in "importance, nats": the scale is titled by the unit alone,
    since a long title would take the width of a narrow page from the cells.

    Heads that are not `significant` are grey, and the others have a star.
    """
    table = table.reset_index(drop=True)
    values = table[column].astype(float)
    sure = significant if significant is not None else pd.Series(True, table.index)
    star = significant is not None and not sure.all()
    texts = [
        f"{format(value, f'z{form}').replace('-', MINUS)}{' *' if star and is_sure else ''}"
        for value, is_sure in zip(values, sure, strict=True)
    ]
    return head_grid(
        table,
        values,
        pd.Series(texts),
        significant=significant,
        top=8,
        hover=f"head %{{y}}.%{{x}}: {title} %{{z:.4f}}",
        title=title.rpartition(", ")[2],
        form="%{text}",
        **ends(values[sure] if sure.any() else values, around),
    )
