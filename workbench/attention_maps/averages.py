"""Attention of every head averaged over a corpus: by relative offset, and by pairs of tags.

The average map of a slice: sentences differ in length, so maps cannot be laid on one another, but
offsets and parts of speech can. Word by word throughout (summed over the pieces looked at, averaged
over those that look); special tokens keep their share, which is told. One forward pass; every map
becomes a few hundred numbers a head on the device, so memory does not grow with the corpus.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.attention_maps.experiments import Averages
from workbench.core.experiment import HEAD, Caveat, Inputs, Progress, Result
from workbench.corpora.encode import encode
from workbench.engine.batch import Pieces
from workbench.engine.forward_pass import forward
from workbench.engine.taps import Reduce, Site, View
from workbench.engine.words import by_words, owners, piece_shares

if TYPE_CHECKING:
    from spacy.tokens import Doc

TAGS = (
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
)  # universal parts of speech, and the order of the table


def run(inputs: Inputs, settings: Averages, progress: Progress) -> Result:
    """Offsets and pairs of tags of every head, in one pass."""
    docs = list(inputs.docs())
    tags, has_tags = _tags(docs)
    sums = Reduce(_Sums(tags.to(inputs.model.device), settings.farthest))
    report = forward(
        inputs.model,
        encode(docs),
        taps=[sums],
        hidden=False,
        progress=lambda now: progress(now.done, now.total, "sentences"),
    )
    found = {site: _Found.of(total, settings.farthest) for site, total in sums.total.items()}
    tables = {
        "offsets": _offsets(found, settings.farthest),
        "tags": _pairs(found) if has_tags else _pairs({}),
        "heads": _heads(found),
    }
    caveats = [Caveat(text, beside) for text, beside in _caveats(report.cut, has_tags)]
    return Result(tables, caveats=tuple(caveats))


def _caveats(cut: int, has_tags: bool) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    if cut:
        found.append((f"{cut:,} words beyond the model's length were not read.", ()))
    if not has_tags:
        found.append(("The corpus has no parts of speech: there are no pairs of tags.", ("tags",)))
    return found


def _tags(docs: "Sequence[Doc]") -> tuple[Tensor, bool]:
    """The part of speech of each word by its number; -1 for none.  # [docs, words]"""
    number = {tag: place for place, tag in enumerate(TAGS)}
    found = torch.full((len(docs), max(map(len, docs), default=1)), -1, dtype=torch.int8)
    for row, doc in enumerate(docs):
        for token in doc:
            found[row, token.i] = number.get(token.pos_, -1)
    return found, bool((found >= 0).any())


# --- on the device --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sums:
    """Sums of a batch, side by side: offsets, their counts, tags, their counts, words, specials."""

    tags: Tensor  # [docs, words]
    farthest: int

    def __call__(self, view: View) -> Tensor:  # [heads, numbers]
        assert view.queries is not None and view.keys is not None, "asked through the engine"
        words = by_words(view.probabilities, view.queries, view.keys).double()
        looks, is_seen = owners(view.queries).any(-1), owners(view.keys).any(-1)  # [batch, words]
        pairs = (looks[:, :, None] & is_seen[:, None, :]).double()
        heads = words.shape[1]
        near = range(-self.farthest, self.farthest + 1)
        mass = [words.diagonal(o, -2, -1).sum((0, 2)) for o in near]  # [heads] each
        there = [pairs.diagonal(o, -2, -1).sum().expand(heads) for o in near]
        by_tag = self._by_tag(view.queries, looks)  # [batch, words, tags]
        to_tag = self._by_tag(view.keys, is_seen)
        tagged = torch.einsum("bqt,bhqk,bku->htu", by_tag, words, to_tag).flatten(1)
        numbers = by_tag.sum((0, 1)).expand(heads, -1)
        rows = looks.sum().double().expand(heads)
        special = self._special(view, piece_shares(view.queries))
        stays = words.sum((0, 2, 3))
        return torch.cat(
            [torch.stack([*mass, *there], 1), tagged, numbers,
             torch.stack([rows, stays, special], 1)],
            dim=1,
        )  # fmt: skip

    def _by_tag(self, text: Pieces, there: Tensor) -> Tensor:
        """Which tag each word has, 1 or 0.  # [batch, words, tags]"""
        order = text.order.to(self.tags.device, non_blocking=True)
        tags = self.tags[order][:, : there.shape[1]].long()
        found = torch.nn.functional.one_hot(tags.clamp(min=0), len(TAGS)).double()
        return found * ((tags >= 0) & there)[..., None]

    def _special(self, view: View, shares: Tensor) -> Tensor:
        """What words give to special tokens; `shares` [batch, queries].  # -> [heads]"""
        assert view.keys is not None
        special = view.keys.special.to(view.probabilities.dtype)  # [batch, keys]
        to_special = torch.einsum("bhij,bj->bhi", view.probabilities, special)
        return torch.einsum("bi,bhi->h", shares.double(), to_special.double())


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    """A site's sums over the corpus, taken apart."""

    mass: np.ndarray  # [heads, offsets]
    there: np.ndarray  # [offsets]
    tagged: np.ndarray  # [heads, tags, tags]
    numbers: np.ndarray  # [tags]
    ends: np.ndarray  # [heads, 3]: words that look, what stays with words, what goes to specials

    @classmethod
    def of(cls, total: Tensor, farthest: int) -> "_Found":
        numbers = total.cpu().numpy()
        offsets, tags = 2 * farthest + 1, len(TAGS)
        parts = np.split(numbers, np.cumsum([offsets, offsets, tags * tags, tags]), axis=1)
        tagged = parts[2].reshape(-1, tags, tags)
        return cls(parts[0], parts[1][0], tagged, parts[3][0], parts[4])


def _offsets(found: Mapping[Site, _Found], farthest: int) -> pd.DataFrame:
    rows = [
        (*_head(site, head), offset, sums.mass[head, place] / n, int(n))
        for site, sums in found.items()
        for head in range(site.heads)
        for place, offset in enumerate(range(-farthest, farthest + 1))
        if (n := sums.there[place])
    ]
    return pd.DataFrame(rows, columns=[*HEAD, "offset", "attention", "n"])


def _pairs(found: Mapping[Site, _Found]) -> pd.DataFrame:
    rows = [
        (*_head(site, head), tag, to_tag, sums.tagged[head, i, j] / n, int(n))
        for site, sums in found.items()
        for head in range(site.heads)
        for i, tag in enumerate(TAGS)
        if (n := sums.numbers[i])
        for j, to_tag in enumerate(TAGS)
        if sums.numbers[j]
    ]
    return pd.DataFrame(rows, columns=[*HEAD, "tag", "to_tag", "attention", "n"])


def _heads(found: Mapping[Site, _Found]) -> pd.DataFrame:
    rows = []
    for site, sums in found.items():
        for head in range(site.heads):
            looks, stays, special = sums.ends[head]
            near = sums.mass[head] / np.maximum(sums.there, 1)
            offset = int(near.argmax()) - len(near) // 2
            shares = (stays / looks, special / looks) if looks else (0.0, 0.0)
            rows.append((*_head(site, head), *shares, offset, float(near.max()), int(looks)))
    columns = [*HEAD, "words", "special", "best_offset", "best_offset_attention", "n"]
    return pd.DataFrame(rows, columns=columns)


def _head(site: Site, head: int) -> tuple[str, str, int, int]:
    return site.stack, site.kind, site.layer, head
