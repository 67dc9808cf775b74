"""The attention maps of one text, as arrays. Costs: their bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.core.findings import plural, verb_of
from workbench.engine.taps import Site, StackName

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.attention.orders import Order
    from workbench.engine.model import Model

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Text:
    """The input of one stack."""

    pieces: tuple[str, ...]  # as they are shown
    owners: tuple[int, ...]  # the index of the word that owns each piece; -1: none
    special: tuple[bool, ...]
    words: tuple[str, ...]  # of the Doc


@dataclass(frozen=True)
class Scores:
    """The input of a site's softmax: `scale * query . key + bias`."""

    query: Floats  # [heads, queries, width of a head]
    key: Floats  # [groups, keys, width of a head]
    scale: float
    bias: Floats | None  # [heads, queries, keys]


@dataclass(frozen=True, eq=False)
class Source:
    """What maps were captured from, to capture those of an edited text."""

    model: "Model"
    doc: "Doc"
    target: "Doc | None" = None  # of the decoder; None: the same text
    order: "Order | None" = None  # in which the model predicts, and its seed
    seed: int = 0

    def of(self, stack: StackName) -> "Doc":
        """The text that a stack reads."""
        return self.doc if stack == "encoder" or self.target is None else self.target


@dataclass(frozen=True)
class MapsOfText:
    """All attention maps of one forward pass: an array for each `Site` of `model.sites`."""

    id: str  # a hash of weights, tokenizer, text, precision and device
    model: str
    precision: str
    texts: Mapping[StackName, Text]
    maps: Mapping[Site, Floats]  # [heads, queries, keys] each
    norms: Mapping[Site, Floats]  # [heads, keys]: of each value through its slice of the output map
    scores: Mapping[Site, Scores]
    cut: int  # words beyond the model's length
    unaligned: int  # words that own no piece
    source: Source | None = None  # None: in a cache, which keeps no model in memory
    places: tuple[int, ...] = ()  # when each piece is predicted; -1: context; none: no order

    def __repr__(self) -> str:
        """Model, texts and number of maps; not their numbers."""
        read = ", ".join(
            f"{stack}: {len(text.pieces)} pieces" for stack, text in self.texts.items()
        )
        sites = [site for site in self.maps if site.kind != "query"]
        heads = sum(site.heads for site in sites)
        streams = " in two streams" if self.places else ""
        cut = f"; {self.cut:,} words beyond the model's length are left out" if self.cut else ""
        return (
            f"<AttentionMaps {self.model}: {read}; {len(sites)} sites, {heads} heads{streams}{cut}>"
        )

    @property
    def cut_note(self) -> str:
        """How many words are beyond the model's length; "" if none is."""
        cut = f"{plural(self.cut, 'word')} {verb_of(self.cut, 'is', 'are')} cut off"
        return f"{cut}: beyond the maximum length of {self.model}." if self.cut else ""

    @property
    def size(self) -> int:
        """Bytes held."""
        arrays = [*self.maps.values(), *self.norms.values()]
        for scores in self.scores.values():
            arrays += [scores.query, scores.key]
        biases = {id(s.bias): s.bias for s in self.scores.values() if s.bias is not None}
        return sum(array.nbytes for array in [*arrays, *biases.values()])

    def queries(self, site: Site) -> Text:
        return self.texts[site.stack]

    def keys(self, site: Site) -> Text:
        return self.texts["encoder" if site.kind == "cross" else site.stack]
