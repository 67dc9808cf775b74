"""Readers whose answers are known: some copy what their passage says, some ignore it."""

from typing import Any

import torch

from tests.models import headed
from workbench.engine.batch import Pieces
from workbench.engine.model import Output

SURE = 30.0  # logit of the copied piece


def ignoring() -> Any:
    """A GPT-2 to which all is equally probable, whatever it reads."""
    return headed.made("gpt2", "GPT2LMHeadModel", uniform=True)


def copying() -> Any:
    """A GPT-2 that continues as the longest earlier stretch of the same pieces did."""
    model: Any = headed.made("gpt2", "GPT2LMHeadModel", uniform=True)
    size = model.net.config.vocab_size

    def forward(pieces: Pieces, *, logits: torch.Tensor, **_: Any) -> Output:
        scores = torch.zeros(*pieces.ids.shape, size)
        for row, ids in enumerate(pieces.ids.tolist()):
            for place in range(1, len(ids)):
                scores[row, place, _continued(ids, place)] = SURE
        return Output({}, {}, scores[logits], {})

    model.forward = forward
    return model


def marking(marked: bool) -> Any:
    """A BERT whose head marks the first word of the passage that the question lacks.

    If not `marked`, it marks nothing: every span and no answer have the same score.
    """
    model: Any = headed.made("bert", "BertForQuestionAnswering")

    class Head:
        task = model.task_head.task

        def read(self, net: Any, text: Pieces, segments: torch.Tensor) -> Any:
            return text, segments

        def __call__(self, read: Any) -> torch.Tensor:
            text, segments = read
            n_words = segments.shape[1]
            logits = torch.zeros(len(text), 2, n_words + 1)
            for row, words in enumerate(text.words):
                spelt = {n: text.ids[row, words == n].tolist() for n in range(n_words)}
                asked = [spelt[n] for n in range(n_words) if not segments[row, n]]
                new = [n for n in range(n_words) if segments[row, n] and spelt[n] not in asked]
                if new and marked:
                    logits[row, :, new[0]] = SURE
            return logits

    model.task_head = Head()
    return model


def filling() -> Any:
    """A BERT that fills a mask with what follows the same pieces elsewhere in the text."""
    model: Any = headed.made("bert", "BertForMaskedLM")
    size, mask = model.net.config.vocab_size, model.tokenizer.mask_token_id
    states = model.forward

    def forward(pieces: Pieces, *, logits: Any = False, **how: Any) -> Output:
        if logits is False:
            found: Output = states(pieces, **how)
            return found
        scores = torch.zeros(*pieces.ids.shape, size)
        for row, read in enumerate(pieces.ids.tolist()):
            ids = list(read)
            for place in (n for n, piece in enumerate(read) if piece == mask):
                common = {
                    other: _common(ids, other, place - 1)
                    for other in range(len(ids) - 1)
                    if other != place - 1 and ids[other + 1] != mask
                }
                best = max(common, key=lambda other: common[other])
                if common[best]:
                    ids[place] = ids[best + 1]
                    scores[row, place, ids[place]] = SURE
        return Output({}, {}, scores[logits], {})

    model.forward = forward
    return model


def _common(ids: list[int], one: int, other: int) -> int:
    """How many pieces up to two places are the same."""
    n = 0
    while n <= min(one, other) and ids[one - n] == ids[other - n]:
        n += 1
    return n


def _continued(ids: list[int], place: int) -> int:
    """The piece after the earlier place with the longest common past."""

    return ids[max(range(place), key=lambda earlier: _common(ids, earlier, place)) + 1]
