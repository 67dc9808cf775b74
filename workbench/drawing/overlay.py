"""The figure of several runs on one axis: curves with bands, or marks with intervals over names.

Up to five groups are in each panel; more are a panel each, with the others in grey behind it.
Costs: milliseconds.
"""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import capital
from workbench.core.head_names import weights_name
from workbench.drawing.primitives import (
    DOWN,
    Look,
    Trace,
    band,
    curve,
    interval,
    marks,
    multiples,
    panels,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, EITHER, MARKS, SERIES

TICKS = 13  # values of an axis that have a tick each
_PLACE = ("layer", "head")  # keys that are indices
TALL, ROW = 240, 26  # pixels of a panel of curves; of a name


def overlaid(rows: pd.DataFrame) -> go.Figure:
    """One number of one table, for each group of runs.

    A line or a mark is a group of runs. The band or bar is the 95 % interval: that of a run's own
    table, or of the mean over the runs of the group. Differences are from the group that the axis
    names.
    """
    named = rows["at"].dtype.kind not in "iuf"
    about = rows.attrs
    first = about["first"]  # what an index 0 of a layer or a head is shown as
    if first and about["over"] in _PLACE:
        rows = rows.assign(at=rows["at"] + first)
    value = capital(about["value"].replace("_", " "))
    title = f"{value} minus that of {about['minus']}" if about["minus"] else value
    whole = rows["at"].dtype.kind in "iu" and rows["at"].nunique() <= TICKS
    ticks = {"tickvals": sorted(rows["at"].unique().tolist())} if whole else {}
    at: Look = {"title": _of_key(about["over"], first), **ticks}
    x, y = ({"title": title}, DOWN) if named else (at, {"title": title})
    names = list(dict.fromkeys(rows["group"]))
    tall = (
        60 + max(ROW, 12 * min(len(names), len(SERIES))) * rows["at"].nunique() if named else TALL
    )
    parts = [
        (_of_panel(about["panel"], str(name), first), each)
        for name, each in rows.groupby("panel", sort=False)
    ]
    if len(names) > len(SERIES):
        return _a_panel_each(rows, names, tall, x, y, named)
    draws = [
        (
            panel,
            [
                trace
                for name in names
                for trace in _group(each[each["group"] == name], name, names.index(name), named)
            ],
        )
        for panel, each in parts
    ]
    beside: Look = {"scattermode": "group", "scattergap": 0.3} if named else {}
    return panels(draws, tall, min(3, len(draws)), x=x, y=y, **beside)


def _of_key(key: str, first: int) -> str:
    """The title of an axis; a table has indices where people count from 1."""
    return f"{key} (from 0)" if key in _PLACE and not first else key.replace("_", " ")


def _of_panel(key: str, name: str, first: int) -> str:
    """The title of a panel; a number has its key."""
    if not name.isdecimal():
        return name
    return f"{key} {int(name) + first if key in _PLACE else name}"


def _a_panel_each(
    rows: pd.DataFrame, names: list[str], tall: float, x: Look, y: Look, named: bool
) -> go.Figure:
    """Small multiples: a panel for each group, all groups in grey behind it; of the first panel."""
    rows = rows[rows["panel"] == rows["panel"].iloc[0]]
    by_name = {name: rows[rows["group"] == name] for name in names}
    thin: Look = {"mode": "lines", "line": {"width": 1}, "opacity": 0.4}
    lines = [] if named else [*by_name.values()]
    behind = [curve(each["at"], each["value"], "", colour=BASELINE, **thin) for each in lines]
    series = [(name, _group(each, "", 0, named, EITHER)) for name, each in by_name.items()]
    return multiples(series, behind, tall=tall, x=x, y=y, showlegend=False)


def _group(rows: pd.DataFrame, name: str, index: int, named: bool, colour: str = "") -> list[Trace]:
    """One group: its values and their intervals."""
    colour = colour or SERIES[index]
    said = escaped(name)
    hover = f"{said} %{{x}}: %{{y:.4g}}"
    sure = rows.dropna(subset=["lower", "upper"])
    if named:
        bars = interval(rows, "value") if len(sure) else None
        look: dict[str, Any] = {
            "colour": colour,
            "symbol": MARKS[index % len(MARKS)],
            "error_x": bars,
            "orientation": "h",
        }
        hover = f"{said} %{{y}}: %{{x:.4g}}"
        places = rows["at"].astype(str).map(weights_name)
        return [marks(rows["value"], places, hover, name or None, **look)]
    rows, sure = rows.sort_values("at"), sure.sort_values("at")
    traces: list[Trace] = [
        curve(rows["at"], rows["value"], hover, name or None, index, colour, legendgroup=name)
    ]
    if len(sure) > 1:
        at, low, high = (sure[end].tolist() for end in ("at", "lower", "upper"))
        traces.insert(0, band(at, low, high, colour, name))
    return traces
