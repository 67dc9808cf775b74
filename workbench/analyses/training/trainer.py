"""The training loop: gradients of micro-batches and optimiser steps, until steps or time are over.

The loop does not know about text: a `Task` gives micro-batch m of step s, and the losses of a model
on it. The loss of a step is the sum over all targets of all micro-batches and processes, divided by
their number, so gradient accumulation and more devices do not change the result. All random numbers
depend on (seed, step, micro-batch), so a killed run continues as if it had not stopped. Batches go
to a GPU from pinned memory, and losses stay on the GPU until they are read together, so this loop
never waits for a loss (transformers does, when it checks masks for padding).
Costs: in addition to the model's arithmetic, 8 bytes per parameter for the optimiser, and per step
one reading of the clock and, with several processes, one sum of a few numbers.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW, Optimizer

from workbench.analyses.training.curves import LossHistory, Row, peak, utilisation
from workbench.analyses.training.distributed import Process
from workbench.analyses.training.task import (
    Micro,
    Plan,
    Progress,
    Task,
    is_over,
    multiplier,
    progress_at,
)
from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, parse_json, reason_of, require_regular
from workbench.engine.batch import sent
from workbench.models.output_heads.lm_heads import autocast


def fit(
    net: nn.Module,
    task: Task,
    plan: Plan,
    progress: Progress,
    *,
    process: Process,
    scratch: Path | None = None,
    recipe: str = "",
) -> list[Row]:
    """Train the model in place and return the curves.

    `scratch` is the folder of the checkpoint; training continues from a checkpoint there if its
    `recipe` is the same.
    """
    cuda = [process.device] if process.device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        try:
            return _fit(net.to(process.device), task, plan, progress, process, scratch, recipe)
        except torch.OutOfMemoryError:
            raise WorkbenchError(
                f"{plan.batch_size // plan.micros(process.world)} sequences per forward pass do "
                "not fit into memory.",
                code="out-of-memory",
                remedy="Set micro_batch_size to a smaller number; the batch size does not change.",
            ) from None


def _fit(
    net: nn.Module,
    task: Task,
    plan: Plan,
    progress: Progress,
    process: Process,
    scratch: Path | None,
    recipe: str,
) -> list[Row]:
    checkpoint = scratch / NAME if scratch is not None else None
    optimizer = adamw(net, plan, process.device)
    record = Record(task, plan, progress, process, checkpoint)
    if checkpoint is not None:
        record.start(load_checkpoint(checkpoint, net, optimizer, recipe))
    learner = _learner(net, task, process)
    per_step = plan.micros(process.world)
    for micros in feed(task.draw, record.state.step, per_step, process):
        counts, tokens, elapsed = _agree(micros, process, record.clock())
        if record.is_over(elapsed):
            break
        step, fraction = record.state.step, record.progress_at(elapsed)
        for group in optimizer.param_groups:
            group["lr"] = plan.learning_rate * multiplier(
                fraction, plan.schedule, plan.warmup_fraction
            )
        loss = _step(learner, optimizer, micros, counts, task, plan, process, step)
        record.add(loss, counts, tokens, elapsed)
        if record.evaluation_is_due:
            record.add_evaluation(_held_out_loss(net, task, process))
        if checkpoint is not None and record.checkpoint_is_due:
            record.read_losses()
            if process.leads:
                save_checkpoint(checkpoint, net, optimizer, record.state, recipe)
            record.checkpoint_written()
    record.finish()
    if record.lacks_evaluation:
        record.add_evaluation(_held_out_loss(net, task, process))
    if checkpoint is not None and process.leads:
        save_checkpoint(checkpoint, net, optimizer, record.state, recipe)
    return list(record.state.rows)


class _Learner(nn.Module):
    """A module whose forward pass returns the losses, as DDP puts its hooks on the forward pass."""

    def __init__(self, net: nn.Module, task: Task) -> None:
        super().__init__()
        self.net, self.losses = net, task.losses

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return self.losses(self.net, inputs)


def _learner(net: nn.Module, task: Task, process: Process) -> nn.Module:
    learner = _Learner(net, task).train()
    if process.world < 2:
        return learner
    ids = [process.device] if process.device.type == "cuda" else None
    return DistributedDataParallel(learner, device_ids=ids, gradient_as_bucket_view=True)


def _agree(micros: list[Micro], process: Process, clock: float) -> tuple[Tensor, int, float]:
    """The totals of a step over all processes: targets ([terms]), tokens, and the leader's time."""
    counts = torch.stack([micro.counts for micro in micros]).sum(0).double()
    tokens = sum(micro.tokens for micro in micros)
    local = torch.tensor([tokens, clock if process.leads else 0.0], dtype=torch.float64)
    summed = process.total(torch.cat([counts, local]))
    return summed[:-2], int(summed[-2]), float(summed[-1])


def _step(
    learner: nn.Module,
    optimizer: Optimizer,
    micros: list[Micro],
    counts: Tensor,
    task: Task,
    plan: Plan,
    process: Process,
    step: int,
) -> Tensor:
    """One optimiser step: this process' part of the loss, and the gradient norm.  # [2]"""
    weights = torch.tensor(task.weights) / counts.clamp(min=1)
    scale = sent(weights.float(), process.device)  # [terms]
    total = torch.zeros((), device=process.device)
    for index, micro in enumerate(micros):
        torch.manual_seed(seed_of(plan.seed, step, process.rank + index * process.world))
        with _without_sync(learner, index < len(micros) - 1):
            with autocast(process.device):
                sums = learner(micro.inputs)  # [terms]
            loss = (sums.float() * scale).sum()
            (loss * process.world).backward()  # DDP takes the mean over processes
        total += loss.detach()
    norm = clip_gradient(learner, plan.max_gradient_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return torch.stack([total, norm])


def _without_sync(learner: nn.Module, local: bool) -> AbstractContextManager[Any]:
    """A context in which DDP does not exchange gradients, if `local`."""
    if local and isinstance(learner, DistributedDataParallel):
        return learner.no_sync()
    return nullcontext()


def _held_out_loss(net: nn.Module, task: Task, process: Process) -> float:
    """The loss on the held-out text, each term averaged over its own targets."""
    assert task.held_out is not None, "called only with held-out text"
    sums = torch.zeros(len(task.terms), dtype=torch.float64, device=process.device)
    counts = torch.zeros(len(task.terms), dtype=torch.float64)
    net.eval()
    with torch.no_grad(), autocast(process.device):
        for micro in task.held_out()[process.rank :: process.world]:
            sums += task.losses(net, micro.to(process.device).inputs).double()
            counts += micro.counts.double()
    net.train()
    sums, counts = process.total(torch.stack([sums.cpu(), counts]))  # the only read from a GPU
    return float((sums / counts.clamp(min=1) * torch.tensor(task.weights)).sum())


# --- checkpoints: the state of a training in one safetensors file ---------------------------------
#
# A checkpoint holds the weights, both moments and the step counts of the optimiser, and the
# progress. Random numbers have no state to save, as they depend on seed, step and micro-batch. The
# file is written next to the old one and replaces it in one rename, so a full disk or a kill leaves
# the old one. Costs: 12 bytes per parameter, twice while it is written.

NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class State:
    """The progress of a training; the position in the data depends on the step."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: LossHistory = field(default_factory=LossHistory)
    rows: tuple[Row, ...] = ()


def save_checkpoint(
    path: Path, net: nn.Module, optimizer: Optimizer, state: State, recipe: str
) -> None:
    """Write a checkpoint atomically."""
    tensors = dict(_tensors(net, optimizer))
    fields = asdict(state)
    fields["course"] = fields.pop("history")  # its name in the file since the first version
    metadata = {"recipe": recipe, "reached": json.dumps(fields)}
    with atomic_write(path) as draft:
        try:
            save_file(tensors, draft, metadata=metadata)
        except SafetensorError as error:  # its error for a full disk
            raise OSError(f"{error}") from None


def load_checkpoint(path: Path, net: nn.Module, optimizer: Optimizer, recipe: str) -> State:
    """Load a checkpoint into the model and optimiser; without a file, return a new state."""
    if not path.is_file():
        return State()
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("recipe") != recipe:
                raise _other_training(path)
            _restore(net, optimizer, file)
        raw = parse_json(metadata["reached"])
        raw["rows"] = tuple(Row(**row) for row in raw["rows"])
        raw["history"] = LossHistory(**raw.pop("course"))
        return State(**raw)
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise WorkbenchError(
            f"cannot be read as a checkpoint: {reason_of(error)}.",
            code="file-unreadable",
            where=str(path),
            remedy="Copy the file again, or delete it to start the training from the beginning.",
        ) from None


def _tensors(net: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Every parameter once, even if shared, and the optimiser's state of it."""
    for name, parameter in net.named_parameters():
        yield f"weights/{name}", parameter.detach().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            yield f"{key}/{name}", torch.as_tensor(value).contiguous()


def _restore(net: nn.Module, optimizer: Optimizer, file: Any) -> None:
    states: dict[str, dict[str, Tensor]] = {}
    for path in file.keys():  # noqa: SIM118
        kind, _, name = path.partition("/")
        states.setdefault(name, {})[kind] = file.get_tensor(path)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            state = states[name]
            parameter.copy_(state.pop("weights"))
            if state:
                optimizer.state[parameter] = {
                    key: value.to(parameter.device) for key, value in state.items()
                }


def _other_training(path: Path) -> WorkbenchError:
    return WorkbenchError(
        "this checkpoint is from an unfinished training with another text, model or settings.",
        code="folder-not-empty",
        where=str(path),
        remedy="Name another folder, use the settings of that training, or delete this checkpoint.",
    )


# --- the record: curves and log lines -------------------------------------------------------------
#
# The record of a training: its state, its curves, and the check for divergence.
#
# Losses stay on a GPU until a row is due, so that steps do not wait for each other. They are read
# before a checkpoint is written, so no checkpoint follows a loss that is NaN. Costs: nothing per
# step, and one read from a GPU per row, checkpoint or hundred steps.

MAX_UNREAD = 100  # steps whose losses may stay on a GPU


@dataclass
class Record:
    """The state of a training without weights and optimiser; it writes curves and log lines."""

    task: Task
    plan: Plan
    progress: Progress
    process: Process
    checkpoint: Path | None
    state: State = field(default_factory=State)
    evaluation_is_due: bool = False

    def __post_init__(self) -> None:
        self._unread: list[Tensor] = []  # [2] each, loss and norm
        self._at = 0.0  # progress at the previous step
        self._share = 1.0  # fraction of tokens with logits
        self.start(self.state)

    def start(self, state: State) -> None:
        """Continue from a state; the clock continues from its seconds."""
        self.state = state
        self._start_time = time.monotonic() - state.seconds
        self._checkpoint_at = state.seconds
        if state.step:
            self._at = self._progress(state.step - 1, state.seconds)
            self.progress.log(f"Continuing from step {state.step:,}.")

    def clock(self) -> float:
        """Seconds of training so far."""
        return time.monotonic() - self._start_time

    def is_over(self, now: float) -> bool:
        """Whether the training has ended."""
        return is_over(self.state.step, now, self.plan.steps, self.plan.seconds)

    def progress_at(self, now: float) -> float:
        """The progress of the current step, from 0 to 1."""
        return self._progress(self.state.step, now)

    def add(self, loss: Tensor, counts: Tensor, tokens: int, now: float) -> None:
        """Record a step, and add a row to the curves if one is due."""
        at = self.progress_at(now)
        self._unread.append(loss)
        self._share = float(counts[: self.task.mapped].sum()) / max(tokens, 1)
        step, seen = self.state.step + 1, self.state.tokens + tokens
        self.state = replace(self.state, step=step, tokens=seen, seconds=now)
        last = step == self.plan.steps
        if len(self._unread) >= (1 if self.process.device.type == "cpu" else MAX_UNREAD):
            self.read_losses()
        if due := last or _passes(self._at, at, self.plan.points):
            self._add_row(at)
        self.evaluation_is_due = bool(
            due and self.task.held_out and _passes(self._at, at, self.plan.evaluations)
        )
        self._at = at

    def read_losses(self) -> None:
        """Read the losses from the device; an error if the training has diverged."""
        if not self._unread:
            return
        both = torch.stack(self._unread).cpu()  # [steps, 2], the only read from a GPU
        self._unread = []
        finite = bool(both[:, 1].isfinite().all())
        history = self.state.history
        for loss in self.process.total(both[:, 0].double()).tolist():
            history = history.after(loss)
            if history.diverged or not finite:
                raise self._diverged(loss, finite)
        self.state = replace(self.state, history=history)

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether a checkpoint is due, by time or by steps."""
        every, step = self.plan.checkpoint_steps, self.state.step
        by_clock = self.state.seconds - self._checkpoint_at >= self.plan.checkpoint_seconds
        return by_clock or bool(every and step % every == 0)

    def checkpoint_written(self) -> None:
        """Record that a checkpoint was written."""
        self._checkpoint_at = self.state.seconds

    def finish(self) -> None:
        """Add the last step to the curves if it is missing."""
        self.read_losses()
        rows = self.state.rows
        if self.state.history.steps and (not rows or rows[-1].step < self.state.step):
            self._add_row(1.0)

    @property
    def lacks_evaluation(self) -> bool:
        """Whether the last row of the curves has no held-out loss."""
        rows = self.state.rows
        return bool(self.task.held_out and rows) and rows[-1].held_out is None

    def add_evaluation(self, held_out: float) -> None:
        """Add a held-out loss to the last row."""
        rows = self.state.rows
        self.state = replace(self.state, rows=(*rows[:-1], replace(rows[-1], held_out=held_out)))
        last = rows[-1]
        self.progress.log(
            f"Step {last.step:,}: loss {last.loss:.4f}, held-out loss {held_out:.4f}."
        )

    def _progress(self, step: int, now: float) -> float:
        return progress_at(step, now, self.plan.steps, self.plan.seconds)

    def _add_row(self, at: float) -> None:
        self.read_losses()
        state, plan, history = self.state, self.plan, self.state.history
        last = state.rows[-1] if state.rows else Row(0, 0, 0.0, 0.0, 0.0, 0.0)
        now = self.clock()
        speed = (state.tokens - last.tokens) / max(now - last.seconds, 1e-9)
        used = None
        if self.task.work is not None:
            flops = self.task.work.flops(self.task.length, self._share)
            used = utilisation(speed / self.process.world, flops, peak(self.process.device))
        rate = plan.learning_rate * multiplier(at, plan.schedule, plan.warmup_fraction)
        mean = history.summed / max(history.steps, 1)
        row = Row(state.step, state.tokens, now, mean, rate, speed, used)
        history = LossHistory(history.first, history.mean, history.seen)
        self.state = replace(state, history=history, rows=(*state.rows, row))
        if plan.steps is not None:
            self.progress(state.step, plan.steps, f"training: loss {mean:.4f}")
        else:
            total = round(plan.seconds or 0)
            self.progress(min(int(now), total), total, "training by time (seconds)")

    def _diverged(self, loss: float, finite: bool) -> WorkbenchError:
        what = f"the loss is {loss:.3g}" if finite else "the gradient is NaN or infinite"
        has_checkpoint = self.checkpoint is not None and self.checkpoint.is_file()
        return WorkbenchError(
            f"training diverged at step {self.state.step:,}: {what}.",
            code="training-diverged",
            where=str(self.checkpoint) if has_checkpoint else "",
            remedy="Train again with a lower learning rate or a longer warm-up"
            + ("; the last checkpoint is still there." if has_checkpoint else "."),
        )


def _passes(before: float, after: float, parts: int) -> bool:
    """Whether one of `parts` equal marks lies between two points of progress."""
    return int(after * parts) > int(before * parts)


# --- the optimiser --------------------------------------------------------------------------------
#
# Costs: 8 bytes per parameter for the two moments.


def adamw(net: nn.Module, plan: Plan, device: torch.device) -> AdamW:
    """AdamW with weight decay for matrices, and none for biases, norms and other vectors."""
    trained = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": plan.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=plan.learning_rate,
        betas=plan.betas,
        eps=plan.epsilon,
        fused=device.type in ("cpu", "cuda"),
    )


def clip_gradient(net: nn.Module, max_norm: float) -> Tensor:
    """Clip the gradient to `max_norm` and return its norm before clipping."""
    trained = [p for p in net.parameters() if p.grad is not None]
    return nn.utils.clip_grad_norm_(trained, max_norm or float("inf"))


# --- micro-batches in the order of steps, on the device -------------------------------------------
#
# On a GPU the micro-batches of a step are drawn and copied during the step before; on a CPU, whose
# cores are busy, just before the step. Costs: one step's token ids in memory.


def seed_of(*numbers: int) -> int:
    """A seed from several numbers, such as those of the run, the step and the micro-batch."""
    text = " ".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def feed(
    draw: Callable[[int, int], Micro], first: int, per_step: int, process: Process
) -> Iterator[list[Micro]]:
    """This process' micro-batches of each step from `first` on, without end."""

    def draw_step(step: int) -> list[Micro]:
        return [draw(step, index) for index in range(process.rank, per_step, process.world)]

    if process.device.type == "cpu":
        for step in count(first):
            yield draw_step(step)
        return
    with ThreadPoolExecutor(max_workers=1) as worker:
        pending = worker.submit(draw_step, first)
        for step in count(first + 1):
            current = [micro.to(process.device) for micro in pending.result()]
            pending = worker.submit(draw_step, step)
            yield current
