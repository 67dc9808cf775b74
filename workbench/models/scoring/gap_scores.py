"""How probable some words of a text are, and what follows them, for models of any objective.

    scores = gap_scores(model, batch, gaps)  # gaps: ranges of words

A causal model predicts the words from what is before them. A model that sees both sides gives a
pseudo-likelihood: each piece is hidden in turn, with the later pieces of its word. ELMo gives the
mean of its two directions; what follows is predicted by its forward direction. Costs: a forward
pass over the texts; with pseudo-likelihood one for each piece that is scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.engine.batch import NO_WORD, Batch, Pieces
from workbench.engine.forward_pass import PIECES
from workbench.engine.model import Model
from workbench.models.bilm import BiLM, words_scored
from workbench.models.references import Pseudo
from workbench.models.scoring.lm_scoring import PSEUDO, losses_of
from workbench.models.word_models import WordModel, words_of

Part = Literal["gap", "after", "before"]
Range = tuple[int, int]
EVERY: tuple[Part, ...] = ("gap", "after", "before")


@dataclass(frozen=True)
class GapScores:
    """Nats of the words in a gap, after and before it, by text; each field is [texts]."""

    gap: NDArray[np.float64]
    after: NDArray[np.float64]
    before: NDArray[np.float64]
    right: NDArray[np.bool_]  # every piece of the gap was the most likely one
    pieces: NDArray[np.int64]  # scored pieces of the gap; 0: the gap was not read

    @property
    def whole(self) -> NDArray[np.float64]:
        """Nats of the whole text."""
        return self.gap + self.after + self.before


def gap_scores(
    model: Model,
    batch: Batch,
    gaps: Sequence[Range],
    parts: Sequence[Part] = EVERY,
    pseudo: Pseudo = "within-word",
    seed: int = 0,
    start_token: int | None = None,
) -> GapScores:
    """Score the gaps of some texts; other parts than those named are 0, except in ELMo.

    `start_token` as in `lm_scoring.score`.
    """
    texts = len(batch)
    scores = GapScores(
        np.zeros(texts),
        np.zeros(texts),
        np.zeros(texts),
        np.zeros(texts, dtype=np.bool_),
        np.zeros(texts, dtype=np.int64),
    )
    if not texts:
        return scores
    net = model.bilm if isinstance(model, WordModel) else model
    if isinstance(net, BiLM):
        _of_words(net, batch, gaps, scores)
        return scores
    wanted = frozenset(parts)
    for losses in losses_of(
        model,
        batch,
        range(texts),
        pseudo=pseudo if model.objective in PSEUDO else None,
        seed=seed,
        start_token=start_token,
        wanted=lambda text: _in_parts(text, gaps, wanted),
    ):
        words, scored = losses.text.words.cpu(), losses.scored.cpu()  # [batch, pieces] each
        nats, right = losses.nats.cpu().double(), losses.right.cpu()
        for row, text in enumerate(losses.text.order.tolist()):
            first, last = gaps[text]
            known = scored[row] & (words[row] != NO_WORD)
            inside = known & (words[row] >= first) & (words[row] < last)
            scores.gap[text] = float(nats[row][inside].sum())
            scores.after[text] = float(nats[row][known & (words[row] >= last)].sum())
            scores.before[text] = float(nats[row][known & (words[row] < first)].sum())
            scores.right[text] = bool(inside.any() and right[row][inside].all())
            scores.pieces[text] = int(inside.sum())
    return scores


def _in_parts(text: Pieces, gaps: Sequence[Range], parts: frozenset[str]) -> Tensor:
    """The pieces of these parts of each text.  # [batch, pieces], bool"""
    first, last = torch.tensor([gaps[n] for n in text.order.tolist()]).T[..., None]
    known = text.words != NO_WORD
    within = {
        "gap": (text.words >= first) & (text.words < last),
        "after": text.words >= last,
        "before": text.words < first,
    }
    return known & torch.stack([within[part] for part in sorted(parts)]).any(0)


def _of_words(net: BiLM, batch: Batch, gaps: Sequence[Range], scores: GapScores) -> None:
    """Scores of a model that predicts whole words in both directions."""
    texts = [words_of(batch, document) for document in range(len(batch))]
    for places, (nats, right) in words_scored(net, texts, PIECES["cpu"]):
        forward, backward = (each.double().cpu().numpy() for each in nats)  # [batch, words + 1]
        hits = right.forward.cpu().numpy()
        for row, text in enumerate(places):
            first, last = gaps[text]
            both = (forward[row][:-1] + backward[row][1:]) / 2  # the words, without boundaries
            scores.gap[text] = both[first:last].sum()
            scores.after[text] = forward[row][last:].sum()
            scores.before[text] = both[:first].sum()
            scores.right[text] = bool(hits[row][first:last].all())
            scores.pieces[text] = last - first
