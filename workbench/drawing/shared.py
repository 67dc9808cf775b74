"""Figures of several runs side by side, with the same ends of every axis and colour scale, and the
same order of rows and columns.

Costs: milliseconds.
"""

import math
from collections.abc import Sequence
from typing import Any

from workbench.drawing.axes import Axis, axes_of
from workbench.drawing.shapes import Plain, number, shown_traces, values


def on_shared_scales(figures: Sequence[Plain]) -> list[dict[str, Any]]:
    """Return the figures with the ends of axes and colours that have room for all their data.

    Names on an axis have the order of the first figure; names that it lacks come last.
    """
    layouts = [dict(figure.get("layout") or {}) for figure in figures]
    axes = [
        axes_of(shown_traces(figure), layout)
        for figure, layout in zip(figures, layouts, strict=True)
    ]
    for name in axes[0]:
        same = [each[name] for each in axes if name in each]
        kinds = {axis.kind for axis in same}
        if len(same) == len(axes) and kinds == {"category"}:
            _share_names(same, layouts)
        if len(same) < len(axes) or kinds not in ({"linear"}, {"log"}):
            continue
        ends = [end for axis in same for end in (axis.low, axis.high)]
        range_ = [min(ends), max(ends)]
        for axis, layout in zip(same, layouts, strict=True):
            ordered = range_[::-1] if axis.low > axis.high else range_
            key = f"{axis.letter}axis{name[1:]}"
            layout[key] = {**(layout.get(key) or {}), "range": ordered}
    data = [[dict(trace) for trace in figure.get("data", [])] for figure in figures]
    for traces in zip(*data, strict=False):
        if all(trace.get("type") == "heatmap" for trace in traces):
            _share_colours(traces)
    return [
        {"data": traces, "layout": layout} for traces, layout in zip(data, layouts, strict=True)
    ]


def _share_names(same: Sequence[Axis], layouts: Sequence[dict[str, Any]]) -> None:
    """Give axes that have names in common all names in one order, and figures room for them."""
    if not set.intersection(*(set(axis.names) for axis in same)):
        return
    if any(axis.look.get("range") for axis in same):  # some names are not shown
        return
    names = list(dict.fromkeys(name for axis in same for name in axis.names))
    heights = [height for layout in layouts if (height := layout.get("height"))]
    for axis, layout in zip(same, layouts, strict=True):
        key = f"{axis.letter}axis{axis.name[1:]}"
        order = {"categoryorder": "array", "categoryarray": names}
        layout[key] = {**(layout.get(key) or {}), **order}
        if axis.letter == "y" and heights:
            layout["height"] = max(heights)


def _share_colours(traces: Sequence[dict[str, Any]]) -> None:
    cells = [_cells(trace) for trace in traces]
    if not all(cells):
        return
    lows = [number(trace.get("zmin", min(own))) for trace, own in zip(traces, cells, strict=True)]
    highs = [number(trace.get("zmax", max(own))) for trace, own in zip(traces, cells, strict=True)]
    for trace in traces:
        trace["zmin"], trace["zmax"] = min(lows), max(highs)


def _cells(trace: Plain) -> list[float]:
    rows = values(trace.get("z"))
    return [size for row in rows for cell in row if math.isfinite(size := number(cell))]
