"""Gold annotation drawn over a map: dependencies, entities, coreference.

An overlay is pairs of items, the attending one first, and spans along the axes. A head draws a pair
if the attending item's largest weight, among all other non-special items, is on the second. Pairs
that a causal mask hides, and items without attention, are not counted. Costs: a pass over the Doc,
or over a map.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from workbench.analyses.attention.grids import Items, Sides
from workbench.analyses.attention.maps_of_text import Floats
from workbench.corpora.layers import chains, mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

ABOUT = {
    "dependencies": "Pairs: each word and its governor in the tree.",
    "entities": "Pairs: each word of an entity and its next word.",
    "coreference": "Pairs: the last word of each mention and that of the previous mention.",
}


@dataclass(frozen=True)
class Overlay:
    """Pairs and spans of word indices; spans are half-open."""

    name: str
    about: str
    pairs: tuple[tuple[int, int, str], ...]
    spans: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class Drawn:
    """How many of the pairs a head draws, in both directions."""

    hits: int
    of: int
    back_hits: int
    back_of: int

    @property
    def share(self) -> float | None:
        """The share of drawn pairs in the better direction."""
        shares = [
            hits / of for hits, of in ((self.hits, self.of), (self.back_hits, self.back_of)) if of
        ]
        return max(shares, default=None)


def overlays(doc: "Doc") -> list[Overlay]:
    """The overlays for which the Doc has annotation."""
    overlays = []
    if doc.has_annotation("DEP"):
        pairs = tuple((t.i, t.head.i, t.dep_) for t in doc if t.head.i != t.i and t.dep_)
        overlays.append(_overlay("dependencies", pairs, ()))
    if names := mentions(doc, "entities"):
        pairs = tuple((a, b, n.label) for n in names for a, b in pairwise(range(n.start, n.end)))
        spans = tuple((n.start, n.end, n.label) for n in names)
        overlays.append(_overlay("entities", pairs, spans))
    if linked := chains(doc):
        ordered = {
            name: sorted(chain, key=lambda m: (m.end, m.start)) for name, chain in linked.items()
        }
        pairs = tuple(
            (later.end - 1, earlier.end - 1, name)
            for name, chain in ordered.items()
            for earlier, later in pairwise(chain)
            if later.end != earlier.end
        )
        spans = tuple((m.start, m.end, name) for name, chain in ordered.items() for m in chain)
        overlays.append(_overlay("coreference", pairs, spans))
    return [overlay for overlay in overlays if overlay.pairs or overlay.spans]


def _overlay(
    name: str, pairs: tuple[tuple[int, int, str], ...], spans: tuple[tuple[int, int, str], ...]
) -> Overlay:
    return Overlay(name, ABOUT[name], pairs, spans)


def placed(overlay: Overlay, side: Items) -> Overlay:
    """The overlay in indices of a side's items: a word is at its first item."""
    first, last = _items_of_words(side)
    pairs = tuple(
        (first[a], first[b], label) for a, b, label in overlay.pairs if a in first and b in first
    )
    spans = tuple(
        (min(first[w] for w in words), max(last[w] for w in words) + 1, label)
        for a, b, label in overlay.spans
        if (words := [word for word in range(a, b) if word in first])
    )
    return Overlay(overlay.name, overlay.about, pairs, spans)


def drawn(overlay: Overlay, sides: Sides, shown: Floats) -> Drawn:
    """How many of an overlay's pairs of words a map of one text draws.  # [rows, columns]"""
    first, _ = _items_of_words(sides.rows)
    owner = np.array(sides.columns.words)
    allowed = (owner >= 0) & ~np.array(sides.columns.special, dtype=bool)  # [columns]
    same_word = np.array(sides.rows.words)[:, None] == owner[None]  # [rows, columns]
    others = np.where(allowed[None] & ~same_word, shown, 0)
    best, mass = others.argmax(-1), others.max(-1, initial=0)
    counts = [0, 0, 0, 0]
    for a, b, _ in overlay.pairs:
        for at, (i, j) in enumerate(((a, b), (b, a))):
            row = first.get(i)
            if row is None or j not in first or not others[row, owner == j].any():
                continue
            counts[2 * at] += bool(mass[row] > 0 and owner[best[row]] == j)
            counts[2 * at + 1] += 1
    return Drawn(*counts)


def _items_of_words(side: Items) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """The first and the last item of each word."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for item, word in enumerate(side.words):
        if word >= 0:
            first.setdefault(word, item)
            last[word] = item
    return first, last
