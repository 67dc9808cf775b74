"""Figures of attention: its mean over a corpus, by offset and by pairs of tags, and maps of a text.

Pure functions of the tables of `attention-averages`, and of a `Grid`. Costs: milliseconds.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.attention.findings import above_average
from workbench.core.errors import WorkbenchError
from workbench.core.findings import Tables
from workbench.core.head_names import block_name
from workbench.drawing.heads import named, offset_map
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    Trace,
    distinct,
    heat_map,
    largest,
    matrix,
    panels,
)
from workbench.experiment.definition import HEAD
from workbench.models.output_heads.lm_losses import CONTEXT

if TYPE_CHECKING:
    from workbench.analyses.attention.capture import AttentionMaps
    from workbench.analyses.attention.grids import Grid

LEAST = 25  # points: minimum of the ends of the scale, so that noise stays pale
SIDE = 210  # pixels of a map of tags
PLOTS = 48  # maps of a text in one figure
NAMES = 40  # at an axis of a mask; of a longer text some are left out
ITEM, MAP = 20, 150  # pixels of a piece or word in a map of a text; the smallest map


def offsets(tables: Tables) -> go.Figure:
    """Mean attention of a word to the word at each offset, in %.

    How to read: a row is a head (3.7 is head 7 of layer 3), a column an offset (negative: to the
    left); cells that stand out get most attention. Rows do not sum to 100 %: some attention goes
    further away or to special tokens.
    """
    table = tables["offsets"]
    wide = matrix(named(table), table["offset"], table["attention"])
    return offset_map(wide, "head %{y}, offset %{x:+d}: mean attention %{z:.1%}")


def tags(tables: Tables) -> go.Figure:
    """Mean attention between parts of speech by layer, minus that of all words, in points.

    How to read: a row is the part of speech of the attending word, a column that of the word it
    attends to; blue: it gets more attention from this row than from all words, orange: less.
    """
    table = above_average(tables["tags"])
    table["above"] *= 100
    several = len(table[[*HEAD[:2]]].drop_duplicates()) > 1
    top = max(LEAST, largest(table["above"])) if len(table) else LEAST
    parts: list[tuple[str, list[Trace]]] = []
    for (stack, kind, layer), rows in table.groupby([*HEAD[:3]], sort=False):
        cells = heat_map(
            matrix(rows["tag"], rows["to_tag"], rows["above"]),
            "%{y} to %{x}: attention %{customdata:.1%}, %{z:+.1f} points from all words",
            "points",
            gap=0,
            showscale=not parts,
            zmin=-top,
            zmax=top,
            customdata=matrix(rows["tag"], rows["to_tag"], rows["attention"]).to_numpy(),
        )
        parts.append(
            (f"{stack} {kind}, {block_name(layer)}" if several else block_name(layer), [cells])
        )
    if not parts:
        raise KeyError("no parts of speech")
    across = min(len(parts), 2 if len(parts) <= 4 else 3)
    names = {**CELLS, "tickfont": {"size": 12}}
    return panels(
        parts,
        SIDE,
        across,
        gap=46,
        top=0,
        apart=0.12,
        x=[
            {
                **names,
                "type": "category",
                "tickangle": -90,
                "showticklabels": at + across >= len(parts),
            }
            for at in range(len(parts))
        ],
        y=[
            {**names, **DOWN, "dtick": 1, "showticklabels": at % across == 0}
            for at in range(len(parts))
        ],
        margin={"t": 30, "b": 60},
    )


FIGURES = {"offsets": offsets, "tags": tags}


# --- the maps of one text -------------------------------------------------------------------------


def maps_of_text(grid: "Grid") -> go.Figure:
    """Attention of each piece or word (rows) to each other one (columns), for each head.

    How to read: a row is an attending item; cells that stand out get most of its attention.
    """
    found = [*grid.each()]
    if len(found) > PLOTS:
        raise WorkbenchError(
            f"the grid has {len(found)} maps; a figure draws at most {PLOTS}.",
            code="setting-invalid",
            where="Grid.figure",
            remedy="Choose layers and heads, such as maps.grid(layers=[0], heads=[1, 2]), or "
            'combine them with together="mean over heads".',
        )
    rows, columns = (
        distinct(pd.Series(side.names)) for side in (grid.sides.rows, grid.sides.columns)
    )
    top = max(float(np.max(values)) for *_, values in found)
    across = min(len(grid.columns), 4)
    is_share = grid.options.weigh == "attention"
    parts: list[tuple[str, list[Trace]]] = []
    for row, column, values in found:
        cells = heat_map(
            pd.DataFrame(values, rows, columns),
            "%{y} to %{x}: %{z:.1%}" if is_share else "%{y} to %{x}: %{z:.3f}",
            tickformat=".0%" if is_share else None,
            gap=0,
            showscale=not parts,
            zmin=0,
            zmax=top,
        )
        parts.append((_title(grid, row, column), [cells]))
    return panels(
        parts,
        max(MAP, ITEM * len(rows)),
        across,
        gap=90,
        top=0,
        x={**CELLS, "type": "category", "tickangle": -90},
        y=[{**CELLS, **DOWN, "showticklabels": at % across == 0} for at in range(len(parts))],
    )


def masks_of_order(look: "AttentionMaps") -> go.Figure:
    """Which token may see which, in the content and in the query stream, by a prediction order.

    How to read: a row is a token that reads, a column one that is read; full colour: it is
    seen. The number after a token is its place in the order; tokens without one are the context,
    which all see, and which has no query.
    """
    text = next(iter(look.texts.values()))
    names = distinct(
        pd.Series(
            [
                piece if place == CONTEXT else f"{piece} {place + 1}"
                for piece, place in zip(text.pieces, look.places, strict=True)
            ]
        )
    )
    parts: list[tuple[str, list[Trace]]] = [
        (
            name,
            [
                heat_map(
                    pd.DataFrame(seen.astype(float), names, names),
                    "%{y} reads %{x}: %{customdata}",
                    showscale=False,
                    zmin=0,
                    zmax=1,
                    customdata=np.where(seen, "seen", "hidden"),
                )
            ],
        )
        for name, seen in look.masks.items()
    ]
    named_cells = {
        **CELLS, "type": "category", "categoryarray": list(names), "dtick": 1 + len(names) // NAMES
    }  # fmt: skip
    return panels(
        parts,
        max(MAP, ITEM * len(names)),
        2,
        top=0,
        apart=0.12,
        x={**named_cells, "tickangle": -90, "tickfont": {"size": 10}},
        y=[{**named_cells, **DOWN, "showticklabels": not at} for at in range(len(parts))],
    )


def _title(grid: "Grid", row: int, column: int) -> str:
    """Of one map: `layer 2, head 3`, or how layers and heads are combined."""
    names = (("layer", "layers", grid.rows[row]), ("head", "heads", grid.columns[column]))
    return ", ".join(
        f"{one} {name}" if name.isdigit() else name if name == "rollout" else f"{name} over {all_}"
        for one, all_, name in names
    )
