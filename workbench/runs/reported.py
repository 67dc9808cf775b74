"""What a run has reported so far: its stages, and the values of curves such as its loss.

A detail of a progress event that is one of `MEASURES` with a number is a point of a curve:
"training: seed 0, loss 2.31" is one of the curve "loss" of the series "seed 0". So is that of a log
line "Step 200: loss 2.31, held-out loss 2.40.". Costs: reading the events that were written since
the last look.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workbench.runs import status
from workbench.runs.time_left import stage_of

MEASURES = ("held-out loss", "loss", "score")  # that are drawn as curves
MOST = 400  # points of a curve; of more, every second one is dropped
_VALUE = re.compile(rf"({'|'.join(MEASURES)}) (-?[\d.]+(?:e[+-]?\d+)?)")
_STEP = re.compile(r"Step ([\d,]+): (.*)\.")

Curve = tuple[str, str]  # its series, such as "seed 0", and its measure
Points = tuple[tuple[float, float], ...]  # x and y


@dataclass(frozen=True)
class Reported:
    """The stages of the current attempt in order, and the points of each curve."""

    offset: int = 0  # in the file of events, up to which it was read
    stages: tuple[str, ...] = ()
    total: int | None = None  # of the stage with curves: what x is counted up to
    curves: Mapping[Curve, Points] = field(default_factory=dict)


def reported(folder: Path, before: Reported | None = None) -> Reported:
    """Return what a run has reported, given what was read before."""
    before = before or Reported()
    events, offset = status.read_events(folder, before.offset)
    return replace(_after(before, events), offset=offset) if events else before


def _after(now: Reported, events: Sequence[Mapping[str, Any]]) -> Reported:
    stages, curves, total = list(now.stages), {**now.curves}, now.total
    for event in events:
        if event.get("state") == "queued":  # a new attempt; its curves may continue the old ones
            stages = []
        if event["kind"] == "progress" and event["doing"]:
            name = stage_of(str(event["doing"]))
            if not stages or stages[-1] != name:
                stages.append(name)
        for x, series, measure, y in _points(event):
            curve = (series, measure)
            earlier = [point for point in curves.get(curve, ()) if point[0] < x]
            if len(earlier) >= MOST:
                earlier = earlier[::2]
            curves[curve] = (*earlier, (x, y))
            total = event.get("total") or total
    return Reported(now.offset, tuple(stages), total, curves)


def _points(event: Mapping[str, Any]) -> Iterator[tuple[float, str, str, float]]:
    """Yield x, series, measure and y of the values that an event has."""
    if event["kind"] == "progress":
        x, details = float(event["done"] or 0), str(event["doing"]).partition(": ")[2]
    elif match := _STEP.fullmatch(str(event.get("text", ""))):
        x, details = float(match[1].replace(",", "")), match[2]
    else:
        return
    parts = details.split(", ")
    values = [_VALUE.fullmatch(part) for part in parts]
    series = ", ".join(part for part, value in zip(parts, values, strict=True) if not value)
    for value in values:
        if value:
            yield x, series, value[1], float(value[2])
