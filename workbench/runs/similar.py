"""Which finished run tells best how long another takes: before a run and during it.

`estimate` and `time_left` both ask here, each with the runs that it can use. Costs: nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

SETTLED = 2.0  # seconds of the earlier run, before which the speed of a run is not compared
FACTOR = 5.0  # a run is taken to be at most this many times as fast or slow as the earlier one

T = TypeVar("T")


@dataclass(frozen=True)
class Candidate(Generic[T]):
    """A finished run: what it has in common with the request, and how long it took."""

    run: T
    seconds: float
    same_models: bool
    same_corpora: bool
    same_settings: bool = True
    is_own: bool = True

    @property
    def likeness(self) -> tuple[bool, bool, bool, bool]:
        return self.same_models, self.same_corpora, self.same_settings, self.is_own


def most_similar(candidates: Iterable[Candidate[T]]) -> T | None:
    """Return the most similar run: same models first, then corpora, then settings; own runs before
    built-in ones; of several, the one of median duration."""
    found = [*candidates]
    if not found:
        return None
    best = max(each.likeness for each in found)
    alike = sorted((each for each in found if each.likeness == best), key=lambda each: each.seconds)
    return alike[(len(alike) - 1) // 2].run


@dataclass(frozen=True)
class Earlier:
    """A finished run that another is compared with: its duration and its stages."""

    seconds: float | None  # None: of other settings or another corpus, so it does not tell
    stages: Mapping[tuple[str, int], tuple[float, float]]  # name, how often before: begin, end

    def left(
        self,
        elapsed: float,
        stage: tuple[str, int],
        in_stage: float,
        share: float | None = None,
        left_of_stage: float | None = None,
    ) -> float | None:
        """Return the seconds that a run has left; None if that is not known.

        It is not known if the run takes longer than the earlier one.

        `stage` is its current stage, `in_stage` the seconds since that began, `share` what is done
        of it, and `left_of_stage` the seconds left by its own rate.
        """
        if self.seconds is None:
            return None
        if stage not in self.stages:
            left = self.seconds - elapsed
        else:
            begin, end = self.stages[stage]
            length = end - begin
            if share is None:
                share = min(1.0, in_stage / length) if length else 1.0
            then = begin + share * length  # the same moment in the earlier run
            speed = min(FACTOR, max(1 / FACTOR, elapsed / then)) if then > SETTLED else 1.0
            own = (1 - share) * length * speed if left_of_stage is None else left_of_stage
            left = own + (self.seconds - end) * speed
        return round(left, 1) if left > 0 else None
