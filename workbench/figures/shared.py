"""Figures of several runs side by side, with the same ends of every axis and colour scale.

Costs: milliseconds.
"""

import math
from collections.abc import Sequence
from typing import Any

from workbench.figures.axes import axes_of
from workbench.figures.shapes import Plain, number, shown_traces, values


def on_shared_scales(figures: Sequence[Plain]) -> list[dict[str, Any]]:
    """Return the figures with the ends of axes and colours that have room for all their data."""
    layouts = [dict(figure.get("layout") or {}) for figure in figures]
    axes = [
        axes_of(shown_traces(figure), layout)
        for figure, layout in zip(figures, layouts, strict=True)
    ]
    for name in axes[0]:
        same = [each[name] for each in axes if name in each]
        if len(same) < len(axes) or {axis.kind for axis in same} not in ({"linear"}, {"log"}):
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
