"""What the attention browser shows: a grid of maps, or two side by side, with scores and overlays.

    scene = scene_of([side_of(look, group, options, doc, tables)])
    answered(scene, {"id": 1, "what": "cell", "row": 0, "column": 3})        # bytes

Overviews are kept within a bound, by what they are of, so that opening heads makes none anew. Costs
a pass over every map for an overview, and over one for an answer.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from workbench.attention_maps.capture import Kept, Look
from workbench.attention_maps.grids import Grid, Group, Options, apart, grid_of
from workbench.attention_maps.overlays import Overlay, overlays
from workbench.attention_maps.thumbnails import Overview, Score, overview

if TYPE_CHECKING:
    from spacy.tokens import Doc

MOST = 32 << 20  # bytes of overviews that are kept
KEPT: Kept[Overview] = Kept(MOST)


@dataclass(frozen=True)
class Side:
    """One model's maps of one text."""

    grid: Grid
    overlays: tuple[Overlay, ...]  # by words; of maps within one text
    overview: Overview
    scores: tuple[Score, ...]  # measured here, and from tables of runs
    name: str
    caption: str


@dataclass(frozen=True)
class Scene:
    """What is on the page."""

    id: str
    sides: tuple[Side, ...]
    apart: str  # why there is no difference; "" where there is one, or one side

    @property
    def rows(self) -> int:
        """Of the grid that all sides have."""
        return min(len(side.grid.rows) for side in self.sides)

    @property
    def columns(self) -> int:
        return min(len(side.grid.columns) for side in self.sides)


def side_of(
    look: Look,
    group: Group,
    options: Options,
    doc: "Doc",
    tables: Sequence[tuple[str, pd.DataFrame]] = (),
    which: str = "",
) -> Side:
    """One side; `doc` is what the stack read, `tables` say something of each head.

    `which` is put behind the model's name, where two sides have the same.
    """
    grid = grid_of(look, group, options)
    gold = tuple(overlays(doc)) if group[1] != "cross" else ()
    key = (look.id, group, options, gold)
    found = KEPT.get(key, lambda: overview(grid, gold))
    badges = [score for name, table in tables for score in scores_of(name, table, grid)]
    name = f"{look.model}, by norms" if options.weigh == "norms" else look.model
    read = doc.text
    if group[1] == "cross":
        read = f"{' '.join(look.texts['decoder'].words)} ← {' '.join(look.texts['encoder'].words)}"
    return Side(grid, gold, found, (*badges, *found.scores), f"{name}{which}", read)


def scene_of(sides: Sequence[Side]) -> Scene:
    """One side, or two in step."""
    digest = hashlib.blake2b(digest_size=8)
    for side in sides:
        names = [score.name for score in side.scores]
        told = (side.grid.look.id, side.grid.group, side.grid.options, names)
        digest.update(repr(told).encode())
    why = apart(sides[0].grid, sides[1].grid) if len(sides) > 1 else ""
    return Scene(digest.hexdigest(), tuple(sides), why)


HEAD_COLUMNS = {"stack", "kind", "layer", "head"}
_BESIDE = ("_lower", "_upper", "_n")  # ends of intervals, and how many: no scores of heads


def scores_of(name: str, table: pd.DataFrame, grid: Grid) -> list[Score]:
    """Every column of a table that says one thing of each head of this grid."""
    if not set(table.columns) >= HEAD_COLUMNS or grid.options.together != "each head":
        return []
    stack, kind = grid.group
    own = table[(table["stack"] == stack) & (table["kind"] == kind)]
    if own.empty or own.duplicated(["layer", "head"]).any():
        return []
    own = own.set_index(["layer", "head"])
    found = []
    for column in own.columns:
        if column in HEAD_COLUMNS or column.endswith(_BESIDE):
            continue
        is_number = pd.api.types.is_numeric_dtype(own[column])
        values = own[column].dropna().to_dict()
        rows = tuple(
            tuple(_plain(values.get((int(row), int(head))), is_number) for head in grid.columns)
            for row in grid.rows
        )
        kind_of = "number" if is_number else "text"
        told = f"{column}, from {name}."
        found.append(Score(f"{column} ({name})", told, kind_of, rows, name))
    return found


def _plain(value: object, is_number: bool) -> float | str | None:
    if value is None:
        return None
    return float(value) if is_number else str(value)  # type: ignore[arg-type]
