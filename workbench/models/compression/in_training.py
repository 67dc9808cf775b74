"""Weights removed, and numbers rounded, while a model learns: it adapts to what it loses.

Pruning sets a share of the weights to zero `before` training, `after` it, or `while` it goes on, by
the cubic schedule of Zhu and Gupta (2017); Gordon et al. (2020) compare the three. By magnitude, a
weight that is gone stays away. By movement (Sanh et al. 2020), the score of a weight is
-sum (dL/dW) W over the steps, of masked ones too (straight-through): weights that move to zero go
first, however large they are. Rounding (Q8BERT, Zafrir et al. 2019) rounds weights, and perhaps
inputs, in every pass, and gradients pass straight through. `train` is any training in place. Costs:
that training; pruning sorts all weights `TIMES` times, movement keeps a score for each.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from workbench.models.compression.quantisation import Bits, Per
from workbench.models.compression.rebuilding import Order, mark_read, require_whole
from workbench.models.compression.rounding import finished, roundable, settled, watched
from workbench.models.compression.weights import Scope, copied, kept, matrices, sizes
from workbench.models.formats.packed_checkpoint import Grid, on_grid
from workbench.models.huggingface import HuggingFace

When = Literal["before", "while", "after"]
By = Literal["magnitude", "movement"]
Train = Callable[[HuggingFace, Callable[[int], object]], object]  # calls back after each step
BEGIN, END = 0.1, 0.7  # of the steps, of the schedule: then the weights that are left recover
TIMES = 50  # maximum number of times that the weights to remove are chosen


def prune_in_training(
    model: HuggingFace,
    amount: float,
    train: Train,
    steps: int,
    *,
    when: When = "while",
    by: By = "magnitude",
    order: Order = "best",
    scope: Scope = "global",
    seed: int = 0,
) -> HuggingFace:
    """The model trained for these steps, without this share of the weights of its matrices."""
    twin = copied(model, amount)
    found = matrices(twin)
    masks = [_Masked(getattr(*each), by == "movement") for each in found]
    for (module, name), mask in zip(found, masks, strict=True):
        parametrize.register_parametrization(module, name, mask)
    every = max(1, steps // TIMES)

    def choose(done: int) -> None:
        if done % every and done < steps:
            return
        generator = torch.Generator().manual_seed(seed)
        originals = [_original(*each) for each in found]
        scores = [
            mask.ranked(weights, order, generator)
            for mask, weights in zip(masks, originals, strict=True)
        ]
        share = share_at(done, steps, amount, when)
        for mask, own in zip(masks, kept(scores, share, scope), strict=True):
            mask.mask.copy_(own)

    choose(0)
    train(twin, choose)
    choose(steps)
    for module, name in found:
        parametrize.remove_parametrizations(module, name, leave_parametrized=True)
    mark_read(twin.net, model)
    return twin


def share_at(done: int, steps: int, amount: float, when: When = "while") -> float:
    """The share of the weights that is gone after some steps."""
    if when == "before" or done >= steps:
        return amount
    if when == "after":
        return 0.0
    passed = min(max((done / steps - BEGIN) / (END - BEGIN), 0.0), 1.0)
    return amount * (1 - (1 - passed) ** 3)


class _Masked(nn.Module):
    """A parametrisation: weights times a mask, whose scores may learn from their gradients."""

    mask: Tensor
    scores: Tensor | None

    def __init__(self, weights: Tensor, learns: bool) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones_like(weights, dtype=torch.bool))
        scores = torch.zeros_like(weights, dtype=torch.float32) if learns else None
        self.register_buffer("scores", scores)

    def forward(self, weights: Tensor) -> Tensor:
        masked = weights * self.mask
        if self.scores is not None and masked.requires_grad:
            masked.register_hook(partial(self._learn, weights.detach()))  # type: ignore[no-untyped-call]
        return masked

    def _learn(self, weights: Tensor, gradient: Tensor) -> None:
        assert self.scores is not None, "only scores that learn are given gradients"
        self.scores -= gradient.float() * weights.float()

    def ranked(self, weights: Tensor, order: Order, generator: torch.Generator) -> Tensor:
        """Scores of the weights: the lowest go first."""
        if self.scores is None or order == "random":
            return sizes(weights.detach(), order, generator) * self.mask  # 0: gone
        return self.scores if order == "best" else -self.scores


def quantise_in_training(
    model: HuggingFace,
    train: Train,
    bits: Bits = 8,
    *,
    activations: bool = False,
    per: Per = "channel",
) -> HuggingFace:
    """The model trained with rounded weights, and perhaps inputs, and rounded in the end."""
    twin = require_whole(model, "matrices of numbers").copy(in_fp32=True)
    found = roundable(twin, bits, per)
    for module, name, grid in found:
        parametrize.register_parametrization(module, name, _Rounded(grid))
    watching = list(watched(twin, rounded=True)) if activations else []
    train(twin, lambda done: None)
    for module, name, _ in found:
        parametrize.remove_parametrizations(module, name, leave_parametrized=True)
    settled(watching)
    return finished(twin, model, found)


class _Rounded(nn.Module):
    """A parametrisation: weights on a grid."""

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self.grid = grid

    def forward(self, weights: Tensor) -> Tensor:
        return on_grid(weights, self.grid)


def _original(module: nn.Module, name: str) -> Tensor:
    """The weights under the mask."""
    return module.get_parameter(f"parametrizations.{name}.original")
