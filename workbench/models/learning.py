"""A short fine-tuning: all weights, AdamW, a rate that falls to nothing; by any `Aim`.

For what has to be mended or fitted, not for training from nothing (`workbench.training`). Batches
are drawn anew each round from the seed; the weights may be frozen, so that gates alone learn.
Costs a forward and a backward pass a step.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from workbench.engine.batch import Batch
from workbench.engine.taps import Tap
from workbench.errors import WorkbenchError
from workbench.models.aims import Aim, Question
from workbench.models.huggingface import HuggingFace

TELL = 10  # steps
CLIP = 1.0  # length of a step's slopes, at most


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and with how many texts at a time."""

    steps: int
    rate: float = 1e-4
    texts: int = 32
    seed: int = 0
    warmup: float = 0.1  # of the steps


def learn(
    model: HuggingFace,
    aim: Aim,
    batch: Batch,
    documents: Sequence[int],
    plan: Plan,
    *,
    told: Callable[[int, float], object] | None = None,
    taps: Callable[[Question], Iterable[Tap]] | None = None,
    weights: Iterable[Tensor] | None = None,
    more: Sequence[dict[str, object]] = (),
    penalty: Callable[[], Tensor] | None = None,
) -> list[float]:
    """Fit the model to the documents; the loss of every step, in nats.

    `weights` are those that learn, all of the model's by itself; `more` are further groups with
    rates of their own, `penalty` is added to every loss, and `taps` hang on every pass.
    """
    if not documents:
        raise WorkbenchError("there is nothing to learn from.", where=model.name)
    own = list(model.net.parameters() if weights is None else weights)
    groups: list[dict[str, object]] = [{"params": own, "lr": plan.rate}] if own else []
    groups += more
    if not groups or plan.steps < 1:
        return []
    optimiser = torch.optim.AdamW(groups, weight_decay=0.0)
    warm = max(1, round(plan.warmup * plan.steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min((step + 1) / warm, (plan.steps - step) / max(1, plan.steps - warm)),
    )
    moving = [weight for group in groups for weight in group["params"]]  # type: ignore[attr-defined]
    still = [w for w in model.net.parameters() if not any(w is each for each in moving)]
    state = [(weight, weight.requires_grad) for weight in model.net.parameters()]
    losses: list[float] = []
    try:
        for weight in still:
            weight.requires_grad_(False)
        for weight in moving:
            weight.requires_grad_(True)
        with torch.enable_grad():
            for question in _batches(model, aim, batch, documents, plan):
                hung = () if taps is None else taps(question)
                answer = aim.answer(model, question, hung)
                loss = answer.nats.sum() / answer.number.sum().clamp(min=1)
                losses.append(float(loss.detach()))
                if not np.isfinite(losses[-1]):
                    raise WorkbenchError(
                        f"the loss is {losses[-1]} after {len(losses) - 1} steps.",
                        where=model.name,
                        remedy="Set a lower rate.",
                    )
                whole = loss if penalty is None else loss + penalty()
                optimiser.zero_grad(set_to_none=True)
                whole.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(moving, CLIP)
                optimiser.step()
                schedule.step()
                if told is not None and (len(losses) % TELL == 0 or len(losses) == plan.steps):
                    told(len(losses), losses[-1])
    finally:
        for weight, moved in state:
            weight.requires_grad_(moved)
            weight.grad = None
    return losses


def _batches(
    model: HuggingFace, aim: Aim, batch: Batch, documents: Sequence[int], plan: Plan
) -> Iterable[Question]:
    """As many as there are steps; each round in an order of its own, with other pieces hidden."""
    random = np.random.default_rng([plan.seed, 7])
    made, round_ = 0, 0
    while made < plan.steps:
        order = random.permutation(list(documents)).tolist()
        own = replace(aim, seed=plan.seed + 1000 * round_ + 1)
        round_ += 1
        before = made
        for start in range(0, len(order), plan.texts):
            some = order[start : start + plan.texts]
            for question in own.questions(model, batch, some, pieces=1 << 30):
                yield question
                made += 1
                if made == plan.steps:
                    return
        if made == before:
            raise WorkbenchError("no text has anything to learn from.", where=model.name)
