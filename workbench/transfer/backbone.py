"""A model's own copy that can learn: its states, and which of its weights they are made of.

Of an encoder-decoder the encoder alone. A body is never the model it was made of: that stays as it
is. Costs a copy of the weights, and one backward pass over a few pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workbench.engine.batch import Batch, Pieces
from workbench.engine.model import Model, WeightPlace
from workbench.engine.taps import StackName


@dataclass(frozen=True, eq=False)
class Body:
    """A copy of a model, and the weights that its states depend on, by name."""

    model: Model
    weights: dict[str, Tensor]
    places: dict[str, WeightPlace]

    @property
    def stack(self) -> StackName:
        return self.model.stacks[0].name

    @property
    def layers(self) -> int:
        """Blocks; there is one more state than that."""
        return self.model.stacks[0].layers

    def depth(self, name: str) -> int:
        """The layer of a weight; what belongs to none, such as a last norm, goes with the last."""
        layer = self.places[name].layer
        return self.layers if layer is None else layer

    def train(self, learning: bool) -> None:
        """Dropout is on while a body learns."""
        self.model.train(learning)

    def states(self, text: Pieces) -> Sequence[Tensor]:
        """Every layer's, embeddings first.  # [batch, pieces, width] each"""
        return self.model.states(text)


def body_of(model: Model, whole: bool = False) -> Body:
    """A copy that can learn; with its decoder and its head where all of it is to learn.

    Its weights are float32, whatever those of the model are: small steps would be rounded away.
    """
    own = model.copy(in_fp32=True)
    named, places = own.named_weights(), own.weight_places()
    every = {name: named[name] for name in places}  # what is tied learns once
    used = every if whole else _used(own, every)
    return Body(own, used, {name: places[name] for name in used})


def _used(model: Model, every: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the states depend on: not a head, nor a decoder, nor a pooler."""
    words = b"one two"
    few = Batch(
        text=np.frombuffer(words, dtype=np.uint8),
        text_offsets=np.array([0, len(words)], dtype=np.int64),
        words=np.array([[0, 3], [4, 7]], dtype=np.int32),
        word_offsets=np.array([0, 2], dtype=np.int64),
        segments=np.zeros(2, dtype=np.int8),
        order=np.zeros(1, dtype=np.int64),
    )
    for weights in every.values():
        weights.requires_grad_(True)
    with torch.enable_grad():
        found = model.states(model.encode(few).to(model.device))
        total = torch.stack([layer.float().sum() for layer in found]).sum()
        slopes = torch.autograd.grad(total, list(every.values()), allow_unused=True)
    for weights in every.values():
        weights.requires_grad_(False)
    return {n: w for (n, w), slope in zip(every.items(), slopes, strict=True) if slope is not None}


def names_of(models: Sequence[Model]) -> list[str]:
    """A name each: where one comes again it is numbered."""
    found: list[str] = []
    for model in models:
        name, number = model.name, 1
        while name in found:
            number += 1
            name = f"{model.name} ({number})"
        found.append(name)
    return found
