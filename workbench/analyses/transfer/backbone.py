"""A trainable copy of a model, with the weights that its hidden states depend on.

For an encoder-decoder, only the encoder. The original model never changes. Costs: a copy of the
weights, and one backward pass over a few pieces.
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
        """Number of blocks; there is one more layer of states, the embeddings."""
        return self.model.stacks[0].layers

    def depth(self, name: str) -> int:
        """The layer of a weight; weights outside the layers, as a final norm, count as the last."""
        layer = self.places[name].layer
        return self.layers if layer is None else layer

    def train(self, learning: bool) -> None:
        """Turn dropout on for training, or off."""
        self.model.train(learning)

    def states(self, text: Pieces) -> Sequence[Tensor]:
        """The states of every layer, embeddings first.  # [batch, pieces, width] each"""
        return self.model.states(text)


def body_of(model: Model, whole: bool = False) -> Body:
    """A trainable copy of a model; `whole` includes its decoder and head.

    Its weights are float32 whatever the model's precision: small steps would be rounded away.
    """
    copied = model.copy(in_fp32=True)
    named, places = copied.named_weights(), copied.weight_places()
    weights = {name: named[name] for name in places}  # tied weights once
    used = weights if whole else _used(copied, weights)
    return Body(copied, used, {name: places[name] for name in used})


def _used(model: Model, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights that the states depend on, without head, decoder and pooler."""
    words = b"one two"
    few = Batch(
        text=np.frombuffer(words, dtype=np.uint8),
        text_offsets=np.array([0, len(words)], dtype=np.int64),
        words=np.array([[0, 3], [4, 7]], dtype=np.int32),
        word_offsets=np.array([0, 2], dtype=np.int64),
        segments=np.zeros(2, dtype=np.int8),
        order=np.zeros(1, dtype=np.int64),
    )
    for weights in named.values():
        weights.requires_grad_(True)
    with torch.enable_grad():
        states = model.states(model.encode(few).to(model.device))
        total = torch.stack([layer.float().sum() for layer in states]).sum()
        gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    for weights in named.values():
        weights.requires_grad_(False)
    return {
        n: w
        for (n, w), gradient in zip(named.items(), gradients, strict=True)
        if gradient is not None
    }


def names_of(models: Sequence[Model]) -> list[str]:
    """A name for each model; repeated names get a number."""
    names: list[str] = []
    for model in models:
        name, number = model.name, 1
        while name in names:
            number += 1
            name = f"{model.name} ({number})"
        names.append(name)
    return names
