"""A short fine-tuning with AdamW, by the loss of any `Aim`: all weights, or gates alone.

For a model that is to be fitted or mended, not for training from the start (`workbench.training`).
With dev texts, the learning rate stays after its warm-up, learning stops where the dev loss has not
fallen by a thousandth of its first value over `PATIENCE` checks, and the weights are those of the
best check: only then is `converged` true. (Where classes are separable the loss falls for ever.)
Without, every step is taken and the rate falls to zero. No weight decay: early stopping is what
regularises. Batches are shuffled each epoch by the seed. Weights in half precision learn as copies
in float32: a step is often smaller than the distance between two bf16 numbers, and would be lost.
Texts of a step that do not fit into memory are learnt from in parts. Costs a forward and a backward
pass a step, a forward pass over the dev texts every `CHECK` steps, and a copy of the weights.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from workbench.engine.batch import Batch
from workbench.engine.halving import Limit, Part, averaged, in_halves
from workbench.engine.taps import Tap
from workbench.errors import WorkbenchError
from workbench.models.aims import Aim, Question
from workbench.models.huggingface import HuggingFace

CHECK = 10  # steps between two checks on dev, or two reports of progress
PATIENCE = 5  # checks on dev without a gain
GAIN = 1e-3  # of the first dev loss
WARM_UP = 20  # steps, at most a tenth of all
CLIP = 1.0  # maximum norm of a step's gradient


@dataclass(frozen=True)
class Plan:
    """How many steps at most, how fast, and with how many texts at a time."""

    steps: int
    rate: float = 1e-4
    texts: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Learnt:
    """How a fine-tuning went."""

    losses: list[float]  # of each step, in nats
    dev: dict[int, float] = field(default_factory=dict)  # loss by number of steps taken
    converged: bool = False  # stopped by dev before the steps ran out

    @property
    def best(self) -> int:
        """The number of steps after which the weights were taken."""
        return min(self.dev, key=self.dev.__getitem__) if self.dev else len(self.losses)


def learn(
    model: HuggingFace,
    aim: Aim,
    batch: Batch,
    documents: Sequence[int],
    plan: Plan,
    *,
    dev: Sequence[Question] = (),
    told: Callable[[int, float], object] | None = None,
    taps: Callable[[Question], Iterable[Tap]] | None = None,
    weights: Iterable[Tensor] | None = None,
    more: Sequence[dict[str, object]] = (),
    penalty: Callable[[], Tensor] | None = None,
) -> Learnt:
    """Fit the model to the documents, in place.

    `dev` are questions that tell when to stop. `weights` are those that learn (default: all of the
    model's); `more` are further parameter groups with learning rates of their own, `penalty` is
    added to every loss, and `taps` hang on every pass.
    """
    if not documents:
        raise WorkbenchError(
            "there is nothing to learn from.",
            where=model.name,
            remedy="Use a corpus, a split or a limit that leaves at least one text.",
        )
    own = list(model.net.parameters() if weights is None else weights)
    groups: list[dict[str, object]] = [{"params": own, "lr": plan.rate}] if own else []
    groups += more
    if not groups or plan.steps < 1:
        return Learnt([])
    moving = [weight for group in groups for weight in group["params"]]  # type: ignore[attr-defined]
    wide: list[Tensor] = [w if w.dtype.itemsize >= 4 else w.detach().float() for w in moving]
    of = dict(zip(map(id, moving), wide, strict=True))
    groups = [{**g, "params": [of[id(w)] for w in g["params"]]} for g in groups]  # type: ignore[attr-defined]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
    warm = max(1, min(WARM_UP, round(0.1 * plan.steps)))

    def rate(step: int) -> float:
        falling = 1.0 if dev else (plan.steps - step) / max(1, plan.steps - warm)
        return min((step + 1) / warm, falling)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    still = [w for w in model.net.parameters() if not any(w is each for each in moving)]
    state = [(weight, weight.requires_grad) for weight in model.net.parameters()]
    losses: list[float] = []
    checks = {0: loss_of(model, aim, dev)} if dev else {}
    best = [weight.detach().clone() for weight in moving] if dev else []
    waited, converged, reference, room = 0, False, checks.get(0, 0.0), Limit()
    try:
        for weight in still:
            weight.requires_grad_(False)
        for weight in moving:
            weight.requires_grad_(True)
        with torch.enable_grad():
            for question in _batches(model, aim, batch, documents, plan):
                optimiser.zero_grad(set_to_none=True)
                losses.append(_slopes(model, aim, question, moving, taps, room))
                if not np.isfinite(losses[-1]):
                    raise WorkbenchError(
                        f"the loss is {losses[-1]} after {len(losses) - 1} steps.",
                        where=model.name,
                        remedy="Set a lower rate.",
                    )
                if penalty is not None:
                    penalty().backward()  # type: ignore[no-untyped-call]
                _hand_on_gradients(moving, wide)
                torch.nn.utils.clip_grad_norm_(wide, CLIP)
                optimiser.step()
                _hand_back_values(moving, wide)
                schedule.step()
                if len(losses) % CHECK and len(losses) != plan.steps:
                    continue
                if told is not None:
                    told(len(losses), losses[-1])
                if not dev:
                    continue
                found, least = loss_of(model, aim, dev), min(checks.values())
                checks[len(losses)] = found
                waited += 1
                if found < reference - GAIN * checks[0]:
                    waited, reference = 0, found
                if found < least:
                    best = [weight.detach().clone() for weight in moving]
                if waited == PATIENCE:
                    converged = True
                    break
        with torch.no_grad():
            for weight, value in zip(moving, best, strict=False):  # none without dev
                weight.copy_(value)
    finally:
        for weight, moved in state:
            weight.requires_grad_(moved)
            weight.grad = None
    return Learnt(losses, checks, converged)


def _slopes(
    model: HuggingFace,
    aim: Aim,
    question: Question,
    moving: Sequence[Tensor],
    taps: Callable[[Question], Iterable[Tap]] | None,
    room: Limit,
) -> float:
    """The mean loss of a step's texts, whose gradient is left in the weights.

    Where memory does not suffice for all of them at once, gradients of parts add up to the same.
    """

    def back(part: Question) -> Part:
        answer = aim.answer(model, part, () if taps is None else taps(part))
        number = answer.number.sum()
        loss = answer.nats.sum() / number.clamp(min=1)
        slopes = torch.autograd.grad(loss, moving, allow_unused=True)
        return loss.detach(), number, slopes

    return float(averaged((found for _, found in in_halves(back, question, room)), moving))


def _hand_on_gradients(weights: Sequence[Tensor], wide: Sequence[Tensor]) -> None:
    """Give the float32 copies the gradients of their weights."""
    for weight, copy in zip(weights, wide, strict=True):
        if copy is not weight:
            copy.grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None


def _hand_back_values(weights: Sequence[Tensor], wide: Sequence[Tensor]) -> None:
    """Round what the copies learnt to their weights."""
    with torch.no_grad():
        for weight, copy in zip(weights, wide, strict=True):
            if copy is not weight:
                weight.copy_(copy)


def loss_of(model: HuggingFace, aim: Aim, questions: Iterable[Question]) -> float:
    """Mean loss of the questions, in nats a piece or text."""
    nats, number, room = 0.0, 0.0, Limit()

    @torch.no_grad()
    def ask(question: Question) -> list[float]:
        answer = aim.answer(model, question)
        both: list[float] = torch.stack([answer.nats.double().sum(), answer.number.sum()]).tolist()
        return both

    for question in questions:
        for _, (own, asked) in in_halves(ask, question, room):
            nats, number = nats + own, number + asked
    return nats / max(number, 1.0)


def _batches(
    model: HuggingFace, aim: Aim, batch: Batch, documents: Sequence[int], plan: Plan
) -> Iterable[Question]:
    """As many as there are steps; each epoch is shuffled, with other pieces hidden."""
    random = np.random.default_rng([plan.seed, 7])
    made, epoch = 0, 0
    while made < plan.steps:
        order = random.permutation(list(documents)).tolist()
        own = replace(aim, seed=plan.seed + 1000 * epoch + 1)
        epoch += 1
        before = made
        for start in range(0, len(order), plan.texts):
            some = order[start : start + plan.texts]
            for question in own.questions(model, batch, some, pieces=1 << 30):
                yield question
                made += 1
                if made == plan.steps:
                    return
        if made == before:
            raise WorkbenchError(
                "no text has anything to learn from.",
                where=model.name,
                remedy="Use longer texts: the model predicts pieces from others in the same text.",
            )
