"""Curves of a run that is under way, such as its loss by step.

A pure function of the points that the run has reported. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.drawing.primitives import curve, panels
from workbench.drawing.theme import BASELINE, SERIES

ACROSS = 3
COLUMNS = ("run", "series", "measure", "x", "y", "of")


def curves(points: pd.DataFrame) -> go.Figure:
    """Values that the run has reported so far.

    How to read: one panel per run and measure; the latest attempt is coloured, earlier ones are
    grey.
    """
    parts = []
    several = points["run"].nunique() > 1
    points = points.assign(unit=points["measure"].str.split().str[-1])
    for (run, unit), rows in points.groupby(["run", "unit"], sort=False):
        shown = []
        latest = rows["series"].iloc[-1]
        measures = list(dict.fromkeys(rows["measure"]))
        for (series, measure), part in rows.groupby(["series", "measure"], sort=False):
            number = measures.index(measure)
            is_latest = series == latest
            name = str(measure) if is_latest else "earlier attempts"
            hover = f"{series}<br>" if series else ""
            shown.append(
                curve(
                    part["x"],
                    part["y"],
                    f"{hover}step %{{x:,}}: {measure} %{{y:.4g}}",
                    name,
                    number,
                    SERIES[number % len(SERIES)] if is_latest else BASELINE,
                    mode="lines" if len(part) > 40 else "lines+markers",
                    opacity=1.0 if is_latest else 0.4,
                    showlegend=is_latest,
                )
            )
        title = f"{run}: {unit}" if several else str(latest)
        parts.append((title, shown))
    total = points["of"].dropna().max()
    x = "done, %" if total == 100 else f"step of {total:,.0f}" if total == total else "step"
    y = str(points["unit"].iloc[-1])
    return panels(parts, 180, ACROSS, x={"title": x, "rangemode": "tozero"}, y={"title": y})
