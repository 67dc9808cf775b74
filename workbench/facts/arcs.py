"""Which head's attention follows which dependency relation, and how far it beats a fixed offset.

A word looks at the word it gives most attention (pieces summed over targets, averaged over sources;
special tokens and the word itself left out). Of every relation and direction the best head stands
beside the fixed offset that hits its partner most often; `root` and `punct` are left out. Costs a
forward pass over the documents with eager attention, and one number a word and head.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from spacy.tokens import Doc
from torch import Tensor
from torch.nn import functional

from workbench.corpora.encode import encode
from workbench.engine.model import Model
from workbench.engine.statistics import by_words, owners
from workbench.engine.taps import Site, View

DIRECTIONS = ("dependent-to-head", "head-to-dependent")
LEFT_OUT = ("root", "punct")
AT_ONCE = 64  # documents
COLUMNS = (
    "relation,direction,stack,kind,layer,head,accuracy,n,baseline_offset,baseline_accuracy,gain"
)


@dataclass(eq=False)
class _Partners:
    """The word that each word looks at most, of one batch; -1 where it can see no other."""

    found: dict[Site, Tensor] = field(default_factory=dict)  # [batch, heads, words] each

    needs_probabilities = True

    def wants(self, site: Site) -> bool:
        return site.kind != "cross"

    @torch.no_grad()
    def see(self, view: View) -> None:
        assert view.queries is not None, "the model was asked through the engine"
        owned = owners(view.queries)  # [batch, words, pieces]
        words = by_words(view.probabilities, owned, owned)  # [batch, heads, words, words]
        there = owned.sum(-1) > 0  # [batch, words]
        words = words.masked_fill(~there[:, None, None], -1)
        words.diagonal(dim1=-2, dim2=-1).fill_(-1)
        mass, word = words.max(-1)
        self.found[view.site] = word.masked_fill(mass <= 0, -1).cpu()  # what sees none finds none

    def close(self, whole: bool) -> None:
        pass


def arcs(model: Model, docs: Sequence[Doc], least: int = 30) -> pd.DataFrame:
    """A row for every relation and direction of at least so many arcs, its best head in it."""
    pairs: defaultdict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for number, doc in enumerate(docs):
        for token in doc:
            relation = token.dep_.lower().split(":")[0]
            if relation in LEFT_OUT or token.head.i == token.i:
                continue
            pairs[relation, DIRECTIONS[0]].append((number, token.i, token.head.i))
            pairs[relation, DIRECTIONS[1]].append((number, token.head.i, token.i))
    looked = _looked_at(model, docs)
    rows = []
    for (relation, direction), places in sorted(pairs.items()):
        if len(places) < least:
            continue
        at = np.array(places)  # [arcs, 3]
        offset, hits = Counter((at[:, 2] - at[:, 1]).tolist()).most_common(1)[0]
        baseline = hits / len(at)
        shares = {site: _share(found, at) for site, found in looked.items()}  # [heads] each
        site = max(shares, key=lambda each: float(shares[each].max()))
        head, best = int(shares[site].argmax()), float(shares[site].max())
        where = (site.stack, site.kind, site.layer, head)
        rows.append((relation, direction, *where, best, len(at), offset, baseline, best - baseline))
    return pd.DataFrame(rows, columns=COLUMNS.split(","))


def beaten(found: pd.DataFrame, by: float = 0.1) -> list[str]:
    """The relations whose best head, in either direction, beats the best offset by so much."""
    return sorted(set(found[found["gain"] >= by]["relation"]))


def _share(found: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.float64]:
    """How often each head looks at the partner.  # [docs, heads, words], [arcs, 3] -> [heads]"""
    hits: NDArray[np.float64] = (found[at[:, 0], :, at[:, 1]] == at[:, 2, None]).mean(0)
    return hits


def _looked_at(model: Model, docs: Sequence[Doc]) -> dict[Site, NDArray[np.int64]]:
    """The word each word looks at most, -1 beyond a document.  # [docs, heads, words] a site"""
    batch, longest = encode(docs), max(map(len, docs))
    parts: defaultdict[Site, list[Tensor]] = defaultdict(list)
    for first in range(0, len(docs), AT_ONCE):
        text = model.encode(batch, range(first, min(first + AT_ONCE, len(docs))))
        tap = _Partners()
        with torch.no_grad():
            model.forward(text.to(model.device), taps=[tap], hidden=False)
        for site, found in tap.found.items():
            parts[site].append(functional.pad(found, (0, longest - found.shape[-1]), value=-1))
    return {site: torch.cat(found).numpy() for site, found in parts.items()}
