"""Learning a task: epochs over its texts, until dev gains no more; what dev liked best is kept.

AdamW, a rate that warms up and then falls to nothing, gradients no longer than one. A rate at which
the loss is no number any more ends that attempt, and what was best before stands. Costs a forward
and a backward pass a text and epoch; a copy of what learns.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from workbench.transfer.examples import Examples, metrics_of
from workbench.transfer.sources import Source
from workbench.transfer.tasks import Gold, Task
from workbench.transfer.ways import Fitting


class Above(Protocol):
    """What stands above a body and answers: a head, or a decoder that writes."""

    mix: Any

    def __call__(self, read: Any) -> Any: ...

    def loss(self, found: Any, gold: Sequence[Gold], read: Any) -> Tensor: ...

    def guesses(self, found: Any, read: Any, lengths: Sequence[int]) -> list[Any]: ...

    def parameters(self) -> Iterator[Any]: ...

    def train(self, mode: bool = True) -> Any: ...

    def eval(self) -> Any: ...


CLIP = 1.0  # length of a step's slopes, at most
WARM = 0.1  # of the steps
ALIKE = 8  # batches whose texts are sorted by length together
SCORED = 128  # texts at once, where nothing is learnt


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and with how many texts at a time."""

    rate: float
    epochs: int
    texts: int
    patience: int
    seed: int


@dataclass
class Learnt:
    """What came of an attempt; the weights are left as dev liked them best."""

    score: float = math.nan  # on dev; NaN where nothing was learnt
    epoch: int = 0
    losses: list[float] = field(default_factory=list)  # of each step
    dev: list[float] = field(default_factory=list)  # of each epoch
    diverged: bool = False


def learn(
    task: Task,
    head: Above,
    made: Fitting,
    train: tuple[Source, Examples],
    dev: tuple[Source, Examples],
    plan: Plan,
    told: Callable[[int, int, float], object] = lambda step, steps, loss: None,
) -> Learnt:
    """Fit head and body; the same seed gives the same weights."""
    steps = steps_of(len(train[0]), plan)
    optimiser, schedule = _optimiser(head, made, plan, steps)
    moving = [weights for group in optimiser.param_groups for weights in group["params"]]
    found, best, since = Learnt(), _copies(moving), 0
    devices = [made.body.model.device] if made.body.model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(plan.seed)
        for epoch in range(1, plan.epochs + 1):
            head.train()
            made.body.train(bool(made.groups))
            for texts in _batches(train[0].lengths, plan, epoch):
                loss = _step(head, made, train, texts, optimiser, moving)
                found.losses.append(loss)
                if not math.isfinite(loss):
                    found.diverged = True
                    break
                schedule.step()
                told(len(found.losses), steps, loss)
            if found.diverged:
                break
            score = _score(task, head, made, dev)
            found.dev.append(score)
            if not found.score >= score and math.isfinite(score):
                found.score, found.epoch, since = score, epoch, 0
                best = _copies(moving)
            else:
                since += 1
            if since >= plan.patience or score == 1.0:  # no score is higher
                break
    with torch.no_grad():
        for weights, kept in zip(moving, best, strict=True):
            weights.copy_(kept)
            weights.grad = None
    head.eval()
    made.body.train(False)
    return found


def steps_of(texts: int, plan: Plan) -> int:
    """Steps of an attempt that is never stopped early."""
    return plan.epochs * math.ceil(texts / plan.texts)


def guessed(head: Above, made: Fitting, source: Source, examples: Examples) -> list[Any]:
    """What is thought of every text, in the order of the corpus."""
    found: list[Any] = [None] * len(source)
    words = np.diff(examples.batch.word_offsets).tolist()
    order = sorted(range(len(source)), key=lambda text: source.lengths[text])
    head.eval()
    made.body.train(False)
    with torch.no_grad():
        for start in range(0, len(order), SCORED):
            texts = order[start : start + SCORED]
            read = source.read(texts, head.mix)
            guesses = head.guesses(head(read), read, [words[text] for text in texts])
            for text, guess in zip(texts, guesses, strict=True):
                found[text] = guess
    return found


def _score(task: Task, head: Above, made: Fitting, dev: tuple[Source, Examples]) -> float:
    """Of what decides; more is better."""
    return task.sign * metrics_of(task, dev[1], guessed(head, made, *dev))[task.metric].value()


def _step(
    head: Above,
    made: Fitting,
    train: tuple[Source, Examples],
    texts: Sequence[int],
    optimiser: torch.optim.Optimizer,
    moving: Sequence[Tensor],
) -> float:
    source, examples = train
    with torch.enable_grad():
        read = source.read(texts, head.mix)
        loss = head.loss(head(read), [examples.gold[text] for text in texts], read)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
    value = float(loss.detach())
    if math.isfinite(value):
        torch.nn.utils.clip_grad_norm_(moving, CLIP)
        optimiser.step()
    return value


def _optimiser(
    head: Above, made: Fitting, plan: Plan, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """The head's weights learn from the first step on; a group of the body's from its own."""
    groups: list[dict[str, Any]] = []
    begins = []
    if own := list(head.parameters()):
        groups.append({"params": own, "lr": plan.rate})
        begins.append(0.0)
    for group in made.groups:
        groups.append({"params": list(group.weights), "lr": plan.rate * group.rate})
        begins.append(group.begins)
    optimiser = torch.optim.AdamW(groups, weight_decay=0.0, fused=True)

    def curve(begin: float) -> Callable[[int], float]:
        first = round(begin * steps)
        warm = max(1, round(WARM * steps))

        def factor(step: int) -> float:
            if step < first:
                return 0.0
            return min((step - first + 1) / warm, (steps - step) / max(1, steps - warm), 1.0)

        return factor

    curves = [curve(begin) for begin in begins]
    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, curves)


def _batches(lengths: Sequence[int], plan: Plan, epoch: int) -> Iterator[list[int]]:
    """Every text once, in an order of the epoch's own, with others of about its length."""
    random = np.random.default_rng([plan.seed, epoch])
    order = random.permutation(len(lengths)).tolist()
    size = plan.texts * ALIKE
    batches = []
    for start in range(0, len(order), size):
        some = sorted(order[start : start + size], key=lambda text: lengths[text])
        batches += [some[at : at + plan.texts] for at in range(0, len(some), plan.texts)]
    for number in random.permutation(len(batches)):
        yield batches[number]


def _copies(weights: Sequence[Tensor]) -> list[Tensor]:
    return [each.detach().clone() for each in weights]
