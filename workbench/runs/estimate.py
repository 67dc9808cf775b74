"""Estimates how long a request takes before it is started, from finished runs of its experiment.

The most similar run of the same settings counts (`similar`). Its duration is scaled by the number
of words. How it grows with the number of parameters, runs of two models tell, such as those of
`preset_times`; of one model, it is taken to grow with them, which from a small one gives an upper
bound. Built-in results were made on another machine: how much slower this one is, its own runs tell
(`slowness`). Nothing is claimed where a size is not known or differs too much. Costs: reading the
requests of at most 30 runs.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from workbench.core.groups import grouped
from workbench.runs.similar import Candidate, most_similar
from workbench.runs.time_left import in_words

FIXED = 2.0  # seconds that every run takes, of any size
FEW = 5.0  # seconds that are not told apart: what a busy machine does meanwhile is as long
FARTHEST = 1_000.0  # times larger, beyond which nothing is claimed
APART = 3.0  # times larger, a model at least, of which growth is told
STEEPEST = 1.2  # power of the number of parameters


@dataclass(frozen=True)
class Size:
    """What decides how long a request takes: its inputs and settings; 0: not known."""

    models: tuple[str, ...]
    corpora: tuple[str, ...]
    words: int
    parameters: int = 0
    settings: Mapping[str, Any] | None = None  # that differ from the defaults, without sentences


@dataclass(frozen=True)
class Finished:
    """A run that was done, how long it took, and whose it was; a preset was measured for all."""

    size: Size
    seconds: float
    origin: Literal["own", "built-in", "preset"] = "own"
    is_open: bool = False  # it left questions open that a larger sample could decide


@dataclass(frozen=True)
class Estimate:
    """About how many seconds a request takes, and whether that is an upper bound.

    `first` is the time of the first step of a sample that grows up to the bound; 0 if unknown.
    """

    seconds: float
    is_bound: bool = False
    first: float = 0.0

    @property
    def in_words(self) -> str:
        """Return the estimate in words: `about 40 s`, `up to about 2 h` or `20 s to 10 min`."""
        if self.seconds < FEW:
            return "a few seconds"
        if 0 < self.first < self.seconds:
            ends = (self.first, self.seconds)
            least, most = (in_words(each).removeprefix("about ") for each in ends)
            return f"{'seconds' if self.first < FEW else least} to {most}"
        return f"{'up to ' if self.is_bound else ''}{in_words(self.seconds)}"


def together(estimates: Sequence[Estimate]) -> Estimate:
    """Return how long requests take, one after another."""
    return Estimate(
        sum(each.seconds for each in estimates),
        any(each.is_bound for each in estimates),
        sum(each.first or each.seconds for each in estimates),
    )


def estimate(request: Size, finished: Iterable[Finished], slowness: float = 1.0) -> Estimate | None:
    """Return how long a request takes; None if no finished run tells it.

    `slowness` is how many times as long runs take here as those of other machines among them.
    """
    runs = [run for run in finished if _is_comparable(request, run)]
    best = _most_similar(request, runs)
    if best is None:
        return None
    if best.size.models != request.models and (found := _between(request, runs, slowness)):
        return found
    factor = _factor(request, best.size)
    if factor is None or not 1 / FARTHEST <= factor <= FARTHEST:
        return None
    variable = max(best.seconds - FIXED, 0.0)
    seconds = min(best.seconds, FIXED) + variable * factor
    if best.origin != "own":
        seconds *= slowness
    return Estimate(round(seconds, 1), is_bound=best.size.models != request.models)


def _most_similar(request: Size, runs: Iterable[Finished]) -> Finished | None:
    return most_similar(
        Candidate(
            run,
            run.seconds,
            run.size.models == request.models,
            run.size.corpora == request.corpora,
            is_own=run.origin == "own",
        )
        for run in runs
    )


def _between(request: Size, runs: Iterable[Finished], slowness: float) -> Estimate | None:
    """The estimate by a power of the number of parameters, from runs of two other models: that of
    the nearest size, and the nearest of those well apart from it. None without two."""
    by_size = grouped((run.size.parameters, run) for run in runs)
    by_size.pop(0, None)
    points = []  # logarithms of parameters and of seconds for as many words
    for parameters, alike in by_size.items():
        if best := _most_similar(request, alike):
            words = _factor(request, replace(best.size, models=request.models))
            slower = 1.0 if best.origin == "own" else slowness
            if words:
                points.append((math.log(parameters), math.log(best.seconds * words * slower)))
    if not (points and request.parameters):
        return None
    size = math.log(request.parameters)
    points.sort(key=lambda point: abs(point[0] - size))
    near = points[0]
    far = next((each for each in points if abs(each[0] - near[0]) >= math.log(APART)), None)
    if far is None or abs(size - near[0]) > math.log(FARTHEST):
        return None
    power = min(max((near[1] - far[1]) / (near[0] - far[0]), 0.0), STEEPEST)
    return Estimate(round(math.exp(near[1] + power * (size - near[0])), 1))


def slowness(runs: Iterable[tuple[Finished, Iterable[Finished]]]) -> float:
    """How many times as long runs take on this machine as on those of built-in results.

    `runs` are own ones, each with those of its experiment from elsewhere. It is the median over
    those that are long enough to tell; 1 without any.
    """
    ratios = [
        run.seconds / there.seconds
        for run, elsewhere in runs
        if (there := estimate(run.size, (e for e in elsewhere if e.size.models == run.size.models)))
        and there.seconds > FEW
    ]
    return statistics.median(ratios) if ratios else 1.0


def _is_comparable(request: Size, run: Finished) -> bool:
    """Whether only sizes differ; the settings of built-in results differ a little."""
    same = (request.settings or {}) == (run.size.settings or {})
    return run.seconds > 0 and (same or (run.origin == "built-in" and not request.settings))


def _factor(request: Size, other: Size) -> float | None:
    """Return how many times larger a request is; None if a size is not known."""
    factor = 1.0
    if request.corpora != other.corpora or request.words != other.words:
        if not (request.words and other.words):
            return None
        factor *= request.words / other.words
    if request.models != other.models:
        if not (request.parameters and other.parameters):
            return None
        factor *= request.parameters / other.parameters
    return factor
