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

from workbench.core.errors import WorkbenchError
from workbench.core.files import parsed_json, reason_of, require_regular, written_whole
from workbench.engine.batch import sent
from workbench.models.lm_heads import autocast
from workbench.training.curves import Course, Row, peak, utilisation
from workbench.training.distributed import Place
from workbench.training.task import (
    Micro,
    Plan,
    Progress,
    Task,
    is_over,
    multiplier,
    progress_at,
)


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


# --- a training's state in one safetensors file, so that it can be killed at any time and go on ---
#
# Holds weights, both moments of the optimiser and its step counts, and how far the run is.
# Nothing random has a state to keep: every draw is made from the seed, the step and the micro-
# batch. The file is written beside the old one and takes its place in one rename; a full disk or
# a kill leaves the old one. Costs 12 bytes a parameter, twice while it is written.

NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Reached:
    """How far a run is; the data's position follows from the step."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    course: Course = field(default_factory=Course)
    rows: tuple[Row, ...] = ()


def save_checkpoint(
    path: Path, net: nn.Module, optimizer: Optimizer, reached: Reached, recipe: str
) -> None:
    """Write all of it, whole or not at all."""
    tensors = dict(_tensors(net, optimizer))
    metadata = {"recipe": recipe, "reached": json.dumps(asdict(reached))}
    with written_whole(path) as draft:
        try:
            save_file(tensors, draft, metadata=metadata)
        except SafetensorError as error:  # its own words for a full disk
            raise OSError(f"{error}") from None


def load_checkpoint(path: Path, net: nn.Module, optimizer: Optimizer, recipe: str) -> Reached:
    """Put a state back; nothing is changed, and the run begins, where there is none."""
    if not path.is_file():
        return Reached()
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("recipe") != recipe:
                raise _another(path)
            _restore(net, optimizer, file)
        raw = parsed_json(metadata["reached"])
        raw["rows"] = tuple(Row(**row) for row in raw["rows"])
        raw["course"] = Course(**raw["course"])
        return Reached(**raw)
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise WorkbenchError(
            f"cannot be read as a checkpoint: {reason_of(error)}.",
            where=str(path),
            remedy="Was it copied whole? Without it, training begins anew.",
        ) from None


def _tensors(net: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Every parameter, once though it be shared, and what the optimiser keeps of it."""
    for name, parameter in net.named_parameters():
        yield f"weights/{name}", parameter.detach().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            yield f"{key}/{name}", torch.as_tensor(value).contiguous()


def _restore(net: nn.Module, optimizer: Optimizer, file: Any) -> None:
    kept: dict[str, dict[str, Tensor]] = {}
    for place in file.keys():  # noqa: SIM118
        kind, _, name = place.partition("/")
        kept.setdefault(name, {})[kind] = file.get_tensor(place)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            state = kept[name]
            parameter.copy_(state.pop("weights"))
            if state:
                optimizer.state[parameter] = {
                    key: value.to(parameter.device) for key, value in state.items()
                }


def _another(path: Path) -> WorkbenchError:
    return WorkbenchError(
        "there is an unfinished training here, of another text, model or setting.",
        where=str(path),
        remedy="Name another folder, give the settings it was begun with, or remove the file.",
    )


# --- the record: curves and log lines -------------------------------------------------------------
#
# What a training remembers of itself: where it is, its curves, and whether it has gone astray.
#
# Losses stay on a GPU until a row is due, so that steps need not wait for one another. Before a
# checkpoint is written they are looked at, so that none is ever written after a loss that is no
# number. Costs nothing a step, and one reading of a GPU a row, a checkpoint or a hundred steps.

WAITING = 100  # steps whose losses may be on a GPU unseen


@dataclass
class Record:
    """The state of a run beside weights and optimiser."""

    task: Task
    plan: Plan
    progress: Progress
    place: Place
    checkpoint: Path | None
    reached: Reached = field(default_factory=Reached)
    evaluation_is_due: bool = False

    def __post_init__(self) -> None:
        self._waiting: list[Tensor] = []  # [2] each, loss and norm
        self._at = 0.0  # progress at the step before
        self._share = 1.0  # of tokens that get logits
        self.begin(self.reached)

    def begin(self, reached: Reached) -> None:
        """Go on from here; the clock goes on from what the run had taken."""
        self.reached = reached
        self._began = time.monotonic() - reached.seconds
        self._kept_at = reached.seconds
        if reached.step:
            self._at = self._progress(reached.step - 1, reached.seconds)
            self.progress.log(f"Going on from step {reached.step:,}.")

    def clock(self) -> float:
        """Seconds this run has taken."""
        return time.monotonic() - self._began

    def is_over(self, now: float) -> bool:
        return is_over(self.reached.step, now, self.plan.steps, self.plan.seconds)

    def progress_at(self, now: float) -> float:
        return self._progress(self.reached.step, now)

    def add(self, loss: Tensor, counts: Tensor, tokens: int, now: float) -> None:
        """A step was made; a row is added to the curves where one is due."""
        at = self.progress_at(now)
        self._waiting.append(loss)
        self._share = float(counts[: self.task.mapped].sum()) / max(tokens, 1)
        step, seen = self.reached.step + 1, self.reached.tokens + tokens
        self.reached = replace(self.reached, step=step, tokens=seen, seconds=now)
        last = step == self.plan.steps
        if len(self._waiting) >= (1 if self.place.device.type == "cpu" else WAITING):
            self.check()
        if due := last or _passes(self._at, at, self.plan.points):
            self._add_row(at)
        self.evaluation_is_due = bool(
            due and self.task.held_out and _passes(self._at, at, self.plan.evaluations)
        )
        self._at = at

    def check(self) -> None:
        """Look at the losses that wait; an error where the run has gone astray."""
        if not self._waiting:
            return
        both = torch.stack(self._waiting).cpu()  # [steps, 2], the one reading of a GPU
        self._waiting = []
        finite = bool(both[:, 1].isfinite().all())
        course = self.reached.course
        for loss in self.place.total(both[:, 0].double()).tolist():
            course = course.after(loss)
            if course.astray or not finite:
                raise self._astray(loss, finite)
        self.reached = replace(self.reached, course=course)

    @property
    def keeping_is_due(self) -> bool:
        every, step = self.plan.checkpoint_steps, self.reached.step
        by_clock = self.reached.seconds - self._kept_at >= self.plan.checkpoint_seconds
        return by_clock or bool(every and step % every == 0)

    def kept(self) -> None:
        """A checkpoint was written."""
        self._kept_at = self.reached.seconds

    def finish(self) -> None:
        """See that the curves reach the last step."""
        self.check()
        rows = self.reached.rows
        if self.reached.course.steps and (not rows or rows[-1].step < self.reached.step):
            self._add_row(1.0)

    @property
    def lacks_evaluation(self) -> bool:
        """Whether the held-out loss of the model as it is now is not among the curves."""
        rows = self.reached.rows
        return bool(self.task.held_out and rows) and rows[-1].held_out is None

    def evaluated(self, held_out: float) -> None:
        """Put a held-out loss beside the last row."""
        rows = self.reached.rows
        self.reached = replace(
            self.reached, rows=(*rows[:-1], replace(rows[-1], held_out=held_out))
        )
        last = rows[-1]
        self.progress.log(
            f"Step {last.step:,}: loss {last.loss:.4f}, held-out loss {held_out:.4f}."
        )

    def _progress(self, step: int, now: float) -> float:
        return progress_at(step, now, self.plan.steps, self.plan.seconds)

    def _add_row(self, at: float) -> None:
        self.check()
        reached, plan, course = self.reached, self.plan, self.reached.course
        last = reached.rows[-1] if reached.rows else Row(0, 0, 0.0, 0.0, 0.0, 0.0)
        now = self.clock()
        speed = (reached.tokens - last.tokens) / max(now - last.seconds, 1e-9)
        used = None
        if self.task.work is not None:
            flops = self.task.work.flops(self.task.length, self._share)
            used = utilisation(speed / self.place.world, flops, peak(self.place.device))
        rate = plan.rate * multiplier(at, plan.schedule, plan.warmup)
        mean = course.summed / max(course.steps, 1)
        row = Row(reached.step, reached.tokens, now, mean, rate, speed, used)
        course = Course(course.first, course.mean, course.seen)
        self.reached = replace(reached, course=course, rows=(*reached.rows, row))
        if plan.steps is not None:
            self.progress(reached.step, plan.steps, "steps")
        else:
            total = round(plan.seconds or 0)
            self.progress(min(int(now), total), total, "seconds")

    def _astray(self, loss: float, finite: bool) -> WorkbenchError:
        what = f"the loss is {loss:.3g}" if finite else "the gradient is no finite number"
        kept = self.checkpoint is not None and self.checkpoint.is_file()
        return WorkbenchError(
            f"training has gone astray at step {self.reached.step:,}: {what}.",
            where=str(self.checkpoint) if kept else "",
            remedy="Train anew with a lower rate or a longer warm-up"
            + ("; the checkpoint from before is kept." if kept else "."),
        )


def _passes(before: float, after: float, parts: int) -> bool:
    """Whether one of so many equal marks of the run lies between two points of progress."""
    return int(after * parts) > int(before * parts)


# --- the optimiser --------------------------------------------------------------------------------
#
# Costs 8 bytes a parameter for the two moments.


def adamw(net: nn.Module, plan: Plan, device: torch.device) -> AdamW:
    """Matrices decay; biases, norms and other vectors do not."""
    trained = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": plan.decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=plan.rate,
        betas=plan.betas,
        eps=plan.epsilon,
        fused=device.type in ("cpu", "cuda"),
    )


def clipped(net: nn.Module, most: float) -> Tensor:
    """The gradient's norm before it is brought down to `most`."""
    trained = [p for p in net.parameters() if p.grad is not None]
    return nn.utils.clip_grad_norm_(trained, most or float("inf"))


# --- micro-batches in the order of steps, on the device when they are needed ----------------------
#
# On a GPU a step's micro-batches are drawn and copied while the step before is computed; on a
# CPU, whose cores are all at work, just before. Costs one step's token ids in memory.


def seed_of(*numbers: int) -> int:
    """A seed that numbers decide, such as the run's, the step's and the micro-batch's."""
    text = " ".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def feed(
    draw: Callable[[int, int], Micro], first: int, per_step: int, place: Place
) -> Iterator[list[Micro]]:
    """This process' share of each step from `first` on, without end."""

    def drawn(step: int) -> list[Micro]:
        return [draw(step, number) for number in range(place.rank, per_step, place.world)]

    if place.device.type == "cpu":
        for step in count(first):
            yield drawn(step)
        return
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = worker.submit(drawn, first)
        for step in count(first + 1):
            now = [micro.to(place.device) for micro in waiting.result()]
            waiting = worker.submit(drawn, step)
            yield now
