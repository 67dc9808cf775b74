"""One check of the engine on a device: what it is given, what it leaves, and how it is run.

A check is a function of a `Setting` and of `Figures`. It notes what it measured, with a bound where
there is one; it fails where a figure misses its bound or where it raises, and is skipped where it
says why. What it imports is imported when it runs, so that a package that is not there fails one
check and not all. Costs nothing beside the check.
"""

import gc
import math
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
LAST_LINES = 12  # of a traceback
MIB = 2**20
Found = TypeVar("Found")


class Skipped(Exception):  # noqa: N818 - no error, but a reason
    """What a check lacks here."""


@dataclass(frozen=True)
class Setting:
    """Where a check runs."""

    device: torch.device
    small: bool
    folder: Path  # of this check alone, empty

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def half(self) -> str:
        """The precision of large models: half where there is a GPU, for a CPU has no fast one."""
        return "bf16" if self.on_gpu else "fp32"

    def require_gpu(self) -> None:
        if not self.on_gpu:
            raise Skipped("needs a GPU")

    def wait(self) -> None:
        """Wait until the device has finished all its work."""
        if self.on_gpu:
            torch.cuda.synchronize()


@dataclass
class Figures:
    """What a check measured; `missed` are those beyond their bounds."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    peak: float | None = None  # MiB on the device

    def note(self, name: str, value: Any) -> None:
        """A figure that is what it is."""
        self.found[name] = {"value": plain(value)}

    def at_most(self, name: str, value: float, bound: float) -> None:
        self._bounded(name, float(value), bound, "at most", float(value) <= bound)

    def at_least(self, name: str, value: float, bound: float) -> None:
        self._bounded(name, float(value), bound, "at least", float(value) >= bound)

    def holds(self, name: str, value: bool) -> None:
        """A claim that is true or false."""
        self._bounded(name, float(value), 1.0, "at least", bool(value))

    def _bounded(self, name: str, value: float, bound: float, way: str, kept: bool) -> None:
        """A figure that is no number keeps no bound."""
        self.found[name] = {"value": plain(value), way: bound, "kept": kept}
        if not kept:
            self.missed.append(f"{name} is {value:.3g}, not {way} {bound:.3g}")


def plain(value: Any) -> Any:
    """The same as JSON has it, where infinity is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def timed(setting: Setting, work: Callable[[], Found]) -> tuple[Found, float]:
    """What some work finds, and the seconds until the device has done it."""
    setting.wait()
    started = time.perf_counter()
    found = work()
    setting.wait()
    return found, time.perf_counter() - started


def peak_of(setting: Setting, figures: Figures, work: Callable[[], object]) -> float:
    """MiB on the device that some work takes at most, above what was there before."""
    if not setting.on_gpu:
        work()
        return 0.0
    _keep_peak(figures)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / MIB


def apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """How far two tensors are apart, as a share of the second's norm."""
    one, two = (tensor.detach().double().cpu() for tensor in (found, expected))
    return float((one - two).norm() / two.norm().clamp(min=1e-12))


def run_one(
    name: str, target: str, device: torch.device, small: bool, seconds: float
) -> dict[str, Any]:
    """The outcome of one check, `module:function`, that has so many seconds."""
    figures, reason, last = Figures(), "", []
    _begin(device)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, _within(seconds):
        try:
            module, function = target.split(":")
            check = getattr(import_module(module), function)
            check(Setting(device, small, Path(folder)), figures)
            outcome = FAILED if figures.missed else PASSED
        except Skipped as why:
            outcome, reason = SKIPPED, str(why)
        except Exception as error:
            outcome, reason = FAILED, f"{type(error).__name__}: {error}".splitlines()[0]
            last = traceback.format_exc().splitlines()[-LAST_LINES:]
    return {
        "name": name,
        "outcome": outcome,
        "reason": reason or "; ".join(figures.missed),
        "seconds": round(time.perf_counter() - started, 2),
        "peak_mib": _end(device, figures),
        "figures": figures.found,
        "traceback": last,
    }


def is_usable(device: torch.device) -> bool:
    """Whether the device still answers: after an error of its own, it does not in this process."""
    try:
        return float(torch.ones(2, device=device).sum()) == 2
    except Exception:
        return False


def _begin(device: torch.device) -> None:
    torch.manual_seed(0)
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _end(device: torch.device, figures: Figures) -> float | None:
    """The peak on the device, in MiB; None on a CPU, and where the device is lost."""
    if device.type != "cuda":
        return None
    try:
        torch.cuda.synchronize()
        _keep_peak(figures)
    except Exception:
        return figures.peak
    return figures.peak


def _keep_peak(figures: Figures) -> None:
    now = torch.cuda.max_memory_allocated() / MIB
    figures.peak = round(max(now, figures.peak or 0.0), 1)


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the block when its time is over."""

    def over(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
