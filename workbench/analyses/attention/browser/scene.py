"""The content of the attention browser: one or two grids of maps, with scores and overlays.

    scene = scene_of([side_of(maps, group, options, doc, tables)])
    respond(scene, {"id": 1, "what": "cell", "row": 0, "column": 3})        # bytes

Overviews are cached by content up to a number of bytes, so that opening a head does not recompute
them. Costs: a pass over every map for an overview, and over one map for a response.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from workbench.analyses.attention.capture import ByteCache
from workbench.analyses.attention.changes import Changes, changed_most, changes
from workbench.analyses.attention.grids import Grid, Group, Options, apart, grid_of
from workbench.analyses.attention.maps_of_text import MapsOfText
from workbench.analyses.attention.overlays import Overlay, overlays
from workbench.analyses.attention.patterns import OnCorpus
from workbench.analyses.attention.thumbnails import Overview, Score, overview

if TYPE_CHECKING:
    from spacy.tokens import Doc

CACHE: ByteCache[Overview] = ByteCache(32 << 20)


@dataclass(frozen=True)
class Predicts:
    """Where a model predicts words of a text: the first place that is shown, and all of them."""

    place: int
    places: tuple[int, ...]  # indices of words; the number of words is the place after the text
    next: int | None  # the place after the text; None if the model does not predict it


def predicts_at(words: Sequence[int], hidden: Sequence[int], after: int | None) -> Predicts | None:
    """The places that a model predicts: words, hidden words, and the place after the text.

    At first: a hidden word; else the next word, or a word near the end. None without a place.
    """
    words = sorted({*words, *hidden})
    if not words and after is None:
        return None
    first = words[max(0, len(words) - 3)] if after is None else after
    places = (*words, *([] if after is None else [after]))
    return Predicts(hidden[0] if hidden else first, places, after)


@dataclass(frozen=True)
class Side:
    """One model's maps of one text."""

    grid: Grid
    overlays: tuple[Overlay, ...]  # by words; only for maps within one text
    overview: Overview
    scores: tuple[Score, ...]  # computed here, and from tables of runs
    name: str
    caption: str
    corpus: OnCorpus | None = None  # what the heads do on the corpus
    changed: tuple[tuple[int, int], ...] = ()  # the heads that an edit changed most
    mask: str = ""  # how the model writes a hidden word; "": it cannot read one
    words: tuple[str, ...] = ()  # of the text, if those of the rows are its words; else none
    predicts: Predicts | None = None  # None: the model predicts no words
    model: str = ""  # the name that is shown; that of files is `grid.look.model`


@dataclass(frozen=True)
class Scene:
    """The content of the browser: one side, or two to compare."""

    id: str
    sides: tuple[Side, ...]
    apart: str  # why the difference is undefined; "" if it is defined, or there is one side

    @property
    def rows(self) -> int:
        """The number of rows that all sides have."""
        return min(len(side.grid.rows) for side in self.sides)

    @property
    def columns(self) -> int:
        """The number of columns that all sides have."""
        return min(len(side.grid.columns) for side in self.sides)


def side_of(
    look: MapsOfText,
    group: Group,
    options: Options,
    doc: "Doc",
    tables: Sequence[tuple[str, pd.DataFrame]] = (),
    suffix: str = "",
    *,
    before: MapsOfText | None = None,
    corpus: OnCorpus | None = None,
    mask: str = "",
    predicts: Predicts | None = None,
    model: str = "",
) -> Side:
    """One side; `doc` is the text of the queries, `tables` have one row for each head.

    `suffix` follows the model's name, if two sides show the same model; `before` are the maps of
    the text before an edit, `mask` is how the model writes a hidden word, and `predicts` are the
    places that it predicts. `model` is the name that is shown (default: that of the maps).
    """
    grid = grid_of(look, group, options)
    gold = tuple(overlays(doc)) if group[1] != "cross" else ()
    key = (look.id, group, options, gold)
    thumbnails = CACHE.get(key, lambda: overview(grid, gold))
    badges = [score for name, table in tables for score in scores_of(name, table, grid)]
    model = model or look.model
    name = f"{model}, value norms" if options.weigh == "norms" else model
    text = doc.text
    if group[1] == "cross":
        text = f"{' '.join(look.texts['decoder'].words)} ← {' '.join(look.texts['encoder'].words)}"
    changed: Changes = ()
    if before is not None and group[1] != "cross" and options.together == "each head":
        changed = changes(before, look, group, options)
        badges.insert(0, Score(CHANGE, CHANGE_ABOUT, "number", changed))
    first_group = next(iter((site.stack, site.kind) for site in look.maps))
    is_of_text = group == first_group and group[1] != "cross"
    return Side(
        grid,
        gold,
        thumbnails,
        (*badges, *thumbnails.scores),
        f"{name}{suffix}",
        text,
        corpus,
        tuple(changed_most(changed)),
        mask,
        tuple(token.text for token in doc) if is_of_text else (),
        predicts,
        model,
    )


def scene_of(sides: Sequence[Side]) -> Scene:
    """A scene of one side, or of two to compare."""
    digest = hashlib.blake2b(digest_size=8)
    for side in sides:
        names = [score.name for score in side.scores]
        content = (
            side.grid.look.id, side.grid.group, side.grid.options, names, side.changed,
            side.corpus and (side.corpus.name, side.corpus.run),
        )  # fmt: skip
        digest.update(repr(content).encode())
    why = apart(sides[0].grid, sides[1].grid) if len(sides) > 1 else ""
    return Scene(digest.hexdigest(), tuple(sides), why)


CHANGE = "change"
CHANGE_ABOUT = "Mean share of each word's attention that the edit moved (0 to 1)."
HEAD_COLUMNS = {"stack", "kind", "layer", "head"}
_NOT_SCORES = ("_lower", "_upper", "_n")  # bounds of intervals, and counts


def scores_of(name: str, table: pd.DataFrame, grid: Grid) -> list[Score]:
    """A score for every column of a table with one row for each head of this grid."""
    if not set(table.columns) >= HEAD_COLUMNS or grid.options.together != "each head":
        return []
    stack, kind = grid.group
    rows = table[(table["stack"] == stack) & (table["kind"] == kind)]
    if rows.empty or rows.duplicated(["layer", "head"]).any():
        return []
    rows = rows.set_index(["layer", "head"])
    scores = []
    for column in rows.columns:
        if column in HEAD_COLUMNS or column.endswith(_NOT_SCORES):
            continue
        is_number = pd.api.types.is_numeric_dtype(rows[column])
        value_of = rows[column].dropna().to_dict()
        values = tuple(
            tuple(_plain(value_of.get((layer, head)), is_number) for head in grid.heads)
            for layer in grid.layers
        )
        kind_of = "number" if is_number else "text"
        about = f"{column}, from {name}."
        scores.append(Score(f"{column} ({name})", about, kind_of, values, name))
    return scores


def _plain(value: object, is_number: bool) -> float | str | None:
    if value is None:
        return None
    return float(value) if is_number else str(value)  # type: ignore[arg-type]
