"""Estimates how long a request takes before it is started, from finished runs of its experiment.

The most similar run of the same settings counts (`similar`). Its duration is scaled by the number
of sentences and, for another model, by the number of parameters; from small models this gives an
upper bound. Built-in results were made on another machine: how much slower this one is, its own
runs tell (`slowness`). Nothing is claimed where a size is not known or differs too much. Costs:
reading the requests of at most 30 runs.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workbench.runs.similar import Candidate, most_similar
from workbench.runs.time_left import in_words

FIXED = 2.0  # seconds that every run takes, of any size
FEW = 5.0  # seconds that are not told apart: what a busy machine does meanwhile is as long
FARTHEST = 1_000.0  # times larger, beyond which nothing is claimed


@dataclass(frozen=True)
class Size:
    """What decides how long a request takes: its inputs and settings; 0 sentences: not known."""

    models: tuple[str, ...]
    corpora: tuple[str, ...]
    sentences: int
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


def estimate(request: Size, finished: Iterable[Finished], slowness: float = 1.0) -> Estimate | None:
    """Return how long a request takes; None if no finished run tells it.

    `slowness` is how many times as long runs take here as those of other machines among them.
    """
    runs = [run for run in finished if _is_comparable(request, run)]
    best = most_similar(
        Candidate(
            run,
            run.seconds,
            run.size.models == request.models,
            run.size.corpora == request.corpora,
            is_own=run.origin == "own",
        )
        for run in runs
    )
    if best is None:
        return None
    factor = _factor(request, best.size)
    if factor is None or not 1 / FARTHEST <= factor <= FARTHEST:
        return None
    variable = max(best.seconds - FIXED, 0.0)
    seconds = min(best.seconds, FIXED) + variable * factor
    if best.origin != "own":
        seconds *= slowness
    return Estimate(round(seconds, 1), is_bound=best.size.models != request.models)


def slowness(runs: Iterable[tuple[Finished, Iterable[Finished]]]) -> float:
    """How many times as long runs take on this machine as on those of built-in results.

    `runs` are own ones, each with those of its experiment from elsewhere. It is the median over
    those that are long enough to tell; 1 without any.
    """
    ratios = [
        run.seconds / there.seconds
        for run, elsewhere in runs
        if (there := estimate(run.size, elsewhere)) and not there.is_bound and there.seconds > FEW
    ]
    return statistics.median(ratios) if ratios else 1.0


def _is_comparable(request: Size, run: Finished) -> bool:
    """Whether only sizes differ; the settings of built-in results differ a little."""
    same = (request.settings or {}) == (run.size.settings or {})
    return run.seconds > 0 and (same or (run.origin == "built-in" and not request.settings))


def _factor(request: Size, other: Size) -> float | None:
    """Return how many times larger a request is; None if a size is not known."""
    factor = 1.0
    if request.corpora != other.corpora or request.sentences != other.sentences:
        if not (request.sentences and other.sentences):
            return None
        factor *= request.sentences / other.sentences
    if request.models != other.models:
        if not (request.parameters and other.parameters):
            return None
        factor *= request.parameters / other.parameters
    return factor
