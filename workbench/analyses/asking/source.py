"""Which words of a source carry the text that a model has written for it.

    found = wb.generate(model, text)
    carried(model, text, [step.index for step in found.steps]).scores  # [words, pieces]

Each word of the source is hidden in turn, and all written pieces are scored in one pass: leave-one-
out of every piece at once, as `attribute(..., "leave-one-out", measure="log-probability")` has it
for one. `attended` has the cross-attention of an encoder-decoder on each word instead. Costs: a
forward pass over one row for each word; of a long source, for each of 128 groups of consecutive
words; for attention one pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.predictions.edits import editable, read_from, without_words
from workbench.analyses.predictions.explained import prediction_of
from workbench.analyses.predictions.generate import MAX_PIECES
from workbench.analyses.predictions.prediction import Prediction, last_words
from workbench.core.errors import WorkbenchError
from workbench.corpora.typed import readable
from workbench.engine.batch import NO_WORD, Pieces, joined
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.engine.taps import Capture
from workbench.models.output_heads.lm_losses import logits_of

if TYPE_CHECKING:
    from spacy.tokens import Doc

GROUPS = 128  # maximum number of groups of words
LOGITS = 1 << 24  # in one forward pass
PIECES = 4_096  # in one forward pass


@dataclass(frozen=True, eq=False)
class Carried:
    """What words of a source do for each written piece: what hiding them takes, or attention."""

    doc: "Doc"  # the source as the model reads it: of a long text, its end
    groups: tuple[tuple[int, ...], ...]  # the words that are hidden together
    # [groups, pieces], nats: positive if they carry the piece; or shares of cross-attention
    scores: NDArray[np.float64]

    def of_words(self, piece: int | None = None) -> dict[int, float]:
        """The score of each word for one written piece, or for the whole text."""
        scores = self.scores.sum(1) if piece is None else self.scores[:, piece]
        pairs = zip(self.groups, scores.tolist(), strict=True)
        return {word: score for group, score in pairs for word in group}


def carried(
    model: Model,
    text: "str | Doc",
    pieces: Sequence[int],
    max_pieces: int = MAX_PIECES,
    on_progress: Callable[[float], object] | None = None,
) -> Carried:
    """Score every word of a text for every piece that the model has written after it, or for it.

    `max_pieces` is that of `generate`, which leaves room for so many; `on_progress` gets the share
    that is done.
    """
    doc = readable(text)
    if not pieces:
        raise WorkbenchError(
            "the model wrote nothing, so no word of the source carries it.",
            code="text-empty",
            where=model.name,
            remedy="Type another text.",
        )
    if model.objective == "causal":
        doc = last_words(model, doc, min(max_pieces, (model.max_pieces or max_pieces) // 2))
    prediction, _ = prediction_of(model, doc, position=len(pieces), so_far=pieces[:-1])
    words = editable(prediction)
    size = -(-len(words) // GROUPS) or 1
    groups = tuple(tuple(group) for group in chunks(words, size))
    rows = [(), *groups]
    read = prediction.text if prediction.target is None else prediction.target
    width = sum(each.ids.shape[1] for each in prediction.inputs.values())
    at_once = min(PIECES // width, LOGITS // (len(pieces) * max(1, len(model.vocabulary))))
    done: list[Tensor] = []
    for some in chunks(rows, max(1, at_once)):
        texts = [without_words(prediction, each).text if each else prediction.text for each in some]
        done.append(_log_probabilities(prediction, joined(texts), read, pieces))
        if on_progress is not None:
            on_progress(sum(map(len, done)) / len(rows))
    nats = torch.cat(done).double().numpy()  # [1 + groups, pieces]
    return Carried(prediction.doc, groups, nats[0] - nats[1:])


@torch.no_grad()
def attended(model: Model, text: "str | Doc", pieces: Sequence[int]) -> Carried:
    """The share of cross-attention on each word of a text while each piece is written.

    Mean over layers and heads; attention on special pieces is no word's. One pass over the text.
    """
    prediction, _ = prediction_of(model, readable(text), position=len(pieces), so_far=pieces[:-1])
    capture = Capture(lambda site: site.kind == "cross")
    model.forward(prediction.text, targets=prediction.target, taps=[capture], hidden=False)
    maps = [maps.double().mean(1)[0] for found in capture.maps.values() for maps in found]
    mean = torch.stack(maps).mean(0)[: len(pieces)].cpu()  # [written, read]
    words = prediction.text.words[0].cpu()
    known = sorted({*words.tolist()} - {NO_WORD})
    scores = torch.stack([mean[:, words == word].sum(1) for word in known])  # [words, written]
    return Carried(prediction.doc, tuple((word,) for word in known), scores.numpy())


@torch.no_grad()
def _log_probabilities(
    prediction: Prediction, texts: Pieces, read: Pieces, written: Sequence[int]
) -> Tensor:
    """Log-probabilities of the written pieces after variants of a text.  # [variants, pieces]"""
    n_rows, n_pieces = len(texts), len(written)
    mask = torch.zeros(n_rows, read.ids.shape[1], dtype=torch.bool, device=read.ids.device)
    first = prediction.position + 1 - n_pieces
    mask[:, first + 1 : prediction.position + 1] = True
    for row in range(n_rows):
        mask[row, read_from(replace(prediction, position=first), texts.take([row]))] = True
    target = None if prediction.target is None else prediction.target.take([0] * n_rows)
    logits = logits_of(prediction.model, texts, mask, target).float()
    shares = logits.log_softmax(-1).view(n_rows, n_pieces, -1)  # [variants, pieces, choices]
    index = torch.tensor(list(written), device=shares.device).expand(n_rows, -1)
    scores: Tensor = shares.gather(-1, index[..., None])[..., 0]
    return scores.cpu()
