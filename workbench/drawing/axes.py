"""Axes of a drawn figure: kinds, ranges and ticks, from the layout of Plotly and the data.

As in Plotly, an axis is of numbers, of their logarithms, or of names, and its range has room around
the data unless the figure gives one. Costs: milliseconds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from workbench.core.groups import grouped
from workbench.drawing.hover import formatted
from workbench.drawing.shapes import Plain, each, number, values

ROOM = 0.06  # around data, as a share of their range
BEYOND = 0.06  # room for a text after a bar, as a share of its length


@dataclass
class Axis:
    """An axis: its values, its range, and its place in pixels."""

    name: str  # x, y, x2, …
    look: Plain
    traces: list[dict[str, Any]]
    kind: str = "linear"  # linear, log or category
    names: list[str] = field(default_factory=list)  # of a category axis
    low: float = 0.0
    high: float = 1.0
    start: float = 0.0  # pixels; of a y axis, the lower end
    end: float = 1.0

    @property
    def letter(self) -> str:
        return self.name[0]

    @property
    def domain(self) -> tuple[float, float]:
        low, high = self.look.get("domain") or (0.0, 1.0)
        return float(low), float(high)

    def unit(self, value: Any) -> float:
        """Return a value in units of the axis: an index, a number, or its logarithm."""
        if self.kind == "category":
            text = str(value)
            return float(self._index[text]) if text in self._index else number(value)
        size = number(value)
        if self.kind == "log":
            return math.log10(size) if size > 0 else math.nan
        return size

    @property
    def _index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.names)}

    def pixel(self, unit: float) -> float:
        """Return the place of a value in units of the axis."""
        share = (unit - self.low) / ((self.high - self.low) or 1.0)
        return self.start + share * (self.end - self.start)

    def at(self, value: Any) -> float:
        """Return the place of a value."""
        return self.pixel(self.unit(value))

    @property
    def length(self) -> float:
        return abs(self.end - self.start)

    @property
    def is_visible(self) -> bool:
        return self.look.get("visible", True) is not False

    @property
    def title(self) -> str:
        title = self.look.get("title") or {}
        text = title.get("text") if isinstance(title, Mapping) else title
        return str(text or "") if self.is_visible else ""

    def ticks(self) -> list[tuple[float, str]]:
        """Return places in units of the axis, and their labels."""
        if not self.is_visible:
            return []
        if self.look.get("tickvals") is not None:
            places = values(self.look["tickvals"])
            texts = values(self.look.get("ticktext")) or [formatted(p, None) for p in places]
            return [
                (self.unit(place), str(text)) for place, text in zip(places, texts, strict=False)
            ]
        if self.kind == "category":
            return self._category_ticks()
        low, high = sorted((self.low, self.high))
        places = self._log_ticks(low, high) if self.kind == "log" else self._steps(low, high)
        form = self.look.get("tickformat")
        step = places[1] - places[0] if len(places) > 1 else 1.0
        if self.kind == "log":
            return [(place, formatted(float(f"{10**place:.6g}"), form)) for place in places]
        return [(place, tick_text(place, step, form)) for place in places]

    def _category_ticks(self) -> list[tuple[float, str]]:
        low, high = sorted((self.low, self.high))
        places = [n for n in range(len(self.names)) if low <= n <= high]
        every = 1
        room = self.length / max(1.0, high - low)
        if not self.look.get("dtick") or room < 8:
            every = max(1, math.ceil((13 if self.letter == "y" else 12) / max(room, 0.01)))
        return [(float(n), self.names[n]) for n in places[::every]]

    def _steps(self, low: float, high: float) -> list[float]:
        step = self.look.get("dtick")
        apart = 38 if self.letter == "y" else 76
        if not isinstance(step, int | float) or self.length * step / ((high - low) or 1) < 9:
            step = nice_step(high - low, max(2.0, self.length / apart))
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        return [n * step for n in range(first, min(last, first + 200) + 1)]

    def _log_ticks(self, low: float, high: float) -> list[float]:
        powers = range(math.floor(low), math.ceil(high) + 1)
        wanted = self.look.get("dtick")
        digits: tuple[int, ...] = (1,)
        if wanted == "D1":
            digits = tuple(range(1, 10))
        elif wanted == "D2" or (not wanted and high - low < 2):
            digits = (1, 2, 5)
        places = [power + math.log10(digit) for power in powers for digit in digits]
        return [place for place in places if low - 1e-9 <= place <= high + 1e-9]


def nice_step(span: float, count: float) -> float:
    """Return the step 1, 2 or 5 times a power of ten with about this many steps."""
    rough = abs(span) / count or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(nice for nice in (1, 2, 5, 10) if nice * power >= rough * (1 - 1e-9))


def tick_text(value: float, step: float, form: str | None) -> str:
    """Return the label of a tick."""
    value = 0.0 if abs(value) < abs(step) * 1e-9 else value
    if form:
        return formatted(value, form)
    decimals = max(0, -math.floor(math.log10(abs(step)) + 1e-9)) if step else 0
    if decimals > 5:
        return formatted(value, ".3~e")
    return formatted(round(value, decimals), f"{',' if abs(value) >= 1e4 else ''}.{decimals}f")


def axes_of(traces: list[dict[str, Any]], layout: Plain) -> dict[str, Axis]:
    """Return all axes that traces use, with their kinds and ranges."""
    axes: dict[str, Axis] = {}
    for letter in "xy":
        for trace in traces:
            name = trace.setdefault(f"{letter}axis", letter)
            look = layout.get(f"{letter}axis{name[1:]}") or {}
            axes.setdefault(name, Axis(name, look, [])).traces.append(trace)
    for axis in axes.values():
        axis.kind, axis.names = _kind(axis)
    for axis in axes.values():
        axis.low, axis.high = _range(axis, layout, axes)
    groups = grouped((str(axis.look.get("matches") or axis.name), axis) for axis in axes.values())
    for same in groups.values():
        if len(same) > 1 and not any(axis.look.get("range") for axis in same):
            low, high = min(axis.low for axis in same), max(axis.high for axis in same)
            for axis in same:
                axis.low, axis.high = low, high
    return axes


def _kind(axis: Axis) -> tuple[str, list[str]]:
    """Return the kind of an axis, and its categories."""
    kind = axis.look.get("type")
    data = [value for trace in axis.traces for value in along(trace, axis.letter)]
    if kind not in ("linear", "log", "category"):
        texts = [value for value in data if isinstance(value, str)]
        is_text = texts and sum(math.isnan(number(text)) for text in texts) * 2 > len(texts)
        kind = "category" if is_text else "linear"
    if kind != "category":
        return str(kind), []
    order = values(axis.look.get("categoryarray"))
    names = [str(value) for value in (*order, *data) if value is not None]
    present = {str(value) for value in data}
    return "category", [name for name in dict.fromkeys(names) if name in present or name in order]


def along(trace: Plain, letter: str) -> list[Any]:
    """Return the data of a trace along an axis."""
    if trace.get(letter) is not None:
        return values(trace[letter])
    if trace["type"] == "heatmap":
        z = values(trace.get("z"))
        return list(range(len(z) if letter == "y" else len(z[0]) if z else 0))
    return list(range(len(values(trace.get("x" if letter == "y" else "y")))))


def _range(axis: Axis, layout: Plain, axes: Mapping[str, Axis]) -> tuple[float, float]:
    """Return the ends of an axis, the first at its start."""
    given = axis.look.get("range")
    if given and None not in given:
        low, high = (number(end) for end in given)
        return low, high
    is_reversed = axis.look.get("autorange") == "reversed"
    if axis.kind == "category":
        low, high = -0.5, max(len(axis.names), 1) - 0.5
        return (high, low) if is_reversed else (low, high)
    exact: list[float] = []  # ends without room around them
    roomy: list[float] = []
    for trace in axis.traces:
        if trace["type"] == "heatmap":
            exact += cell_edges([axis.unit(v) for v in along(trace, axis.letter)])
        elif trace["type"] == "bar":
            ends, fixed = _bar_extent(axis, trace, layout)
            roomy += ends
            exact += fixed
        else:
            ends = _scatter_extent(axis, trace)
            has_marks = "markers" in mode_of(trace) or axis.letter == "y"
            (roomy if has_marks else exact).extend(ends)
    for shape in layout.get("shapes") or []:
        if str(shape.get(f"{axis.letter}ref", axis.letter)) == axis.name:
            ends = [shape.get(f"{axis.letter}{end}") for end in (0, 1)]
            exact += [number(end) if axis.kind == "log" else axis.unit(end) for end in ends]
    finite = [value for value in roomy if math.isfinite(value)]
    sharp = [value for value in exact if math.isfinite(value)]
    both = [*finite, *sharp]
    if not both:
        return (0.0, 1.0)
    low, high = min(both), max(both)
    if axis.look.get("rangemode") == "tozero" and axis.kind == "linear":
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = (low - 1, high + 1) if not sharp else (low - 0.5, high + 0.5)
    edge = ROOM * (high - low)
    is_zero = axis.look.get("rangemode") == "tozero"
    if finite and min(finite) <= low and not (is_zero and low == 0):
        low -= edge
    if finite and max(finite) >= high and not (is_zero and high == 0):
        high += edge
    return (high, low) if is_reversed else (low, high)


def mode_of(trace: Plain) -> str:
    """Return whether a trace has lines, markers, and text."""
    default = "lines+markers" if len(along(trace, "x")) < 20 else "lines"
    return str(trace.get("mode") or default)


def error_of(trace: Plain, letter: str, index: int) -> tuple[float, float]:
    """Return the lengths of an error bar to the low and to the high side."""
    error = trace.get(f"error_{letter}") or {}
    if error.get("visible") is False or error.get("array") is None:
        return 0.0, 0.0
    high = number(each(error["array"], index, 0))
    is_one = error.get("symmetric", True) or error.get("arrayminus") is None
    low = high if is_one else number(each(error["arrayminus"], index, 0))
    return max(0.0, _finite(low)), max(0.0, _finite(high))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _scatter_extent(axis: Axis, trace: Plain) -> list[float]:
    found = []
    for index, value in enumerate(along(trace, axis.letter)):
        low, high = error_of(trace, axis.letter, index)
        size = number(value)
        found += [axis.unit(value)]
        if low or high:
            found += [axis.unit(size - low), axis.unit(size + high)]
    return found


def is_flat(trace: Plain) -> bool:
    """Whether the bars of a trace are horizontal."""
    return trace.get("orientation") == "h"


def _bar_extent(axis: Axis, trace: Plain, layout: Plain) -> tuple[list[float], list[float]]:
    """Return ends of bars with room around them, and without."""
    if (axis.letter == "x") != is_flat(trace):
        units = [axis.unit(value) for value in along(trace, axis.letter)]
        half = slot(units) / 2
        return [], [end for unit in units for end in (unit - half, unit + half)]
    ends = [0.0]
    if layout.get("barmode") in ("stack", "relative"):
        place_letter = "y" if axis.letter == "x" else "x"
        totals: dict[Any, list[float]] = {}
        for other in axis.traces:
            if other["type"] == "bar":
                for place, value in zip(
                    along(other, place_letter), along(other, axis.letter), strict=False
                ):
                    pair = totals.setdefault(place, [0.0, 0.0])
                    size = _finite(number(value))
                    pair[size > 0] += size
        ends += [end for pair in totals.values() for end in pair]
    else:
        for index, value in enumerate(along(trace, axis.letter)):
            low, high = error_of(trace, axis.letter, index)
            size = number(value)
            ends += [size, size - low, size + high]
    has_text = trace.get("text") is not None or trace.get("texttemplate")
    if has_text and trace.get("textposition") != "inside":
        ends += [end * (1 + BEYOND) for end in ends if math.isfinite(end)]
    low, high = min(filter(math.isfinite, ends)), max(filter(math.isfinite, ends))
    return [end for end in (low, high) if end], [0.0]


def slot(units: Sequence[float]) -> float:
    """Return the room of a bar along its axis, in units of the axis."""
    places = sorted({unit for unit in units if math.isfinite(unit)})
    return min((b - a for a, b in pairwise(places)), default=1.0)


def cell_edges(centres: Sequence[float]) -> list[float]:
    """Return the edges of cells between their centres."""
    if len(centres) < 2:
        return [centre + side for centre in centres for side in (-0.5, 0.5)]
    middles = [(a + b) / 2 for a, b in pairwise(centres)]
    return [2 * centres[0] - middles[0], *middles, 2 * centres[-1] - middles[-1]]
