"""The gold of a text laid over a map: who depends on whom, what is one entity, who is who.

An overlay is pairs of items, the one that should look first, and spans along the sides. A head
draws a pair when, of all other items that are not special, it gives the second most attention.
Pairs a causal map cannot see, and items without attention, are not counted. Pure functions; each
costs a pass over the Doc, or over a map.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from workbench.attention_maps.capture import Floats
from workbench.attention_maps.grids import Items, Sides
from workbench.corpora.layers import chains, mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

ABOUT = {
    "dependencies": "Each word and its head in the tree.",
    "entities": "Each word of a name and the next word of it.",
    "coreference": "The last word of each mention and that of the mention before it in its chain.",
}


@dataclass(frozen=True)
class Overlay:
    """Pairs of words, and spans of them, by number; half-open."""

    name: str
    about: str
    pairs: tuple[tuple[int, int, str], ...]
    spans: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True)
class Drawn:
    """How many of the pairs a head draws, from the first to the second and back."""

    hits: int
    of: int
    back_hits: int
    back_of: int

    @property
    def share(self) -> float | None:
        """Of the direction that is drawn better."""
        shares = [
            hits / of for hits, of in ((self.hits, self.of), (self.back_hits, self.back_of)) if of
        ]
        return max(shares, default=None)


def overlays(doc: "Doc") -> list[Overlay]:
    """Those that the Doc has anything for."""
    found = []
    if doc.has_annotation("DEP"):
        pairs = tuple((t.i, t.head.i, t.dep_) for t in doc if t.head.i != t.i and t.dep_)
        found.append(_overlay("dependencies", pairs, ()))
    if names := mentions(doc, "entities"):
        inside = tuple((a, b, n.label) for n in names for a, b in pairwise(range(n.start, n.end)))
        found.append(_overlay("entities", inside, tuple((n.start, n.end, n.label) for n in names)))
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
        found.append(_overlay("coreference", pairs, spans))
    return [overlay for overlay in found if overlay.pairs or overlay.spans]


def _overlay(
    name: str, pairs: tuple[tuple[int, int, str], ...], spans: tuple[tuple[int, int, str], ...]
) -> Overlay:
    return Overlay(name, ABOUT[name], pairs, spans)


def placed(overlay: Overlay, side: Items) -> Overlay:
    """The same by items of a side: a word stands where its first item does."""
    first, last = _items_of_words(side)
    pairs = tuple(
        (first[a], first[b], label) for a, b, label in overlay.pairs if a in first and b in first
    )
    spans = tuple(
        (min(first[w] for w in there), max(last[w] for w in there) + 1, label)
        for a, b, label in overlay.spans
        if (there := [word for word in range(a, b) if word in first])
    )
    return Overlay(overlay.name, overlay.about, pairs, spans)


def drawn(overlay: Overlay, sides: Sides, shown: Floats) -> Drawn:
    """How many of an overlay's pairs, by words, a map of one text draws.  # [rows, columns]"""
    first, _ = _items_of_words(sides.rows)
    owner = np.array(sides.columns.words)
    allowed = (owner >= 0) & ~np.array(sides.columns.special, dtype=bool)  # [columns]
    own = np.array(sides.rows.words)[:, None] == owner[None]  # a word itself  # [rows, columns]
    others = np.where(allowed[None] & ~own, shown, 0)
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
    for place, word in enumerate(side.words):
        if word >= 0:
            first.setdefault(word, place)
            last[word] = place
    return first, last
