"""Learning a task: epochs over its texts until dev gains no more, or a linear head to its optimum.

`learn` is AdamW with a learning rate that warms up and then falls linearly to zero, and gradients
clipped to norm 1; the weights of the epoch that dev scored best are kept. A learning rate at which
the loss is no longer a number ends that attempt, and what was best before stands. `fit_linear`
trains a linear head over a frozen model by L-BFGS on all texts at once, for each ridge strength
until the gradient vanishes, strongest first, each from the one before; nothing in it is random.
Costs a forward and a backward pass a text and epoch, and a copy of what learns; `fit_linear` some
30 to 100 passes of the head alone for a ridge strength.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from workbench.engine.halving import Limit, Part, Places, averaged, in_halves
from workbench.transfer.examples import Examples, metrics_of
from workbench.transfer.heads import Head, side_by_side
from workbench.transfer.sources import Read, Source
from workbench.transfer.tasks import Gold, Task
from workbench.transfer.ways import Fitting


class Above(Protocol):
    """What stands above a body and answers: a head, or a decoder that writes."""

    mix: Any

    def __call__(self, read: Any) -> Any: ...

    def loss(self, found: Any, gold: Sequence[Gold], read: Any) -> Tensor: ...

    def targets(self, gold: Sequence[Gold], read: Any) -> int: ...

    def guesses(self, found: Any, read: Any, lengths: Sequence[int]) -> list[Any]: ...

    def parameters(self) -> Iterator[Any]: ...

    def train(self, mode: bool = True) -> Any: ...

    def eval(self) -> Any: ...


CLIP = 1.0  # largest norm of a step's gradient
WARM = 0.1  # of the steps
ALIKE = 8  # batches whose texts are sorted by length together
SCORED = 128  # texts at once, where nothing is learnt
PASSES = 300  # of L-BFGS over train, at most, for a ridge strength
FLAT, STILL = 1e-4, 1e-5  # largest gradient, and change of the loss, at an optimum
HISTORY = 10  # of L-BFGS
HELD = 2**30  # bytes of states of all layers that are held padded in memory meanwhile
WORSE = 2  # ridge strengths in a row that dev likes less, then weaker ones are not tried


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
    converged: bool = False  # not cut off: dev was best before the last epoch, or at an optimum


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
    found, best, since, room = Learnt(), _copies(moving), 0, Limit()
    devices = [made.body.model.device] if made.body.model.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(plan.seed)
        for epoch in range(1, plan.epochs + 1):
            head.train()
            made.body.train(bool(made.groups))
            for texts in _batches(train[0].lengths, plan, epoch):
                loss = _step(head, made, train, texts, optimiser, moving, room)
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
    found.converged = 0 < found.epoch < plan.epochs or found.score == 1.0
    head.eval()
    made.body.train(False)
    return found


def fit_linear(
    task: Task,
    head: Head,
    made: Fitting,
    train: tuple[Source, Examples],
    dev: tuple[Source, Examples],
    ridges: Sequence[float],
    told: Callable[[int, float], object] = lambda done, loss: None,
) -> Iterator[tuple[float, Learnt]]:
    """Fit the linear layers and the mix for each ridge strength; the head has the last one's.

    The objective is the mean loss plus strength / (2 · targets) · ‖weights‖², as scikit-learn's
    with C = 1 / strength; the scores of the mix are held small too, which otherwise drift without
    end where one layer is enough.
    """
    head.eval()
    layers = head.linear
    moving = [head.mix.scores, *(w for layer in layers for w in (layer.weight, layer.bias))]
    shrunk = [head.mix.scores, *(layer.weight for layer in layers)]  # the mix to the plain mean
    parts = _held(head, train)
    targets = sum(part.targets for part in parts)
    best, worse = -math.inf, 0
    for done, ridge in enumerate(sorted(set(ridges), reverse=True)):
        found = Learnt()
        optimiser = torch.optim.LBFGS(
            moving, max_iter=PASSES, max_eval=PASSES, tolerance_grad=FLAT, tolerance_change=STILL,
            history_size=HISTORY, line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure(ridge: float = ridge, found: Learnt = found) -> float:
            for weights in moving:
                weights.grad = None
            total = 0.0
            with torch.enable_grad():
                for part in parts:
                    read = part.read(head.mix)
                    loss = head.loss(head(read), part.gold, read) * (part.targets / targets)
                    loss.backward()  # type: ignore[no-untyped-call]
                    total += float(loss.detach())
                squares = [weights.square().sum() for weights in shrunk]
                penalty = ridge / (2 * targets) * torch.stack(squares).sum()
                penalty.backward()  # type: ignore[no-untyped-call]
            found.losses.append(total)
            return total + float(penalty.detach())

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        state = optimiser.state[moving[0]]
        found.epoch = int(state["func_evals"])
        found.converged = state["n_iter"] < PASSES and found.epoch < PASSES
        found.diverged = not math.isfinite(found.losses[-1])
        for weights in moving:
            weights.grad = None
        found.score = _score(task, head, made, dev)
        found.dev.append(found.score)
        told(done + 1, found.losses[-1])
        yield ridge, found
        worse = 0 if found.score >= best or math.isnan(found.score) else worse + 1
        best = max(best, found.score) if math.isfinite(found.score) else best
        if worse >= WORSE:
            break


@dataclass(frozen=True, eq=False)
class _Part:
    """Some texts of train, with every layer's states held in memory where there is room."""

    read: Callable[[Any], Read]  # of a mix
    gold: Sequence[Gold]
    targets: int


def _held(head: Head, train: tuple[Source, Examples]) -> list[_Part]:
    source, examples = train
    order = sorted(range(len(source)), key=lambda text: source.lengths[text])
    parts, held = [], 0
    for start in range(0, len(order), SCORED):
        texts = order[start : start + SCORED]
        gold = [examples.gold[text] for text in texts]
        read = source.read(texts, side_by_side)  # [texts, words, layers * width]
        held += read.words.numel() * read.words.element_size()
        if held <= HELD:
            states = read.words.split(head.mix.mean.shape[1], -1)

            def again(mix: Any, states: Any = states, read: Read = read) -> Read:
                return replace(read, words=mix(states) * read.there[..., None])
        else:

            def again(mix: Any, texts: Sequence[int] = texts) -> Read:  # type: ignore[misc]
                found: Read = source.read(texts, mix)
                return found

        parts.append(_Part(again, gold, head.targets(gold, read)))
    return [part for part in parts if part.targets]


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
    room = Limit()

    def guess(some: Places) -> list[Any]:
        read = source.read(some.places, head.mix)
        return head.guesses(head(read), read, [words[text] for text in some.places])

    with torch.no_grad():
        for start in range(0, len(order), SCORED):
            texts = order[start : start + SCORED]
            some = Places(texts, source.lengths[texts[-1]])
            for part, guesses in in_halves(guess, some, room):
                for text, own in zip(part.places, guesses, strict=True):
                    found[text] = own
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
    room: Limit,
) -> float:
    """The loss of these texts, and a step; where memory does not suffice, in parts."""
    source, examples = train

    def back(some: Places) -> Part:
        with torch.enable_grad():
            read = source.read(some.places, head.mix)
            gold = [examples.gold[text] for text in some.places]
            loss = head.loss(head(read), gold, read)
            slopes = torch.autograd.grad(loss, moving, allow_unused=True)
        number = 1 if len(some) == len(texts) else head.targets(gold, read)
        return loss.detach(), number, slopes

    optimiser.zero_grad(set_to_none=True)
    whole = Places(texts, max(source.lengths[text] for text in texts))
    parts = (found for _, found in in_halves(back, whole, room))
    value = float(averaged(parts, moving))
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
