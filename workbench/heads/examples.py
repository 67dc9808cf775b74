"""Some sentences of a corpus in full: where every word looks, and what every word gives.

What is kept is the evidence behind scores, and what heads are compared by (`clustering`): whole
rows of the maps, all of short documents and evenly spaced ones of long documents. Costs memory for
`ROWS` numbers and `WORDS` words a head, whatever the length of documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import forward
from workbench.engine.model import Model
from workbench.engine.taps import Site, Tap, View
from workbench.heads.gold import Gold, relation_of
from workbench.heads.word_maps import NOWHERE, Looks, Sides, looks_of, sides_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

EACH = 4  # sentences of each relation, where there are so many
MAX_WORDS = 4_000  # of all documents that are kept, but for the first
ROWS = 1 << 15  # weights of a head, in all rows that are kept
Key = tuple[Site, int]  # a site, and a document


@dataclass(frozen=True)
class Seen:
    """One document at one site."""

    rows: Tensor  # [heads, some words, words + 1], what each of them gives to each word, and to
    # special pieces; none of a document that was not read to its end
    other: Tensor  # [heads, words], the other word that each looks at most
    weight: Tensor  # [heads, words], and what it is given
    there: Tensor  # [words], which were read


@dataclass(frozen=True)
class Few:
    """What every head of a model does with a few documents."""

    sites: tuple[Site, ...]
    seen: dict[Key, Seen]
    whole: frozenset[int]  # documents of which every word was read

    def rows(self, documents: Sequence[int]) -> list[Tensor]:
        """Of each document, all heads.  # [heads, some words, words + 1] each"""
        return [torch.cat([self.seen[site, d].rows for site in self.sites]) for d in documents]

    @property
    def heads(self) -> list[tuple[str, str, int, int]]:
        """All of them, as `rows` has them."""
        return [
            (site.stack, site.kind, site.layer, head)
            for site in self.sites
            for head in range(site.heads)
        ]


@dataclass(eq=False)
class Sample(Tap):
    """A tap that keeps what heads do with some documents of a corpus; None: with all."""

    residual: float
    number: int  # of documents
    documents: frozenset[int] | None = None
    _seen: dict[Key, Seen] = field(default_factory=dict)
    _lost: set[int] = field(default_factory=set)  # documents that were not read to the end
    _pending: dict[Key, Seen] = field(default_factory=dict)

    @torch.no_grad()
    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "asked through the engine"
        rows = self._wanted(view.queries)
        if not rows:
            return
        queries, keys = view.queries.take(rows), view.keys.take(rows)
        sides = sides_of(queries, keys, view.site.kind)
        maps = sides.merged(view.probabilities[rows].float())
        looks = looks_of(maps[..., : sides.words], sides.pairs, self.residual)
        self.keep(view.site, queries, sides, self.rows(queries, sides, maps), looks)

    def rows(self, queries: Pieces, sides: Sides, maps: Tensor) -> list[Tensor]:
        """Of each text that is wanted the rows that are kept.

        [batch, heads, words, columns] -> [heads, some words, words + 1] each
        """
        lost, found = _lost(queries), []
        for row in self._wanted(queries):
            size = min(int(queries.word_counts[row]), sides.rows.shape[1])
            some = [] if row in lost else evenly(size, ROWS // (self.number * (size + 1)))
            own = maps[row][:, some]  # [heads, some words, columns]
            rest = own[..., sides.words :].sum(-1, keepdim=True)
            found.append(torch.cat([own[..., :size], rest], -1).cpu())
        return found

    def keep(
        self, site: Site, queries: Pieces, sides: Sides, rows: Sequence[Tensor], looks: Looks
    ) -> None:
        """Keep what heads do with those of these texts that are wanted."""
        lost = _lost(queries)
        for row, own in zip(self._wanted(queries), rows, strict=True):
            document, count = int(queries.order[row]), int(queries.word_counts[row])
            size = min(count, sides.rows.shape[1])
            self._pending[site, document] = Seen(
                own,
                looks.other[row, :, :size].to("cpu", copy=True),  # not the whole batch with it
                looks.weight[row, :, :size].to("cpu", copy=True),
                sides.rows[row, :size].to("cpu", copy=True),
            )
            if row in lost or size < count:
                self._lost.add(document)

    def _wanted(self, queries: Pieces) -> list[int]:
        """Rows of a batch that are kept."""
        order = queries.order.tolist()
        return [row for row, d in enumerate(order) if self.documents is None or d in self.documents]

    def close(self, whole: bool) -> None:
        if whole:
            self._seen |= self._pending
        self._pending.clear()

    def found(self, model: Model) -> Few:
        """What was kept, once the pass is over."""
        documents = {document for _, document in self._seen}
        return Few(model.sites, self._seen, frozenset(documents - self._lost))


def _lost(queries: Pieces) -> set[int]:
    """Rows of a batch that were not read to the end."""
    return {row for row, _ in queries.unaligned} | {row for row, *_ in queries.cut}


def few(model: Model, batch: Batch, residual: float, places: Sequence[int]) -> Few:
    """Send a few documents through, and keep what every head does with them.

    `places` are what they are called: where they stand in their corpus.
    """
    sample = Sample(residual, len(places))
    forward(model, batch, taps=[sample], hidden=False)
    found = sample.found(model)
    seen = {(site, places[document]): each for (site, document), each in found.seen.items()}
    return Few(found.sites, seen, frozenset(places[document] for document in found.whole))


def evenly(words: int, most: int) -> list[int]:
    """Evenly spaced words, all where there are no more than `most`; one at least."""
    number = min(words, max(1, most))
    return [(2 * place + 1) * words // (2 * number) for place in range(number)]


def chosen(gold: Gold, number: int) -> list[int]:
    """So many documents, the first, but for those that it takes to see each relation in `EACH`.

    Antecedents count as a relation; the rarest relation has its pick first. Of long documents as
    many as have `WORDS` words together.
    """
    holding: dict[int, list[int]] = {}
    for document, (arcs, questions) in enumerate(zip(gold.arcs, gold.questions, strict=True)):
        asked = {*arcs[:, 2].tolist(), *([-1] if questions else [])}
        for relation in asked:
            holding.setdefault(relation, []).append(document)
    found: dict[int, None] = {}  # in the order of their choice
    for there in sorted(holding.values(), key=len):
        seen = len(found.keys() & set(there))
        wanted = [document for document in there if document not in found]
        found |= dict.fromkeys(wanted[: max(0, min(EACH - seen, number - len(found)))])
    rest = (document for document in range(len(gold)) if document not in found)
    found |= dict.fromkeys(list(islice(rest, number - len(found))))
    words = accumulate(len(gold.ranks[document]) for document in found)
    kept = [document for document, so_far in zip(found, words, strict=True) if so_far <= MAX_WORDS]
    return sorted(kept or list(found)[:1])


# --- what each head looks at in some sentences, word by word: the evidence behind its scores ------
#
# Costs a row for each of their words and each head.

LOOK_COLUMNS = ("stack", "kind", "layer", "head", "sentence", "word", "looks_at", "weight")
WORD_COLUMNS = ("sentence", "word", "text", "start", "governor", "relation")


def looks(found: Few) -> pd.DataFrame:
    """Where every word looks, by head and sentence."""
    documents = sorted({document for _, document in found.seen})
    if not documents:
        return pd.DataFrame(columns=LOOK_COLUMNS)
    parts = [_of_site(site, {d: found.seen[site, d] for d in documents}) for site in found.sites]
    return pd.DataFrame(
        {name: np.concatenate([part[name] for part in parts]) for name in LOOK_COLUMNS}
    )


def _of_site(site: Site, seen: Mapping[int, Seen]) -> dict[str, np.ndarray]:
    """The columns of a site's heads, one after the other."""
    places = {document: np.flatnonzero(each.there.numpy()) for document, each in seen.items()}
    word = np.concatenate([*places.values()])  # [words], of all documents
    sentence = np.repeat([*places], [len(own) for own in places.values()])
    other = np.concatenate([seen[d].other[:, own].numpy() for d, own in places.items()], 1)
    weight = np.concatenate([seen[d].weight[:, own].numpy() for d, own in places.items()], 1)
    columns = {
        "stack": site.stack,
        "kind": site.kind,
        "layer": site.layer,
        "head": np.arange(site.heads)[:, None],
        "sentence": sentence,
        "word": word,
        "looks_at": other,
        "weight": np.where(other == NOWHERE, 0.0, weight.astype(float)),
    }
    return {name: np.broadcast_to(each, other.shape).ravel() for name, each in columns.items()}


def words(docs: "Mapping[int, Doc]", subtypes: bool) -> pd.DataFrame:
    """The words of these documents, by their place in the corpus, with their gold.

    A governor of -1 is none that counts.
    """
    rows = [
        (number, token.i, token.text, token.idx,
         token.head.i if (name := relation_of(token.dep_, subtypes)) else NOWHERE, name)
        for number, doc in docs.items()
        for token in doc
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=WORD_COLUMNS)
