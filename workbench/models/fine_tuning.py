"""A short fine-tuning: AdamW steps, clipped gradients, and the weights of the best dev score.

For fine-tuning and recovery after pruning, not for training from scratch (the analysis `training`).
The trained weights may be all weights, gates only, or a head with its own learning rates. Weights
in half precision are trained as float32 copies, because a step is often smaller than the distance
between two bf16 numbers. A batch that does not fit into memory is processed in parts
(`engine.halving`). With a `Checkpoint`, a fine-tuning that was killed goes on after its last
interval, to the same weights. Costs: a forward and a backward pass per step, the dev scores, and a
copy of the weights; a checkpoint is four times as large as the trained weights.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from workbench.core.files import DAMAGED, atomic_write, parse_json, require_regular
from workbench.engine.halving import Part, averaged

SPACING = 20.0  # seconds between two checkpoints
OVER = -1  # instead of a number of intervals: all
CLIP = 1.0  # maximum norm of a step's gradient
B = TypeVar("B")


class Learner:
    """The trained weights with their optimiser and learning-rate schedule."""

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        curves: Callable[[int], float] | Sequence[Callable[[int], float]],
        **options: Any,
    ) -> None:
        """`groups` are AdamW's; `curves` map a step to each group's learning-rate factor."""
        self.moving: list[Tensor] = [weight for group in groups for weight in group["params"]]
        self.wide = [w if w.dtype.itemsize >= 4 else w.detach().float() for w in self.moving]
        wide_of = dict(zip(map(id, self.moving), self.wide, strict=True))
        wide_groups = [{**g, "params": [wide_of[id(w)] for w in g["params"]]} for g in groups]
        self.optimiser = torch.optim.AdamW(wide_groups, weight_decay=0.0, **options)
        factors = curves if callable(curves) else list(curves)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimiser, factors)
        self.best: list[Tensor] = []

    def step(self, parts: Iterable[Part], penalty: Callable[[], Tensor] | None = None) -> float:
        """Take one step and return its mean loss; no step if the loss is not finite."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = float(averaged(parts, self.moving))
        if not math.isfinite(loss):
            return loss
        if penalty is not None:
            penalty().backward()  # type: ignore[no-untyped-call]
        copies = [
            (w, wide) for w, wide in zip(self.moving, self.wide, strict=True) if w is not wide
        ]
        for weight, wide in copies:
            wide.grad = None if weight.grad is None else weight.grad.float()
            weight.grad = None
        torch.nn.utils.clip_grad_norm_(self.wide, CLIP)
        self.optimiser.step()
        with torch.no_grad():
            for weight, wide in copies:
                weight.copy_(wide)
        self.schedule.step()
        return loss

    def keep(self) -> None:
        """Save the current weights as the best."""
        self.best = [weight.detach().clone() for weight in self.moving]

    def restore(self) -> None:
        """Restore the weights saved last, if any."""
        with torch.no_grad():
            for weight, saved in zip(self.moving, self.best, strict=False):
                weight.copy_(saved)
        for weight in self.moving:
            weight.grad = None


@dataclass
class EarlyStopping:
    """Early stopping on a dev score; higher scores are better."""

    patience: int  # scores without improvement before stopping
    gain: float = 0.0  # minimum improvement
    highest: float = math.inf  # maximum possible score
    best: float = -math.inf
    waited: int = 0
    reference: float = -math.inf  # the last score that was an improvement

    def is_best(self, score: float) -> bool:
        """Whether this score is the best so far."""
        self.waited += 1
        if score > self.reference + self.gain:
            self.waited, self.reference = 0, score
        is_best = score > self.best
        self.best = score if is_best else self.best
        return is_best

    @property
    def is_over(self) -> bool:
        """Whether training should stop."""
        return self.waited >= self.patience or self.best >= self.highest


@dataclass
class Curves:
    """Training losses and dev scores of a fine-tuning."""

    losses: list[float] = field(default_factory=list)  # of each step
    dev: list[float] = field(default_factory=list)  # the score after each interval
    best: int = 0  # the interval with the best dev score, counted from 1; 0: none
    diverged: bool = False
    seconds: float = 0.0  # before it was interrupted


def fine_tune(
    learner: Learner,
    intervals: Iterable[Iterable[B]],
    gradients: Callable[[B], Iterable[Part]],
    dev_score: Callable[[], float] | None,
    stopping: EarlyStopping,
    on_step: Callable[[int, float], object],
    penalty: Callable[[], Tensor] | None = None,
    checkpoint: "Checkpoint | None" = None,
) -> Curves:
    """Train on intervals of batches, with a dev score after each, until early stopping.

    The weights of the best dev score are restored. A loss that is not finite also stops training.
    With a checkpoint, intervals that were finished before an interruption are skipped.
    """
    curves, done, is_over = Curves(), 0, False
    if checkpoint is not None:
        done, is_over = checkpoint.load(learner, curves, stopping)
    for number, interval in enumerate(() if is_over else intervals, 1):
        if number <= done:
            continue
        for batch in interval:
            loss = learner.step(gradients(batch), penalty)
            curves.losses.append(loss)
            if not math.isfinite(loss):
                curves.diverged = True
                break
            on_step(len(curves.losses), loss)
        if curves.diverged:
            break
        if dev_score is not None:
            curves.dev.append(dev_score())
            if stopping.is_best(curves.dev[-1]):
                curves.best = len(curves.dev)
                learner.keep()
            if stopping.is_over:
                break
        if checkpoint is not None:
            checkpoint.save(number, learner, curves, stopping)
    if checkpoint is not None and not (is_over or curves.diverged):
        checkpoint.finish(learner, curves, stopping)
    learner.restore()
    return curves


# --- the state of a fine-tuning in one safetensors file -------------------------------------------


class Checkpoint:
    """A file with the state after an interval; written when `SPACING` seconds have passed.

    It holds the weights and the best ones, the optimiser's moments, the random generators, and the
    curves; of a finished fine-tuning the best weights alone. A file that is damaged, or of other
    weights, is as none: training starts from its beginning.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started = self._written = perf_counter()

    def save(self, done: int, learner: Learner, curves: Curves, stopping: EarlyStopping) -> None:
        """Write the state after `done` intervals, if a file is due."""
        if perf_counter() - self._written >= SPACING:
            self._write(dict(_tensors(learner)), done, learner, curves, stopping)
            self._written = perf_counter()

    def finish(self, learner: Learner, curves: Curves, stopping: EarlyStopping) -> None:
        """Write the best weights, if the fine-tuning took longer than `SPACING`."""
        if curves.seconds + perf_counter() - self._started >= SPACING:
            best = {name: w for name, w in _tensors(learner) if name.startswith("best/")}
            self._write(best, OVER, learner, curves, stopping)

    def _write(
        self,
        tensors: dict[str, Tensor],
        done: int,
        learner: Learner,
        curves: Curves,
        stopping: EarlyStopping,
    ) -> None:
        state = {
            "done": done,
            "schedule": learner.schedule.state_dict(),
            "curves": asdict(curves) | {"seconds": curves.seconds + perf_counter() - self._started},
            "stopping": asdict(stopping),
        }
        with atomic_write(self.path) as draft:
            try:
                save_file(tensors, draft, metadata={"state": json.dumps(state)})
            except SafetensorError as error:  # its error for a full disk
                raise OSError(f"{error}") from None

    def load(self, learner: Learner, curves: Curves, stopping: EarlyStopping) -> tuple[int, bool]:
        """Restore a state, in place; returns the finished intervals, and whether they are all."""
        if not self.path.is_file():
            return 0, False
        try:
            with safe_open(require_regular(self.path), framework="pt") as file:
                state = parse_json((file.metadata() or {})["state"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            _restore(learner, tensors)
            learner.schedule.load_state_dict(state["schedule"])
            rates = state["schedule"]["_last_lr"]
            for group, rate in zip(learner.optimiser.param_groups, rates, strict=True):
                group["lr"] = rate
        except (SafetensorError, *DAMAGED):
            return 0, False
        vars(curves).update(state["curves"])
        vars(stopping).update(state["stopping"])
        return state["done"], state["done"] == OVER


def _tensors(learner: Learner) -> Iterator[tuple[str, Tensor]]:
    """All tensors of a state, by name."""
    yield "random/cpu", torch.get_rng_state()
    if torch.cuda.is_available():
        yield "random/cuda", torch.cuda.get_rng_state()
    for number, weight in enumerate(learner.wide):
        yield f"weights/{number}", weight.detach().contiguous()
        for key, value in learner.optimiser.state.get(weight, {}).items():
            yield f"{key}/{number}", torch.as_tensor(value).contiguous()
    for number, weight in enumerate(learner.best):
        yield f"best/{number}", weight.contiguous()


def _restore(learner: Learner, tensors: dict[str, Tensor]) -> None:
    """Restore all tensors, in place; a ValueError, and no change, if they are of other weights."""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        kind, _, key = name.partition("/")
        parts.setdefault(kind, {})[key] = value
    random, weights, best = (parts.pop(kind, {}) for kind in ("random", "weights", "best"))
    for saved in filter(None, (weights, best)):
        expected = {str(number): w.shape for number, w in enumerate(learner.wide)}
        if {key: weight.shape for key, weight in saved.items()} != expected:
            raise ValueError("the checkpoint is of other weights")
    keys = list(map(str, range(len(learner.wide))))
    with torch.no_grad():
        for key, weight, wide in zip(keys, learner.moving, learner.wide, strict=True):
            if key in weights:
                wide.copy_(weights[key])
                weight.copy_(wide)
            state = {kind: values[key] for kind, values in parts.items() if key in values}
            if state:
                learner.optimiser.state[wide] = {k: v.to(wide.device) for k, v in state.items()}
    if best:
        pairs = zip(keys, learner.moving, strict=True)
        learner.best = [best[key].to(weight.device) for key, weight in pairs]
    if "cpu" in random:
        torch.set_rng_state(random["cpu"])
    if "cuda" in random and torch.cuda.is_available():
        torch.cuda.set_rng_state(random["cuda"])
