"""Which finished run tells best how long another takes: the choice before a run and during it.

`estimate` and `time_left` both ask here, each with the runs that it can use. Costs: nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

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
