"""The task of a training (objective, micro-batches, losses) and its plan (steps, learning rate).

`batches` makes a `Task` from a token store and an objective. The loop in `trainer` gets from it the
micro-batches by index, and the losses of a model on one. Costs: nothing.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args

import torch
from torch import Generator, Tensor, nn

from workbench.analyses.training.curves import Work
from workbench.analyses.training.vocabulary import Vocabulary
from workbench.core.errors import WorkbenchError, require_one_of
from workbench.engine.batch import sent
from workbench.models.bilm import Words


class Micro(NamedTuple):
    """A micro-batch: the sequences of one forward pass."""

    inputs: Mapping[str, Tensor]
    counts: Tensor  # [terms], targets of each term of the loss
    tokens: int  # tokens read, without padding

    def to(self, device: torch.device) -> "Micro":
        """The micro-batch on a device; copies are asynchronous."""
        return self._replace(
            inputs={name: sent(tensor, device) for name, tensor in self.inputs.items()}
        )


Losses = Callable[[nn.Module, Mapping[str, Tensor]], Tensor]  # sums in nats, [terms]
Corruption = Callable[..., dict[str, Tensor]]  # from tokens to inputs and labels
Architecture = Literal["decoder", "encoder", "encoder-decoder", "vectors"]


@dataclass(frozen=True)
class Objective:
    """What models that read pieces are trained for.

    Args:
        corrupt: Makes a batch of the tokens of texts; see `objectives`.
        architecture: Of the models that it trains.
        shared: Whether it trains every family of the architecture that takes `others`. If not, only
            families of which it is the default objective.
        next_token: Whether a label is predicted at the token before it.
        losses: Given the vocabulary, the losses of a model on a micro-batch. None: of its targets.
        terms: The names of these losses.
        weights: Of these losses.
        complete: Given the inputs and labels of a micro-batch, adds what the losses need, and
            returns the number of targets of each term after the first.
        mapped: Number of terms, from the first, with logits over the vocabulary.
        scored: Corrupts held-out text, if `corrupt` does not.
    """

    corrupt: Corruption
    architecture: Architecture
    shared: bool = False
    next_token: bool = False
    losses: Callable[[Vocabulary], Losses] | None = None
    terms: tuple[str, ...] = ("loss",)
    weights: tuple[float, ...] = (1.0,)
    complete: Callable[[dict[str, Tensor], Tensor], Sequence[int]] = lambda inputs, labels: ()
    mapped: int = 1
    scored: Corruption | None = None


@dataclass(frozen=True)
class WordObjective:
    """What static vectors are trained for.

    Args:
        draw: From tokens [batch, length], the draws that depend on the words, and a generator, the
            inputs of the losses. The first dimension of each is one target.
        losses: Of the vectors on these inputs.
        outputs: The number of output vectors for these words.
        fitted: The vectors without steps, from all tokens, the words and the width.
    """

    draw: Callable[[Tensor, Any, Generator], Mapping[str, Tensor]] | None = None
    losses: Losses | None = None
    outputs: Callable[[Words], int] = lambda words: len(words.words)
    fitted: Callable[[Iterable[Tensor], Words, int], Tensor] | None = None


def has(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function has a parameter of this name."""
    return parameter in inspect.signature(function).parameters


@dataclass(frozen=True)
class Task:
    """Micro-batches by step and index, and the losses of a model on one."""

    draw: Callable[[int, int], Micro]
    losses: Losses
    terms: tuple[str, ...] = ("loss",)
    weights: tuple[float, ...] = (1.0,)
    held_out: Callable[[], Sequence[Micro]] | None = None  # the same at every call
    work: Work | None = None  # arithmetic per token
    length: int = 0  # of a sequence
    mapped: int = 1  # number of terms, from the first, with logits over the vocabulary


class Progress(Protocol):
    """How a training reports its progress."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        """Report that `done` of `total` units are done."""
        ...

    def log(self, text: str) -> None:
        """Add a line to the log."""
        ...

    def warn(self, text: str) -> None:
        """Show the user a warning."""
        ...


@dataclass(frozen=True)
class Part:
    """The progress of one of several trainings, as a part of that of all."""

    whole: Progress
    before: int  # units of the trainings before it
    total: int  # units of all
    doing: str = ""  # in place of what the training says that it does
    logs: bool = True  # whether its lines go to the log

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        self.whole(self.before + done, self.total, self.doing or doing)

    def log(self, text: str) -> None:
        if self.logs:
            self.whole.log(text)

    def warn(self, text: str) -> None:
        self.whole.warn(text)


class Quiet:
    """Progress that is not reported."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        pass

    def log(self, text: str) -> None:
        pass

    def warn(self, text: str) -> None:
        pass


@dataclass(frozen=True)
class Plan:
    """Length, batch size, learning rate and schedule of a training; it ends by steps or seconds.

    A step has `batch_size` sequences, a forward pass `micro_batch_size` of them; if that is 0 or
    larger than a process' part of the batch, the whole part is one forward pass. Field names are
    part of `training.json` and of the key of a training.
    """

    steps: int | None = 1000
    seconds: float | None = None
    batch_size: int = 32
    micro_batch_size: int = 0
    learning_rate: float = 1e-3
    schedule: str = "linear"
    warmup_fraction: float = 0.05  # of the training
    weight_decay: float = 0.01  # not for biases and norms
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    max_gradient_norm: float = 1.0  # 0 for no limit
    seed: int = 0
    evaluations: int = 10  # number of evaluations on the held-out text
    points: int = 200  # number of points of the curves
    checkpoint_seconds: float = 60.0
    checkpoint_steps: int = 0  # also a checkpoint every so many steps; 0: by time only

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.seconds is None):
            raise WorkbenchError(
                "a training needs either steps or a time budget.",
                code="setting-invalid",
                remedy="Set exactly one of steps and seconds.",
            )
        require_schedule(self.schedule)
        positive = {"steps": self.steps, "seconds": self.seconds, "batch_size": self.batch_size}
        positive |= {"learning_rate": self.learning_rate}
        for name, value in positive.items():
            if value is not None and not value > 0:
                raise WorkbenchError(
                    f"{name} is {value}; it must be above 0.",
                    code="setting-invalid",
                    remedy=f"Set {name} to a number above 0.",
                )
        for name in (
            "warmup_fraction",
            "weight_decay",
            "max_gradient_norm",
            "micro_batch_size",
            "checkpoint_steps",
        ):
            if not getattr(self, name) >= 0:
                raise WorkbenchError(
                    f"{name} is {getattr(self, name)}; it must be at least 0.",
                    code="setting-invalid",
                    remedy=f"Set {name} to 0 or more.",
                )
        if self.warmup_fraction >= 1:
            raise WorkbenchError(
                f"warmup_fraction is {self.warmup_fraction}; it must be below 1.",
                code="setting-invalid",
                remedy="Set the warm-up to a fraction of the training, such as 0.05.",
            )

    def micros(self, world: int) -> int:
        """Number of micro-batches per step, over all processes."""
        if self.batch_size % world:
            raise WorkbenchError(
                f"a batch of {self.batch_size} sequences cannot be divided among {world} "
                "processes.",
                code="setting-invalid",
                remedy=f"Set batch_size to a multiple of {world}.",
            )
        if not self.micro_batch_size or self.micro_batch_size >= self.batch_size // world:
            return world
        if self.batch_size % (self.micro_batch_size * world):
            raise WorkbenchError(
                f"a batch of {self.batch_size} sequences is not a multiple of {world} processes x "
                f"{self.micro_batch_size} sequences.",
                code="setting-invalid",
                remedy="Set batch_size to a multiple of micro_batch_size times the processes.",
            )
        return self.batch_size // self.micro_batch_size


# --- schedule: when training ends, and the learning rate until then -------------------------------
#
# Training ends after a number of steps or a time budget. Every schedule is a function of the
# progress, a fraction from 0 to 1, so a training of five minutes ends with the lowest learning rate
# on a slow machine too. Costs: nothing.

Shape = Literal["linear", "cosine", "constant", "wsd"]
SHAPES: tuple[str, ...] = get_args(Shape)
DECAY = 0.2  # fraction at the end of the training with decay, for `wsd`
FLOOR = 0.0  # of the learning rate, at the end of a schedule


def multiplier(progress: float, shape: str, warmup: float) -> float:
    """The factor of the learning rate: it rises to 1 during `warmup`, then follows the schedule.

    linear and cosine fall to 0; constant stays at 1; wsd (warm-up, stable, decay) stays at 1 and
    falls linearly over the last fifth.
    """
    progress = min(max(progress, 0.0), 1.0)
    if progress < warmup:
        return progress / warmup
    after_warmup = (progress - warmup) / (1 - warmup) if warmup < 1 else 1.0
    if shape == "constant":
        return 1.0
    if shape == "linear":
        return FLOOR + (1 - FLOOR) * (1 - after_warmup)
    if shape == "cosine":
        return FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * after_warmup)) / 2
    return FLOOR + (1 - FLOOR) * min(1.0, (1 - progress) / DECAY)


def require_schedule(shape: str) -> None:
    """Raise an error for an unknown schedule."""
    require_one_of(shape, SHAPES, f"{shape!r} is not a schedule.", code="setting-invalid")


def progress_at(step: int, elapsed: float, steps: int | None, seconds: float | None) -> float:
    """The progress of a step, at its middle; steps count from 0."""
    if steps is not None:
        return (step + 0.5) / steps
    assert seconds is not None, "a plan has steps or seconds"
    return elapsed / seconds


def is_over(step: int, elapsed: float, steps: int | None, seconds: float | None) -> bool:
    """Whether the training has ended."""
    if steps is not None:
        return step >= steps
    assert seconds is not None, "a plan has steps or seconds"
    return elapsed >= seconds
