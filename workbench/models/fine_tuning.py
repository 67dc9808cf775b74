"""A short fine-tuning: AdamW steps, clipped gradients, the weights that dev liked best.

For a model that is fitted or mended, not for training from the start (`workbench.training`). What
learns may be all weights, gates alone, or a head with its own learning rates. Weights in half
precision learn as copies in float32, for a step is often smaller than the distance between two bf16
numbers, and would be lost. Texts of a step that do not fit into memory are learnt from in parts
(`engine.halving`). Costs a forward and a backward pass a step, what dev costs, and a copy of the
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
    """Weights that learn, with their optimiser and schedule."""

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        curves: Callable[[int], float] | Sequence[Callable[[int], float]],
        **options: Any,
    ) -> None:
        """Parameter groups of AdamW; `curves` make of a step the factor of each group's rate."""
        self.moving: list[Tensor] = [weight for group in groups for weight in group["params"]]
        self.wide = [w if w.dtype.itemsize >= 4 else w.detach().float() for w in self.moving]
        of = dict(zip(map(id, self.moving), self.wide, strict=True))
        wide_groups = [{**g, "params": [of[id(w)] for w in g["params"]]} for g in groups]
        self.optimiser = torch.optim.AdamW(wide_groups, weight_decay=0.0, **options)
        own = curves if callable(curves) else list(curves)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, own)
        self.best: list[Tensor] = []

    def step(self, parts: Iterable[Part], penalty: Callable[[], Tensor] | None = None) -> float:
        """The mean loss of a step's parts, and the step; none where the loss is not finite."""
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
        """Remember the weights as they are now."""
        self.best = [weight.detach().clone() for weight in self.moving]

    def restore(self) -> None:
        """Give the weights what was remembered last, if anything was."""
        with torch.no_grad():
            for weight, kept in zip(self.moving, self.best, strict=False):
                weight.copy_(kept)
        for weight in self.moving:
            weight.grad = None


@dataclass
class EarlyStopping:
    """When dev gains no more; higher scores are better."""

    patience: int  # scores without a gain
    gain: float = 0.0  # that counts as one
    highest: float = math.inf  # no score is higher
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
        return self.waited >= self.patience or self.best >= self.highest


@dataclass
class Curves:
    """How a fine-tuning went."""

    losses: list[float] = field(default_factory=list)  # of each step
    dev: list[float] = field(default_factory=list)  # the score after each stretch
    best: int = 0  # the stretch after which dev scored best, counted from 1; 0: none
    diverged: bool = False


def fine_tune(
    learner: Learner,
    stretches: Iterable[Iterable[B]],
    gradients: Callable[[B], Iterable[Part]],
    judge: Callable[[], float] | None,
    stopping: EarlyStopping,
    on_step: Callable[[int, float], object],
    penalty: Callable[[], Tensor] | None = None,
) -> Curves:
    """Learn from stretches of batches, with a score on dev after each, until dev gains no more.

    The weights end as dev liked them best. A loss that is no finite number ends it too.
    """
    found = Curves()
    for stretch in stretches:
        for batch in stretch:
            loss = learner.step(gradients(batch), penalty)
            found.losses.append(loss)
            if not math.isfinite(loss):
                found.diverged = True
                break
            on_step(len(found.losses), loss)
        if found.diverged:
            break
        if judge is None:
            continue
        found.dev.append(judge())
        if stopping.is_best(found.dev[-1]):
            found.best = len(found.dev)
            learner.keep()
        if stopping.is_over:
            break
    learner.restore()
    return found
