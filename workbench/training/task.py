"""What is trained on what: the two functions a training loop needs, and the plan it follows.

A `Task` is made by `tasks` from a store of tokens and an objective; the loop in `trainer` asks it
for micro-batches by number and for what a model loses on one. Costs nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args

import torch
from torch import Tensor, nn

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.engine.batch import sent
from workbench.training.curves import Work


class Micro(NamedTuple):
    """A micro-batch: what goes through the model at once."""

    inputs: Mapping[str, Tensor]
    counts: Tensor  # [terms], targets of each term of the loss
    tokens: int  # that are read, padding left out

    def to(self, device: torch.device) -> "Micro":
        """On a device; the processor does not wait for the copies."""
        return self._replace(inputs={name: sent(own, device) for name, own in self.inputs.items()})


Losses = Callable[[nn.Module, Mapping[str, Tensor]], Tensor]  # sums in nats, [terms]


@dataclass(frozen=True)
class Task:
    """Micro-batches by step and number, and what a model loses on one."""

    draw: Callable[[int, int], Micro]
    losses: Losses
    terms: tuple[str, ...] = ("loss",)
    weights: tuple[float, ...] = (1.0,)
    held_out: Callable[[], Sequence[Micro]] | None = None  # the same whenever it is asked
    work: Work | None = None  # what a token costs
    length: int = 0  # of a sequence
    mapped: int = 1  # so many of the terms, the first, are of logits over the vocabulary


class Progress(Protocol):
    """How a training tells what it is doing."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        """So much is done, of so much."""
        ...

    def log(self, text: str) -> None:
        """A line for the log."""
        ...

    def warn(self, text: str) -> None:
        """A line the user should see."""
        ...


class Quiet:
    """Progress that nobody is told of."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        pass

    def log(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        pass


@dataclass(frozen=True)
class Plan:
    """How long, in what steps and how fast; tied to `steps`, or to `seconds` where those are given.

    `batch` sequences make a step, `at_once` go through a device together; where they do not fit
    `batch`, or `at_once` is 0, all of a process' share go at once.
    """

    steps: int | None = 1000
    seconds: float | None = None
    batch: int = 32
    at_once: int = 0
    rate: float = 1e-3
    schedule: str = "linear"
    warmup: float = 0.05  # of the run
    decay: float = 0.01  # of weights; not of biases and norms
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    clip: float = 1.0  # the norm of a step's gradient, at most; 0 for no limit
    seed: int = 0
    evaluations: int = 10  # of the held-out text in the course of a run
    points: int = 200  # of the curves
    checkpoint_seconds: float = 60.0
    checkpoint_steps: int = 0  # also after each so many; 0 for by the clock alone

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.seconds is None):
            raise WorkbenchError(
                "a training ends after a number of steps or of seconds.",
                remedy="Give steps or a budget of seconds, not both, not neither.",
            )
        require_shape(self.schedule)
        positive = {"steps": self.steps, "seconds": self.seconds, "batch": self.batch}
        positive |= {"rate": self.rate}
        for name, value in positive.items():
            if value is not None and not value > 0:
                raise WorkbenchError(f"{name} is {value}.", remedy="Give a number above 0.")
        for name in ("warmup", "decay", "clip", "at_once", "checkpoint_steps"):
            if not getattr(self, name) >= 0:
                raise WorkbenchError(f"{name} is {getattr(self, name)}.", remedy="Give 0 or more.")
        if self.warmup >= 1:
            raise WorkbenchError(
                f"warmup is {self.warmup}, and the rate would never be reached.",
                remedy="It is a share of the run: give less than 1, such as 0.05.",
            )

    def micros(self, world: int) -> int:
        """Micro-batches a step, of all processes together."""
        if self.batch % world:
            raise WorkbenchError(
                f"a batch of {self.batch} sequences does not part among {world} processes.",
                remedy=f"Give a multiple of {world}.",
            )
        if not self.at_once or self.at_once >= self.batch // world:
            return world
        if self.batch % (self.at_once * world):
            raise WorkbenchError(
                f"a batch of {self.batch} sequences is no multiple of {world} x {self.at_once}.",
                remedy="Give a batch that is a multiple of at_once times the processes.",
            )
        return self.batch // self.at_once


# --- schedule: when training ends, and the learning rate until then -------------------------------
#
# Training is tied to a number of steps or to a time budget; either way it knows only its
# progress, a fraction from 0 to 1, and every schedule is a function of that fraction. So a run of
# five minutes ends with its rate at the floor on a slow machine too. Costs nothing.

Shape = Literal["linear", "cosine", "constant", "wsd"]
SHAPES: tuple[str, ...] = get_args(Shape)
DECAY = 0.2  # of a run under `wsd`, at its end
FLOOR = 0.0  # of the rate, where a schedule ends


def multiplier(progress: float, shape: str, warmup: float) -> float:
    """What the rate is multiplied with: up to 1 over `warmup`, then down as the shape says.

    linear and cosine fall all the way; constant does not; wsd (warm-up, stable, decay) stays at 1
    and falls in a line over the last fifth.
    """
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup:
        return progress / warmup
    rest = (progress - warmup) / (1 - warmup) if warmup < 1 else 1.0
    if shape == "constant":
        return 1.0
    if shape == "linear":
        return FLOOR + (1 - FLOOR) * (1 - rest)
    if shape == "cosine":
        return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * rest)) / 2
    return FLOOR + (1 - FLOOR) * min(1.0, (1 - progress) / DECAY)


def require_shape(shape: str) -> None:
    """Refuse what is no schedule."""
    if shape not in SHAPES:
        raise WorkbenchError(f"there is no schedule {shape!r}.", remedy=did_you_mean(shape, SHAPES))


def progress_at(step: int, elapsed: float, steps: int | None, seconds: float | None) -> float:
    """How far a step is into the run; steps count from 0 and are taken in their middle."""
    if steps is not None:
        return (step + 0.5) / steps
    assert seconds is not None, "a plan has steps or seconds"
    return elapsed / seconds


def is_over(step: int, elapsed: float, steps: int | None, seconds: float | None) -> bool:
    """Whether no further step is to be made."""
    if steps is not None:
        return step >= steps
    assert seconds is not None, "a plan has steps or seconds"
    return elapsed >= seconds
