"""A model's own copy that can learn: its states, and which of its weights they are made of.

Of an encoder-decoder the encoder alone. A body is never the model it was made of: that stays as it
is. Costs a copy of the weights, and one backward pass over a few pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from workbench.engine.batch import Batch, Pieces
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.models.copies import Where, copied, where
from workbench.models.huggingface import HuggingFace
from workbench.models.word_models import WordModel


@dataclass(frozen=True, eq=False)
class Body:
    """A copy of a model, and the weights that its states depend on, by name."""

    model: Model
    weights: dict[str, Tensor]
    places: dict[str, Where]

    @property
    def stack(self) -> StackName:
        return self.model.stacks[0].name

    @property
    def layers(self) -> int:
        """Blocks; there is one more state than that."""
        return self.model.stacks[0].layers

    @property
    def net(self) -> nn.Module | None:
        """The module, of a model of transformers."""
        return self.model.net if isinstance(self.model, HuggingFace) else None

    def depth(self, name: str) -> int:
        """The layer of a weight; what belongs to none, such as a last norm, goes with the last."""
        layer = self.places[name].layer
        return self.layers if layer is None else layer

    def train(self, learning: bool) -> None:
        """Dropout is on while a body learns."""
        if self.net is not None:
            self.net.train(learning)

    def states(self, text: Pieces) -> Sequence[Tensor]:
        """Every layer's, embeddings first.  # [batch, pieces, width] each"""
        return states(self.model, text)


def states(model: Model, text: Pieces) -> Sequence[Tensor]:
    """The same of any model: of the stack that reads the text."""
    if isinstance(model, HuggingFace):
        output = model.forward(text, alone=True)
    else:
        output = model.forward(text)
    return output.hidden[model.stacks[0].name]


def body_of(model: Model, whole: bool = False) -> Body:
    """A copy that can learn; with its decoder and its head where all of it is to learn.

    Its weights are float32, whatever those of the model are: small steps would be rounded away.
    """
    own = copied(model)
    if isinstance(own, HuggingFace):
        own.net.to(dtype=torch.float32)  # type: ignore[call-arg]
    every = weights_of(own)
    used = every if whole else _used(own, every)
    places = where(own)
    return Body(own, used, {name: places[name] for name in used})


def weights_of(model: Model) -> dict[str, Tensor]:
    """Every parameter that can learn."""
    if isinstance(model, HuggingFace):
        return dict(model.net.named_parameters())
    assert isinstance(model, WordModel), "there are no other models"
    return dict(model.learns)


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
        found = states(model, model.encode(few).to(model.device))
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
