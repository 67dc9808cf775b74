"""A model whose attention is given: random maps drawn for each document, whatever the batch.

Words come in one to three pieces, by their length; words of ten letters in none at all. A text
begins and ends with a special piece, and is cut after so many pieces. Padding is on either side.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workbench import Model
from workbench.engine.batch import NO_WORD, Batch, Pieces, Row, pad
from workbench.engine.model import Output, Stack
from workbench.engine.taps import Kind, Site, StackName, Tap, session
from workbench.models.word_models import words_of

LAYERS, HEADS = 2, 3


@dataclass
class Prescribed(Model):
    """Maps by document and site; `order` says which head comes where, `left` where padding is."""

    kind: Kind = "self"
    seed: int = 0
    left: bool = False
    max_pieces: int | None = 64
    order: Sequence[int] = tuple(range(HEADS))
    even: bool = False  # all that can be seen alike
    window: int = 0  # of the first layer; the second sees one piece further; 0: no limit
    n_global: int = 0

    name = "prescribed"
    family = "prescribed"
    width = 8
    objective = ""
    precision = "fp32"
    device = torch.device("cpu")
    content_hash = "0"
    parameters = 0

    @property
    def sites(self) -> tuple[Site, ...]:
        stack: Any = "decoder" if self.kind == "causal" else "encoder"
        return tuple(
            Site(
                n, stack, self.kind, n, HEADS, HEADS, self.window and self.window + n, self.n_global
            )
            for n in range(LAYERS)
        )

    @property
    def stacks(self) -> tuple[Stack, ...]:
        return (Stack(self.sites[0].stack, LAYERS, HEADS, (self.kind,)),)

    def encode(self, batch: Batch, documents: Sequence[int] | None = None) -> Pieces:
        chosen = range(len(batch)) if documents is None else documents
        return pad([self._row(batch, document) for document in chosen])

    def _row(self, batch: Batch, document: int) -> Row:
        words = words_of(batch, document)
        owners = [NO_WORD]
        for number, word in enumerate(words):
            owners += [number] * pieces_of(word)
        whole = len(owners)
        owners = [*owners[: (self.max_pieces or whole + 1) - 1], NO_WORD]
        kept = {owner for owner in owners if owner != NO_WORD}
        first_cut = max(kept, default=-1) + 1 if len(owners) <= whole else len(words)
        missing = tuple(n for n in range(first_cut) if n not in kept)
        own = np.array(owners)
        return Row(
            ids=np.arange(1, len(own) + 1),
            words=own,
            special=own == NO_WORD,
            segments=None,
            word_count=len(words),
            unaligned=missing,
            cut=((first_cut, len(words)),) if first_cut < len(words) else (),
            order=int(batch.order[document]),
        )

    def forward(self, pieces: Pieces, *, taps: Iterable[Tap] = (), **more: Any) -> Output:
        texts: Any = self.texts_of(pieces)
        pieces = texts[self.sites[0].stack]
        with session(list(taps), self.sites, texts) as running:
            for _ in range(LAYERS):
                site = running.next_site(HEADS, HEADS)
                running.show(site, self._batched(pieces, site), None)
        return Output({}, {}, texts=texts)

    def texts_of(self, pieces: Pieces) -> Mapping[StackName, Pieces]:
        return {self.sites[0].stack: _padded_left(pieces) if self.left else pieces}

    def _batched(self, pieces: Pieces, site: Site) -> Tensor:
        found = torch.zeros(len(pieces), HEADS, *[pieces.ids.shape[1]] * 2)
        for row, document in enumerate(pieces.order.tolist()):
            places = torch.nonzero(pieces.mask[row]).flatten()
            own = self.maps(document, site.layer, len(places))
            found[row][:, places[:, None], places] = own
        return found

    def maps(self, document: int, layer: int, size: int) -> Tensor:
        """What this document's pieces give to one another.  # [heads, pieces, pieces]"""
        random = torch.Generator().manual_seed(1_000 * self.seed + 10 * document + layer)
        scores = 3 * torch.randn(HEADS, size, size, generator=random)
        if self.even:
            scores = torch.zeros_like(scores)
        if self.kind == "causal":
            scores = scores.masked_fill(~torch.ones(size, size, dtype=torch.bool).tril(), -1e9)
        if self.window:
            for one in range(size):
                for other in range(size):
                    if not self.near(layer, one, other):
                        scores[:, one, other] = -1e9
        return scores.softmax(-1)[list(self.order)]

    def near(self, layer: int, one: int, other: int) -> bool:
        """Whether the pieces at two places see each other in a layer."""
        return (
            not self.window
            or abs(one - other) <= self.window + layer
            or min(one, other) < self.n_global
        )


def pieces_of(word: str) -> int:
    return 0 if len(word) == 10 else 1 + len(word) % 3


def _padded_left(text: Pieces) -> Pieces:
    """The same with padding before the texts."""
    width = text.ids.shape[1]
    by = width - text.mask.sum(1)
    place = (torch.arange(width) - by[:, None]) % width

    def moved(tensor: Tensor) -> Tensor:
        return tensor.gather(1, place)

    return replace(
        text,
        ids=moved(text.ids),
        mask=moved(text.mask),
        words=moved(text.words),
        special=moved(text.special),
    )
