"""What a head does, in one sentence: the place that most tokens of a text attend to most.

The place is a fixed offset, the first token or a separator. It is measured on the map that is
shown; what the head does on a corpus comes from the tables of a `heads` run. Costs: a pass over a
map.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workbench.analyses.attention.grids import Grid
from workbench.analyses.attention.maps_of_text import Floats

if TYPE_CHECKING:
    import pandas as pd

MAX_OFFSET = 8
MIN_TOKENS = 4  # that have a token at an offset
TIE = 1e-6  # weights closer than this are equal: the token has no largest one
NOWHERE = -1
MIN_SHARE = 0.5  # a smaller share is not what the head does


@dataclass(frozen=True)
class Pattern:
    """Where most tokens have their largest weight."""

    place: Literal["offset", "first", "separator"]
    offset: int  # in items; negative: to the left
    share: float  # of the attending tokens that have this place

    def in_words(self, noun: str) -> str:
        """The place as a noun phrase: the previous word."""
        if self.place != "offset":
            return "the first token" if self.place == "first" else "a separator"
        if self.offset == 0:
            return f"the same {noun}"
        if abs(self.offset) == 1:
            return f"the {'previous' if self.offset < 0 else 'next'} {noun}"
        return f"the {noun} {abs(self.offset)} {'back' if self.offset < 0 else 'ahead'}"


def pattern_of(grid: Grid, shown: Floats) -> Pattern | None:
    """The place that most tokens attend to most; None for a map without tokens.

    Special tokens do not count as attending. Only tokens that have a token at an offset count for
    this offset, and at least half of all tokens must have one.  # [rows, columns]
    """
    rows, columns = grid.sides.rows, grid.sides.columns
    special = np.array(columns.special, dtype=bool)
    attending = np.flatnonzero(~np.array(rows.special, dtype=bool) & (shown.sum(-1) > 0))
    if not len(attending) or not shown.shape[1]:
        return None
    kept = shown[attending]
    best = kept.argmax(-1)
    best[(kept >= kept.max(-1, keepdims=True) - TIE).sum(-1) > 1] = NOWHERE
    found = []
    if grid.group[1] != "cross":
        largest = 0 if grid.group[1] == "causal" else MAX_OFFSET
        for offset in range(-MAX_OFFSET, largest + 1):
            target = attending + offset
            inside = (target >= 0) & (target < shown.shape[1])
            inside[inside] &= ~special[target[inside]]
            n = int(inside.sum())
            if n >= MIN_TOKENS and 2 * n >= len(attending):
                share = float((best == target)[inside].mean())
                found.append(Pattern("offset", offset, share))
    if special[0]:
        found.append(Pattern("first", 0, float((best == 0).mean())))
    separators = special & (np.arange(len(special)) > 0)
    if separators.any():
        found.append(Pattern("separator", 0, float((separators[best] & (best != NOWHERE)).mean())))
    return max(found, key=lambda pattern: pattern.share, default=None)


@dataclass(frozen=True)
class OnCorpus:
    """What a `heads` run found for each head of a model on a corpus."""

    name: str  # of the corpus
    run: str
    heads: Mapping[tuple[Any, ...], Mapping[str, Any]]  # by stack, kind, layer and head
    offsets: Mapping[tuple[Any, ...], float]  # share, by the same and the offset

    def __bool__(self) -> bool:
        return bool(self.heads)


def on_corpus(name: str, run: str, heads: "pd.DataFrame", offsets: "pd.DataFrame") -> OnCorpus:
    """The tables `heads` and `offsets` of a run of the experiment `heads`."""
    key = ["stack", "kind", "layer", "head"]
    columns = [
        column
        for column in ("role", "best_relation", "relation_accuracy", "relation_baseline")
        if column in heads.columns
    ]
    columns += [name for name in ("first_mass", "separator_mass") if name in heads.columns]
    by_head = {
        tuple(row[name] for name in key): {name: row[name] for name in columns}
        for row in heads.to_dict("records")
    }
    by_offset = {
        (*(row[name] for name in key), row["offset"]): float(row["share"])
        for row in offsets.to_dict("records")
    }
    return OnCorpus(name, run, by_head, by_offset)


def caption(grid: Grid, shown: Floats, row: int, column: int, corpus: OnCorpus | None) -> str:
    """What a head does on this text and on the corpus, as sentences; "" for combined heads.

    Nothing is said of the corpus if there is no run.
    """
    if grid.options.together != "each head" or grid.options.weigh != "attention":
        return ""
    name = f"Head {grid.rows[row]}.{grid.columns[column]}"
    pattern = pattern_of(grid, shown)
    noun = "word" if grid.options.unit == "words" else "token"
    head = (*grid.group, grid.layers[row], grid.heads[column])
    if pattern is None:
        first = f"{name} has no attention here"
    elif pattern.share < MIN_SHARE:
        most = f"{pattern.in_words(noun)} ({_percent(pattern.share)} of {noun}s)"
        first = f"{name} has no fixed place here; most often {most}"
    else:
        first = f"{name} looks at {pattern.in_words(noun)}: "
        first += _shares(corpus, head, pattern, noun)
    return " ".join([f"{first}.", *_role_on(corpus, head)])


def _shares(corpus: OnCorpus | None, head: tuple[Any, ...], pattern: Pattern, noun: str) -> str:
    """The share of words or tokens here, and what a run says: `98 % of words here, 91 % …`."""
    here = f"{_percent(pattern.share)} of {noun}s here"
    if not corpus:
        return here
    if pattern.place == "offset":
        share = corpus.offsets.get((*head, pattern.offset))
        return here if share is None else f"{here}, {_percent(share)} on {corpus.name}"
    column = "first_mass" if pattern.place == "first" else "separator_mass"
    mass = corpus.heads.get(head, {}).get(column)
    if mass is None:
        return here
    return f"{here}; {_percent(mass)} of its attention goes there on {corpus.name}"


def _role_on(corpus: OnCorpus | None, head: tuple[Any, ...]) -> list[str]:
    if not corpus or not (found := corpus.heads.get(head)) or not found.get("role"):
        return []
    text = f"Role on {corpus.name}: {found['role']}"
    if found["role"] == "syntactic" and found.get("best_relation"):
        accuracy, baseline = found["relation_accuracy"], found["relation_baseline"]
        text += f" ({found['best_relation']}: {_percent(accuracy)}, baseline {_percent(baseline)})"
    return [f"{text}."]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
