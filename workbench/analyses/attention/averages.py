"""Attention of every head averaged over a corpus: by relative offset, and by pairs of tags.

Sentences differ in length, so their maps cannot be averaged cell by cell, but offsets and parts of
speech can. Attention is between words: summed over the pieces of the attended word, averaged over
those of the attending word. Special tokens keep their share, which is a column. Costs: one forward
pass; a map becomes a few hundred numbers per head on the device, so memory does not grow with the
corpus.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.analyses.attention.experiments import Averages
from workbench.corpora.encode import encode
from workbench.engine.batch import Pieces
from workbench.engine.forward_pass import forward
from workbench.engine.map_statistics import Reduce
from workbench.engine.taps import Site, View
from workbench.engine.words import by_words, owners, piece_shares
from workbench.experiment.definition import HEAD, Caveat, Inputs, Progress, Result, unread_caveat

if TYPE_CHECKING:
    from spacy.tokens import Doc

TAGS = (
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
)  # universal parts of speech, and the order of the table


def run(inputs: Inputs, settings: Averages, progress: Progress) -> Result:
    """Average attention by offset and by pairs of tags for every head, in one pass."""
    docs = list(inputs.docs())
    tags, has_tags = _tags(docs)
    max_offset = settings.max_offset
    sums = Reduce(_BatchSums(tags.to(inputs.model.device), max_offset))
    report = forward(
        inputs.model,
        encode(docs),
        taps=[sums],
        hidden=False,
        progress=lambda now: progress(now.done, now.total, "averaging attention"),
    )
    site_sums = {site: _SiteSums.of(total, max_offset) for site, total in sums.total.items()}
    tables = {
        "offsets": _offsets(site_sums, max_offset),
        "tags": _pairs(site_sums) if has_tags else _pairs({}),
        "heads": _heads(site_sums),
    }
    return Result(tables, caveats=tuple(_caveats(report.cut, has_tags)))


def _caveats(cut: int, has_tags: bool) -> list[Caveat]:
    caveats = [*unread_caveat(cut)]
    if not has_tags:
        text = "The corpus has no parts of speech, so the table of pairs of tags is empty."
        caveats.append(Caveat(text, ("tags",)))
    return caveats


def _tags(docs: "Sequence[Doc]") -> tuple[Tensor, bool]:
    """The index of each word's part of speech in `TAGS`; -1 for none.  # [docs, words]"""
    index = {tag: i for i, tag in enumerate(TAGS)}
    tags = torch.full((len(docs), max(map(len, docs), default=1)), -1, dtype=torch.int8)
    for row, doc in enumerate(docs):
        for token in doc:
            tags[row, token.i] = index.get(token.pos_, -1)
    return tags, bool((tags >= 0).any())


# --- on the device --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BatchSums:
    """Sums over a batch: mass and count by offset, mass and count by tag, words, special mass."""

    tags: Tensor  # [docs, words]
    max_offset: int

    def __call__(self, view: View) -> Tensor:  # [heads, sums]
        assert view.queries is not None and view.keys is not None, "the engine sets both"
        words = by_words(view.probabilities, view.queries, view.keys).double()
        attends, is_attended = owners(view.queries).any(-1), owners(view.keys).any(-1)
        pairs = (attends[:, :, None] & is_attended[:, None, :]).double()  # [batch, words, words]
        n_heads = words.shape[1]
        offsets = range(-self.max_offset, self.max_offset + 1)
        mass = [words.diagonal(o, -2, -1).sum((0, 2)) for o in offsets]  # [heads] each
        counts = [pairs.diagonal(o, -2, -1).sum().expand(n_heads) for o in offsets]
        by_tag = self._one_hot(view.queries, attends)  # [batch, words, tags]
        to_tag = self._one_hot(view.keys, is_attended)
        tag_mass = torch.einsum("bqt,bhqk,bku->htu", by_tag, words, to_tag).flatten(1)
        tag_counts = by_tag.sum((0, 1)).expand(n_heads, -1)
        n_words = attends.sum().double().expand(n_heads)
        special = self._special(view, piece_shares(view.queries))
        to_words = words.sum((0, 2, 3))
        return torch.cat(
            [torch.stack([*mass, *counts], 1), tag_mass, tag_counts,
             torch.stack([n_words, to_words, special], 1)],
            dim=1,
        )  # fmt: skip

    def _one_hot(self, text: Pieces, mask: Tensor) -> Tensor:
        """The tag of each word, one-hot; zero outside the mask.  # [batch, words, tags]"""
        order = text.order.to(self.tags.device, non_blocking=True)
        tags = self.tags[order][:, : mask.shape[1]].long()
        one_hot = torch.nn.functional.one_hot(tags.clamp(min=0), len(TAGS)).double()
        return one_hot * ((tags >= 0) & mask)[..., None]

    def _special(self, view: View, shares: Tensor) -> Tensor:
        """Attention of words to special tokens; `shares` [batch, queries].  # -> [heads]"""
        assert view.keys is not None
        special = view.keys.special.to(view.probabilities.dtype)  # [batch, keys]
        to_special = torch.einsum("bhij,bj->bhi", view.probabilities, special)
        return torch.einsum("bi,bhi->h", shares.double(), to_special.double())


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SiteSums:
    """The sums of one site over the corpus."""

    mass: np.ndarray  # [heads, offsets]
    counts: np.ndarray  # [offsets]
    tag_mass: np.ndarray  # [heads, tags, tags]
    tag_counts: np.ndarray  # [tags]
    totals: np.ndarray  # [heads, 3]: attending words, mass on words, mass on special tokens

    @classmethod
    def of(cls, total: Tensor, max_offset: int) -> "_SiteSums":
        sums = total.cpu().numpy()
        n_offsets, n_tags = 2 * max_offset + 1, len(TAGS)
        parts = np.split(sums, np.cumsum([n_offsets, n_offsets, n_tags**2, n_tags]), axis=1)
        tag_mass = parts[2].reshape(-1, n_tags, n_tags)
        return cls(parts[0], parts[1][0], tag_mass, parts[3][0], parts[4])


def _offsets(site_sums: Mapping[Site, _SiteSums], max_offset: int) -> pd.DataFrame:
    rows = [
        (*_head(site, head), offset, sums.mass[head, i] / n, int(n))
        for site, sums in site_sums.items()
        for head in range(site.heads)
        for i, offset in enumerate(range(-max_offset, max_offset + 1))
        if (n := sums.counts[i])
    ]
    return pd.DataFrame(rows, columns=[*HEAD, "offset", "attention", "n"])


def _pairs(site_sums: Mapping[Site, _SiteSums]) -> pd.DataFrame:
    rows = [
        (*_head(site, head), tag, to_tag, sums.tag_mass[head, i, j] / n, int(n))
        for site, sums in site_sums.items()
        for head in range(site.heads)
        for i, tag in enumerate(TAGS)
        if (n := sums.tag_counts[i])
        for j, to_tag in enumerate(TAGS)
        if sums.tag_counts[j]
    ]
    return pd.DataFrame(rows, columns=[*HEAD, "tag", "to_tag", "attention", "n"])


def _heads(site_sums: Mapping[Site, _SiteSums]) -> pd.DataFrame:
    rows = []
    for site, sums in site_sums.items():
        for head in range(site.heads):
            n_words, on_words, on_special = sums.totals[head]
            by_offset = sums.mass[head] / np.maximum(sums.counts, 1)
            offset = int(by_offset.argmax()) - len(by_offset) // 2
            shares = (on_words / n_words, on_special / n_words) if n_words else (0.0, 0.0)
            rows.append((*_head(site, head), *shares, offset, float(by_offset.max()), int(n_words)))
    columns = [*HEAD, "words", "special", "best_offset", "best_offset_attention", "n"]
    return pd.DataFrame(rows, columns=columns)


def _head(site: Site, head: int) -> tuple[str, str, int, int]:
    return site.stack, site.kind, site.layer, head
