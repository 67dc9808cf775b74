"""Find similar: sentences of a corpus where a head attends strongly between words of two tags.

    found = similar(model, docs, site, head, ("VERB", "NOUN"))

A search goes through a corpus in steps of some sentences, so that a page can show its progress and
end it. Attention is summed over the pieces of the attended word and averaged over those of the
attending word. Costs: a forward pass over the sentences of a step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.corpora.encode import encode
from workbench.engine.forward_pass import ALONE
from workbench.engine.model import Model
from workbench.engine.taps import Site, Tap, View
from workbench.engine.words import by_words

if TYPE_CHECKING:
    from spacy.tokens import Doc

STEP = 64  # sentences
LONGEST = 128  # words of a sentence; longer ones are left out
MAX_SENTENCES = 1_024  # of a search
KEPT = 20  # sentences in the list
BATCH = 16


@dataclass(frozen=True)
class Similar:
    """A pair of words in a sentence of the corpus."""

    sentence: int  # its index in the split
    word: int
    to: int
    weight: float


def tags_of(doc: "Doc", word: int, to: int) -> tuple[str, str]:
    """The parts of speech of two words; else their tags."""
    for name in ("pos_", "tag_"):
        found = (getattr(doc[word], name), getattr(doc[to], name))
        if all(found):
            return found
    raise WorkbenchError(
        "The words of this text have no tags.",
        code="layer-missing",
        remedy="Choose a sentence of a tagged corpus, or install a spaCy pipeline.",
    )


def similar(
    model: Model,
    docs: "Sequence[Doc]",
    site: Site,
    head: int,
    tags: tuple[str, str],
    first: int = 0,
) -> list[Similar]:
    """The strongest pair of words with these tags in each sentence, the strongest first.

    `first` is the index of the first sentence. Sentences without such a pair are left out.
    """
    found: list[Similar] = []
    numbered = [
        (first + n, doc, _pairs(doc, tags)) for n, doc in enumerate(docs) if len(doc) <= LONGEST
    ]
    numbered = [each for each in numbered if len(each[2])]
    for start in range(0, len(numbered), BATCH):
        batch = numbered[start : start + BATCH]
        maps = _maps(model, [doc for _, doc, _ in batch], site, head)
        for (sentence, _, pairs), words in zip(batch, maps, strict=True):
            inside = pairs[(pairs < min(words.shape)).all(-1)]  # words that were not cut off
            if not len(inside):
                continue
            weights = words[inside[:, 0], inside[:, 1]]
            best = int(weights.argmax())
            word, to = inside[best].tolist()
            found.append(Similar(sentence, word, to, float(weights[best])))
    return sorted(found, key=lambda each: (-each.weight, each.sentence))


def _pairs(doc: "Doc", tags: tuple[str, str]) -> Tensor:
    """All pairs of different words with these two tags.  # [pairs, 2]"""
    from_words, to_words = ([t.i for t in doc if tag in (t.pos_, t.tag_)] for tag in tags)
    pairs = [(i, j) for i in from_words for j in to_words if i != j]
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)


def _maps(model: Model, docs: "Sequence[Doc]", site: Site, head: int) -> list[Tensor]:
    """The map of the head between words, of each Doc.  # [words, words] each"""
    tap = _OneHead(site, head)
    pieces = model.encode(encode(docs))
    with ALONE, torch.no_grad():
        model.forward(pieces.to(model.device), taps=[tap], hidden=False)
    assert tap.words is not None, "the model has this site"
    order = pieces.order.tolist()
    maps: dict[int, Tensor] = dict(zip(order, tap.words, strict=True))
    return [maps[n] for n in range(len(docs))]


@dataclass(eq=False)
class _OneHead(Tap):
    """Stores the maps of one head, between words."""

    site: Site
    head: int
    words: Tensor | None = None  # [batch, words, words]

    def wants(self, site: Site) -> bool:
        return site == self.site

    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "the engine sets both"
        one = view.probabilities[:, self.head : self.head + 1]
        self.words = by_words(one, view.queries, view.keys)[:, 0].detach().float().cpu()
