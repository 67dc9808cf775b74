"""The training loop: micro-batches to gradients, gradients to steps, until steps or time are over.

It knows nothing of text: a `Task` says what micro-batch m of step s is, and what a model loses on
it. A step's loss is its sum over all targets of all micro-batches and processes, divided by their
number, so that neither accumulation nor more devices change what is learnt. All that is random
follows from (seed, step, micro-batch): a run that was killed goes on as if it had not been. What a
step needs goes to a GPU from pinned memory, and losses stay there until they are looked at
together: this loop never waits for one (transformers does, where it looks into masks for padding).
Costs, beside the model's own arithmetic, 8 bytes a parameter for the optimiser, and a reading of
the clock and, with several processes, one sum of a few numbers a step.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from workbench.errors import WorkbenchError
from workbench.models.precision import autocast
from workbench.training.checkpoint import NAME, load_checkpoint, save_checkpoint
from workbench.training.curves import Row
from workbench.training.distributed import Place
from workbench.training.feed import feed, seed_of
from workbench.training.optimiser import adamw, clipped
from workbench.training.record import Record
from workbench.training.schedule import multiplier
from workbench.training.task import Micro, Plan, Progress, Task, sent


def fit(
    net: nn.Module,
    task: Task,
    plan: Plan,
    progress: Progress,
    *,
    place: Place,
    scratch: Path | None = None,
    recipe: str = "",
) -> list[Row]:
    """Train in place, and return the curves.

    `scratch` is where a checkpoint is kept; one that is there is gone on from, if the `recipe` is
    the same.
    """
    cuda = [place.device] if place.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        try:
            return _fit(net.to(place.device), task, plan, progress, place, scratch, recipe)
        except torch.OutOfMemoryError:
            raise WorkbenchError(
                f"{plan.batch // plan.micros(place.world)} sequences at once do not fit into "
                "memory.",
                remedy="Set at_once to fewer: the batch stays as it is, and takes a little longer.",
            ) from None


def _fit(
    net: nn.Module,
    task: Task,
    plan: Plan,
    progress: Progress,
    place: Place,
    scratch: Path | None,
    recipe: str,
) -> list[Row]:
    kept = scratch / NAME if scratch is not None else None
    optimizer = adamw(net, plan, place.device)
    record = Record(task, plan, progress, place, kept)
    if kept is not None:
        record.begin(load_checkpoint(kept, net, optimizer, recipe))
    learner = _learner(net, task, place)
    per_step = plan.micros(place.world)
    for micros in feed(task.draw, record.reached.step, per_step, place):
        counts, tokens, now = _agree(micros, place, record.clock())
        if record.is_over(now):
            break
        step, at = record.reached.step, record.progress_at(now)
        for group in optimizer.param_groups:
            group["lr"] = plan.rate * multiplier(at, plan.schedule, plan.warmup)
        loss = _step(learner, optimizer, micros, counts, task, plan, place, step)
        record.add(loss, counts, tokens, now)
        if record.evaluation_is_due:
            record.evaluated(_held_out(net, task, place))
        if kept is not None and record.keeping_is_due:
            record.check()
            if place.leads:
                save_checkpoint(kept, net, optimizer, record.reached, recipe)
            record.kept()
    record.finish()
    if record.lacks_evaluation:
        record.evaluated(_held_out(net, task, place))
    if kept is not None and place.leads:
        save_checkpoint(kept, net, optimizer, record.reached, recipe)
    return list(record.reached.rows)


class _Learner(nn.Module):
    """A model whose forward pass is its losses, which is where DDP puts its hooks."""

    def __init__(self, net: nn.Module, task: Task) -> None:
        super().__init__()
        self.net, self.losses = net, task.losses

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return self.losses(self.net, inputs)


def _learner(net: nn.Module, task: Task, place: Place) -> nn.Module:
    learner = _Learner(net, task).train()
    if place.world < 2:
        return learner
    ids = [place.device] if place.device.type == "cuda" else None
    return DistributedDataParallel(learner, device_ids=ids, gradient_as_bucket_view=True)


def _agree(micros: list[Micro], place: Place, clock: float) -> tuple[Tensor, int, float]:
    """What all processes must know alike of a step: targets ([terms]), tokens, and the time."""
    counts = torch.stack([micro.counts for micro in micros]).sum(0).double()
    tokens = sum(micro.tokens for micro in micros)
    own = torch.tensor([tokens, clock if place.leads else 0.0], dtype=torch.float64)
    summed = place.total(torch.cat([counts, own]))
    return summed[:-2], int(summed[-2]), float(summed[-1])


def _step(
    learner: nn.Module,
    optimizer: Optimizer,
    micros: list[Micro],
    counts: Tensor,
    task: Task,
    plan: Plan,
    place: Place,
    step: int,
) -> Tensor:
    """One step of the optimiser: the loss (this process' part) and the gradient's norm.  # [2]"""
    weights = torch.tensor(task.weights) / counts.clamp(min=1)
    scale = sent(weights.float(), place.device)  # [terms]
    total = torch.zeros((), device=place.device)
    for number, micro in enumerate(micros):
        torch.manual_seed(seed_of(plan.seed, step, place.rank + number * place.world))
        with _alone(learner, number < len(micros) - 1):
            with autocast(place.device):
                sums = learner(micro.inputs)  # [terms]
            loss = (sums.float() * scale).sum()
            (loss * place.world).backward()  # DDP takes the mean over processes
        total += loss.detach()
    norm = clipped(learner, plan.clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return torch.stack([total, norm])


def _alone(learner: nn.Module, alone: bool) -> AbstractContextManager[Any]:
    """Whether gradients wait for more before they travel."""
    if alone and isinstance(learner, DistributedDataParallel):
        return learner.no_sync()
    return nullcontext()


def _held_out(net: nn.Module, task: Task, place: Place) -> float:
    """The loss of the held-out text, each term by its own targets."""
    assert task.held_out is not None, "asked only where there is held-out text"
    sums = torch.zeros(len(task.terms), dtype=torch.float64, device=place.device)
    counts = torch.zeros(len(task.terms), dtype=torch.float64)
    net.eval()
    with torch.no_grad(), autocast(place.device):
        for micro in task.held_out()[place.rank :: place.world]:
            sums += task.losses(net, micro.to(place.device).inputs).double()
            counts += micro.counts.double()
    net.train()
    sums, counts = place.total(torch.stack([sums.cpu(), counts]))  # the one reading of a GPU
    return float((sums / counts.clamp(min=1) * torch.tensor(task.weights)).sum())
