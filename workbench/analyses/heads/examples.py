"""Attention of every head in some sentences: the target of each word, and rows of the maps.

These are the evidence behind the scores, and `clustering` compares heads by them: whole rows of the
maps, all rows of short documents and evenly spaced rows of long ones. Costs: memory for `ROWS`
numbers and `MAX_WORDS` words for each head, whatever the length of documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.analyses.heads.gold import Gold, relation_of
from workbench.analyses.heads.word_maps import NOWHERE, Maxima, Sides, maxima_of, sides_of
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import forward
from workbench.engine.model import Model
from workbench.engine.taps import Site, Tap, View

if TYPE_CHECKING:
    from spacy.tokens import Doc

EACH = 4  # minimum number of sentences with each relation, if the corpus has them
MAX_WORDS = 4_000  # in all stored documents; the first one may be longer
ROWS = 1 << 15  # weights of a head in all stored rows
Key = tuple[Site, int]  # a site, and a document


@dataclass(frozen=True)
class DocumentAttention:
    """Attention of the heads of one site in one document."""

    rows: Tensor  # [heads, some words, words + 1], attention on each word, and on all special
    # pieces; empty if the document was not read to its end
    other: Tensor  # [heads, words], the other word that each word attends to most
    weight: Tensor  # [heads, words], attention on it
    is_read: Tensor  # [words]


@dataclass(frozen=True)
class HeadSample:
    """Attention of every head of a model in some documents."""

    sites: tuple[Site, ...]
    seen: dict[Key, DocumentAttention]
    whole: frozenset[int]  # documents that were read to the end

    def rows(self, documents: Sequence[int]) -> list[Tensor]:
        """Rows of all heads for each document.  # [heads, some words, words + 1] each"""
        return [torch.cat([self.seen[site, d].rows for site in self.sites]) for d in documents]

    @property
    def heads(self) -> list[tuple[str, str, int, int]]:
        """All heads, in the order of `rows`."""
        return [
            (site.stack, site.kind, site.layer, head)
            for site in self.sites
            for head in range(site.heads)
        ]


@dataclass(eq=False)
class Sample(Tap):
    """A tap that stores the attention of all heads in some documents (None: in all)."""

    min_word_attention: float
    n_documents: int
    documents: frozenset[int] | None = None
    _seen: dict[Key, DocumentAttention] = field(default_factory=dict)
    _incomplete: set[int] = field(default_factory=set)  # documents that were not read to the end
    _pending: dict[Key, DocumentAttention] = field(default_factory=dict)

    @torch.no_grad()
    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "called by the engine"
        rows = self._selected_rows(view.queries)
        if not rows:
            return
        queries, keys = view.queries.take(rows), view.keys.take(rows)
        site = view.site
        sides = sides_of(queries, keys, site.kind, window=site.window, n_global=site.n_global)
        maps = sides.merged(view.probabilities[rows].float())
        maxima = maxima_of(maps[..., : sides.words], sides.pairs, self.min_word_attention)
        self.keep(view.site, queries, sides, self.rows(queries, sides, maps), maxima)

    def rows(self, queries: Pieces, sides: Sides, maps: Tensor) -> list[Tensor]:
        """The rows to store of each selected text.

        [batch, heads, words, columns] -> [heads, some words, words + 1] each
        """
        incomplete, stored = _incomplete(queries), []
        for row in self._selected_rows(queries):
            size = min(int(queries.word_counts[row]), sides.rows.shape[1])
            max_rows = ROWS // (self.n_documents * (size + 1))
            words = [] if row in incomplete else evenly(size, max_rows)
            weights = maps[row][:, words]  # [heads, some words, columns]
            special = weights[..., sides.words :].sum(-1, keepdim=True)
            stored.append(torch.cat([weights[..., :size], special], -1).cpu())
        return stored

    def keep(
        self, site: Site, queries: Pieces, sides: Sides, rows: Sequence[Tensor], maxima: Maxima
    ) -> None:
        """Store the attention of heads in the selected texts of a batch."""
        incomplete = _incomplete(queries)
        for row, weights in zip(self._selected_rows(queries), rows, strict=True):
            document, count = int(queries.order[row]), int(queries.word_counts[row])
            size = min(count, sides.rows.shape[1])
            self._pending[site, document] = DocumentAttention(
                weights,
                maxima.other[row, :, :size].to(
                    "cpu", copy=True
                ),  # a copy, so that the batch is freed
                maxima.weight[row, :, :size].to("cpu", copy=True),
                sides.rows[row, :size].to("cpu", copy=True),
            )
            if row in incomplete or size < count:
                self._incomplete.add(document)

    def _selected_rows(self, queries: Pieces) -> list[int]:
        """Rows of a batch whose documents are stored."""
        order = queries.order.tolist()
        return [row for row, d in enumerate(order) if self.documents is None or d in self.documents]

    def close(self, whole: bool) -> None:
        if whole:
            self._seen |= self._pending
        self._pending.clear()

    def stored(self, model: Model) -> HeadSample:
        """Everything stored, after the pass."""
        documents = {document for _, document in self._seen}
        return HeadSample(
            model.sites_with_heads, self._seen, frozenset(documents - self._incomplete)
        )


def _incomplete(queries: Pieces) -> set[int]:
    """Rows of a batch that were not read to the end."""
    return {row for row, _ in queries.unaligned} | {row for row, *_ in queries.cut}


def sample_documents(
    model: Model, batch: Batch, min_word_attention: float, indices: Sequence[int]
) -> HeadSample:
    """Attention of every head in some documents; `indices` are their indices in the corpus."""
    sample = Sample(min_word_attention, len(indices))
    forward(model, batch, taps=[sample], hidden=False)
    stored = sample.stored(model)
    seen = {(site, indices[document]): each for (site, document), each in stored.seen.items()}
    return HeadSample(stored.sites, seen, frozenset(indices[document] for document in stored.whole))


def evenly(words: int, maximum: int) -> list[int]:
    """Evenly spaced words: all if there are at most `maximum`; at least one."""
    count = min(words, max(1, maximum))
    return [(2 * index + 1) * words // (2 * count) for index in range(count)]


def choose_documents(gold: Gold, n_documents: int) -> list[int]:
    """Documents to store: `EACH` with every relation, then the first ones of the corpus.

    Antecedents count as a relation; the rarest relation is served first. Fewer documents if they
    have more than `MAX_WORDS` words together.
    """
    by_relation: dict[int, list[int]] = {}
    for document, (arcs, anaphors) in enumerate(zip(gold.arcs, gold.anaphors, strict=True)):
        relations = {*arcs[:, 2].tolist(), *([-1] if anaphors else [])}
        for relation in relations:
            by_relation.setdefault(relation, []).append(document)
    chosen: dict[int, None] = {}  # an ordered set
    for documents in sorted(by_relation.values(), key=len):
        seen = len(chosen.keys() & set(documents))
        more = [document for document in documents if document not in chosen]
        chosen |= dict.fromkeys(more[: max(0, min(EACH - seen, n_documents - len(chosen)))])
    others = (document for document in range(len(gold)) if document not in chosen)
    chosen |= dict.fromkeys(list(islice(others, n_documents - len(chosen))))
    totals = accumulate(len(gold.ranks[document]) for document in chosen)
    short = [document for document, words in zip(chosen, totals, strict=True) if words <= MAX_WORDS]
    return sorted(short or list(chosen)[:1])


# --- the tables `looks` and `words`: targets of every word in these sentences ---------------------
#
# Costs: a row for each word and each head.

LOOK_COLUMNS = ("stack", "kind", "layer", "head", "sentence", "word", "looks_at", "weight")
WORD_COLUMNS = ("sentence", "word", "text", "start", "governor", "relation")


def looks_table(stored: HeadSample) -> pd.DataFrame:
    """The table `looks`: the word that each word attends to, by head and sentence."""
    documents = sorted({document for _, document in stored.seen})
    if not documents:
        return pd.DataFrame(columns=LOOK_COLUMNS)
    parts = [_of_site(site, {d: stored.seen[site, d] for d in documents}) for site in stored.sites]
    return pd.DataFrame(
        {name: np.concatenate([part[name] for part in parts]) for name in LOOK_COLUMNS}
    )


def _of_site(site: Site, seen: Mapping[int, DocumentAttention]) -> dict[str, np.ndarray]:
    """Columns of the table for the heads of one site."""
    read = {document: np.flatnonzero(each.is_read.numpy()) for document, each in seen.items()}
    word = np.concatenate([*read.values()])  # [words], of all documents
    sentence = np.repeat([*read], [len(words) for words in read.values()])
    other = np.concatenate([seen[d].other[:, words].numpy() for d, words in read.items()], 1)
    weight = np.concatenate([seen[d].weight[:, words].numpy() for d, words in read.items()], 1)
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


def words_table(docs: "Mapping[int, Doc]", subtypes: bool) -> pd.DataFrame:
    """The table `words`: the words of these documents with their gold annotation.

    governor: the head word, or -1 if the relation is left out.
    """
    rows = [
        (index, token.i, token.text, token.idx,
         token.head.i if (name := relation_of(token.dep_, subtypes)) else NOWHERE, name)
        for index, doc in docs.items()
        for token in doc
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=WORD_COLUMNS)
