"""Readers whose answers are known: one copies what followed in its passage, one ignores it."""

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


def _continued(ids: list[int], place: int) -> int:
    """The piece after the earlier place with the longest common past."""

    def common(earlier: int) -> int:
        n = 0
        while n <= earlier and ids[earlier - n] == ids[place - n]:
            n += 1
        return n

    return ids[max(range(place), key=common) + 1]
