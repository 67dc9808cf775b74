"""A learned mix of layers: one vector a word out of many, as ELMo's users and edge probes do.

`γ · Σ softmax(s)ᵢ hᵢ`, with a score sᵢ a layer and one scale γ for all. Costs one parameter a layer
and one more, and a multiplication and an addition a layer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from workbench.core.errors import WorkbenchError


class ScalarMix(nn.Module):
    """Mixes the layers named in `only` (all where it is None); starts as their plain mean."""

    def __init__(self, layers: int, only: Sequence[int] | None = None) -> None:
        super().__init__()
        self.layers = layers
        self.only = tuple(range(layers)) if only is None else tuple(only)
        _check(layers, self.only)
        self.scores = nn.Parameter(torch.zeros(len(self.only)))
        self.scale = nn.Parameter(torch.ones(()))

    def weights(self) -> Tensor:
        """What each mixed layer counts, in the order of `only`; sums to one.  # [mixed]"""
        return self.scores.softmax(dim=0)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """`hidden` holds every layer, mixed or not: a list, or one tensor [layers, …]."""
        if len(hidden) != self.layers:
            raise ValueError(f"this mix is of {self.layers} layers; {len(hidden)} were given")
        weights = self.weights().unbind()
        parts = [weight * hidden[layer] for weight, layer in zip(weights, self.only, strict=True)]
        return self.scale * torch.stack(parts).sum(dim=0)


def _check(layers: int, only: tuple[int, ...]) -> None:
    remedy = f"Name one or more of the layers 0 to {layers - 1}, each once."
    if not only:
        raise WorkbenchError("a mix of no layers.", remedy=remedy)
    if strange := [layer for layer in only if not 0 <= layer < layers]:
        raise WorkbenchError(f"there is no layer {strange[0]} to mix.", remedy=remedy)
    if len(set(only)) < len(only):
        raise WorkbenchError(f"a layer is named twice in the mix: {list(only)}.", remedy=remedy)
