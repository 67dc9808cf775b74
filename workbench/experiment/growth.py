"""How large the sample of an experiment is: it grows until the question is decided.

An experiment that samples declares what grows, with the sizes of the first step:

    growth=Growth({"max_sentences": 1000}, "workbench.analyses.probes.structural_probe:still_open")

Each further step has four times the sizes of the step before, so all steps together cost 1.33 times
the last one; a step that has nearly as much as the next, because the data end there, is left out.
The sizes do not depend on results, the machine or the clock; only which of them are computed does.
A large model begins on less (`Growth.trials`): no claim is decided there, but it tells whether the
first step ends in time. Before the last step a claim counts as decided only if its interval,
widened to 99.9 %, excludes its null (Haybittle and Peto): up to four looks then add at most 0.4 %
to the 5 % of false claims of a single look. The result is that of the last step alone. Costs:
nothing; `workbench.runs.effort` has the loop.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from workbench.core.findings import Finding, Tables
from workbench.core.registry import imported

FACTOR = 4  # from one step to the next
STEPS = 5  # maximum
TRIALS = 2  # steps below the first one
LARGE = 10_000_000  # parameters of a model whose first step may not end in time
NEARLY = 0.45  # of the next step's data; with so much a step is left out, so all cost 1.6 times
QUICK = 5  # times smaller than the first step
WIDER = 3.29 / 1.96  # an interval of 99.9 % to one of 95 %, before the last step


@dataclass(frozen=True)
class Growth:
    """The settings that grow, with their sizes in the first step, and what is open besides.

    Args:
        start: The sizes of the first step, by setting.
        still_open: From the tables of a step, why more data would change them, in words, or
            "module:function" (default: only undecided findings count).
        available: From inputs and settings, how much data there is for settings that do not count
            sentences, or "module:function".
    """

    start: Mapping[str, int]
    still_open: "str | Callable[[Tables], Iterable[str]] | None" = None
    available: "str | Callable[[Any, Any], Mapping[str, int]] | None" = None

    def growing(self, settings: BaseModel) -> dict[str, int]:
        """Return the sizes of the first step that grow: of the settings left at their default."""
        fields = type(settings).model_fields
        return {
            name: size
            for name, size in self.start.items()
            if getattr(settings, name) == fields[name].default
        }

    def steps(self, settings: BaseModel) -> list[dict[str, int | None]]:
        """Return the settings of each step; one step without settings where nothing grows."""
        effort, growing = getattr(settings, "effort", "standard"), self.growing(settings)
        if not growing:
            return [{}]
        if effort == "quick":
            return [{name: max(1, size // QUICK) for name, size in growing.items()}]
        if effort == "full":
            return [{name: _largest(settings, name) for name in growing}]
        limits = {name: _largest(settings, name) for name in growing}
        return [
            {
                name: FACTOR**step * size if (most := limits[name]) is None
                else min(FACTOR**step * size, most)
                for name, size in growing.items()
            }
            for step in range(STEPS)
        ]  # fmt: skip

    def trials(self, settings: BaseModel) -> list[dict[str, int | None]]:
        """Return the sizes on which a large model begins: 1/16 and 1/4 of the first step."""
        growing = self.growing(settings)
        return [
            {name: max(1, size // FACTOR**less) for name, size in growing.items()}
            for less in range(TRIALS, 0, -1)
        ]

    def all_there_is(self, inputs: Any, settings: BaseModel) -> Mapping[str, int]:
        """Return how much data there is, by setting, besides sentences."""
        count = self.available
        if isinstance(count, str):
            count = imported(count, "how much data an experiment has")
        return {} if count is None else count(inputs, settings)

    def open_questions(self, findings: Iterable[Finding], tables: "Tables") -> list[str]:
        """Return what a step has not decided, in words."""
        check = self.still_open
        if isinstance(check, str):
            check = imported(check, "what an experiment leaves open")
        more = check(tables) if check is not None else ()
        return [*dict.fromkeys([*more, *open_claims(findings)])]


def _largest(settings: BaseModel, name: str) -> int | None:
    """The largest value of a setting: None for all data, or its upper bound."""
    field = type(settings).model_fields[name]
    if type(None) in getattr(field.annotation, "__args__", ()):
        return None
    return next(int(bound.le) for bound in field.metadata if hasattr(bound, "le"))


def open_claims(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the measures of findings that a larger sample could decide.

    A claim is open if its verdict is undecided, or if its interval, widened to 99.9 %, still has
    its null. A claim whose interval is narrower than a margin around the null is not undecided: its
    experiment says so.
    """
    for each in findings:
        if each.verdict == "undecided":
            yield each.measure
        elif each.verdict == "supported" and None not in (each.interval, each.null, each.value):
            low, high = (_widened(each, bound) for bound in each.interval or ())
            if low <= (each.null or 0.0) <= high:
                yield each.measure


def _widened(finding: Finding, bound: float) -> float:
    middle = finding.value or 0.0
    return middle + WIDER * (bound - middle)
