"""A learned mix of layers: one vector per word, as used with ELMo and in edge probing.

`γ · Σ softmax(s)ᵢ hᵢ`, with one score sᵢ per layer and one scale γ. Costs: one parameter per layer
plus one, and a multiplication and an addition per layer.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from workbench.core.errors import WorkbenchError


class ScalarMix(nn.Module):
    """A weighted mean of the layers in `only` (default: all), initially their plain mean."""

    def __init__(self, layers: int, only: Sequence[int] | None = None) -> None:
        super().__init__()
        self.layers = layers
        self.only = tuple(range(layers)) if only is None else tuple(only)
        _check(layers, self.only)
        self.scores = nn.Parameter(torch.zeros(len(self.only)))
        self.scale = nn.Parameter(torch.ones(()))

    def weights(self) -> Tensor:
        """The weight of each mixed layer, in the order of `only`; they sum to one.  # [mixed]"""
        return self.scores.softmax(dim=0)

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """The mixed states; `hidden` holds every layer: a list, or one tensor [layers, …]."""
        if len(hidden) != self.layers:
            raise ValueError(f"this mix needs {self.layers} layers, but got {len(hidden)}")
        weights = self.weights().unbind()
        parts = [weight * hidden[layer] for weight, layer in zip(weights, self.only, strict=True)]
        return self.scale * torch.stack(parts).sum(dim=0)


def _check(layers: int, only: tuple[int, ...]) -> None:
    remedy = f"Choose one or more of the layers 0 to {layers - 1}, each once."
    if not only:
        raise WorkbenchError("the mix has no layers.", code="setting-invalid", remedy=remedy)
    if unknown := [layer for layer in only if not 0 <= layer < layers]:
        raise WorkbenchError(
            f"the mix names layer {unknown[0]}, which does not exist.",
            code="layer-missing",
            remedy=remedy,
        )
    if len(set(only)) < len(only):
        raise WorkbenchError(
            f"the mix names a layer twice: {list(only)}.", code="setting-repeated", remedy=remedy
        )
