"""What a training remembers of itself: where it is, its curves, and whether it has gone astray.

Losses stay on a GPU until a row is due, so that steps need not wait for one another. Before a
checkpoint is written they are looked at, so that none is ever written after a loss that is no
number. Costs nothing a step, and one reading of a GPU a row, a checkpoint or a hundred steps.
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from workbench.errors import WorkbenchError
from workbench.training import schedule
from workbench.training.checkpoint import Reached
from workbench.training.curves import Course, Row, peak, utilisation
from workbench.training.distributed import Place
from workbench.training.task import Plan, Progress, Task

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
        return schedule.is_over(self.reached.step, now, self.plan.steps, self.plan.seconds)

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
        return schedule.progress_at(step, now, self.plan.steps, self.plan.seconds)

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
        rate = plan.rate * schedule.multiplier(at, plan.schedule, plan.warmup)
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
