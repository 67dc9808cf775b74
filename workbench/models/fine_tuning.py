"""A short fine-tuning: AdamW steps, clipped gradients, and the weights of the best dev score.

For fine-tuning and recovery after pruning, not for training from scratch (`workbench.training`).
The trained weights may be all weights, gates only, or a head with its own learning rates. Weights
in half precision are trained as float32 copies, because a step is often smaller than the distance
between two bf16 numbers. A batch that does not fit into memory is processed in parts
(`engine.halving`). Costs: a forward and a backward pass per step, the dev scores, and a copy of the
weights.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from workbench.engine.halving import Part, averaged

CLIP = 1.0  # maximum norm of a step's gradient
B = TypeVar("B")


class Learner:
    """The trained weights with their optimiser and learning-rate schedule."""

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        curves: Callable[[int], float] | Sequence[Callable[[int], float]],
        **options: Any,
    ) -> None:
        """`groups` are AdamW's; `curves` map a step to each group's learning-rate factor."""
        self.moving: list[Tensor] = [weight for group in groups for weight in group["params"]]
        self.wide = [w if w.dtype.itemsize >= 4 else w.detach().float() for w in self.moving]
        wide_of = dict(zip(map(id, self.moving), self.wide, strict=True))
        wide_groups = [{**g, "params": [wide_of[id(w)] for w in g["params"]]} for g in groups]
        self.optimiser = torch.optim.AdamW(wide_groups, weight_decay=0.0, **options)
        factors = curves if callable(curves) else list(curves)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, factors)
        self.best: list[Tensor] = []

    def step(self, parts: Iterable[Part], penalty: Callable[[], Tensor] | None = None) -> float:
        """Take one step and return its mean loss; no step if the loss is not finite."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = float(averaged(parts, self.moving))
        if not math.isfinite(loss):
            return loss
        if penalty is not None:
            penalty().backward()  # type: ignore[no-untyped-call]
        copies = [
            (w, wide) for w, wide in zip(self.moving, self.wide, strict=True) if w is not wide
        ]
        for weight, wide in copies:
            wide.grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self.wide, CLIP)
        self.optimiser.step()
        with torch.no_grad():
            for weight, wide in copies:
                weight.copy_(wide)
        self.schedule.step()
        return loss

    def keep(self) -> None:
        """Save the current weights as the best."""
        self.best = [weight.detach().clone() for weight in self.moving]

    def restore(self) -> None:
        """Restore the weights saved last, if any."""
        with torch.no_grad():
            for weight, saved in zip(self.moving, self.best, strict=False):
                weight.copy_(saved)
        for weight in self.moving:
            weight.grad = None


@dataclass
class EarlyStopping:
    """Early stopping on a dev score; higher scores are better."""

    patience: int  # scores without improvement before stopping
    gain: float = 0.0  # minimum improvement
    highest: float = math.inf  # maximum possible score
    best: float = -math.inf
    waited: int = 0
    _reference: float = -math.inf

    def is_best(self, score: float) -> bool:
        """Whether this score is the best so far."""
        self.waited += 1
        if score > self._reference + self.gain:
            self.waited, self._reference = 0, score
        is_best = score > self.best
        self.best = score if is_best else self.best
        return is_best

    @property
    def is_over(self) -> bool:
        """Whether training should stop."""
        return self.waited >= self.patience or self.best >= self.highest


@dataclass
class Curves:
    """Training losses and dev scores of a fine-tuning."""

    losses: list[float] = field(default_factory=list)  # of each step
    dev: list[float] = field(default_factory=list)  # the score after each interval
    best: int = 0  # the interval with the best dev score, counted from 1; 0: none
    diverged: bool = False


def fine_tune(
    learner: Learner,
    intervals: Iterable[Iterable[B]],
    gradients: Callable[[B], Iterable[Part]],
    dev_score: Callable[[], float] | None,
    stopping: EarlyStopping,
    on_step: Callable[[int, float], object],
    penalty: Callable[[], Tensor] | None = None,
) -> Curves:
    """Train on intervals of batches, with a dev score after each, until early stopping.

    The weights of the best dev score are restored. A loss that is not finite also stops training.
    """
    curves = Curves()
    for interval in intervals:
        for batch in interval:
            loss = learner.step(gradients(batch), penalty)
            curves.losses.append(loss)
            if not math.isfinite(loss):
                curves.diverged = True
                break
            on_step(len(curves.losses), loss)
        if curves.diverged:
            break
        if dev_score is None:
            continue
        curves.dev.append(dev_score())
        if stopping.is_best(curves.dev[-1]):
            curves.best = len(curves.dev)
            learner.keep()
        if stopping.is_over:
            break
    learner.restore()
    return curves
