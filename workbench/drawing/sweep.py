"""Figures of several runs: the numbers of a sweep by group, and of a training by step.

Costs: nothing; a sweep of 10,000 runs has 10,000 marks a panel.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import NUMBERS, SCALED, Tables, capital, shown
from workbench.drawing.primitives import DOWN, Draw, band, curve, interval, marks, panels
from workbench.drawing.theme import BASELINE, EITHER

PANELS = 6  # measures that are drawn
ROW = 26  # pixels of a group
HEIGHT = 150  # pixels of a curve


def numbers(tables: Tables) -> go.Figure:
    """The numbers of the findings, for each run of the sweep.

    A mark is a run, the vertical stroke the mean of a group of runs that differ only in their seed.
    Where a group has one run, its 95 % interval is drawn.
    """
    table = tables[NUMBERS]
    n_runs = table["run"].nunique()
    counts = table.groupby("measure", sort=False)["run"].nunique()
    measures = [str(measure) for measure in counts[counts == n_runs].index][:PANELS]
    by_measure = [table[table["measure"] == measure] for measure in measures]
    units = [str(rows["unit"].iloc[0]) for rows in by_measure]
    return panels(
        [(_title(rows), _traces(rows)) for rows in by_measure],
        tall=40 + ROW * max(1, table["group"].nunique()),
        x=[{"title": unit or "value", "zeroline": False} for unit in units],
        y=DOWN,
        showlegend=False,
    )


def by_step(tables: Tables) -> go.Figure:
    """The numbers of the findings of a model that trains, by step.

    A panel for each measure that changes. The pale band is the 95 % interval, the dotted line the
    value without the effect.
    """
    table = tables[NUMBERS]
    kept = table.groupby("measure", sort=False)["value"].nunique()
    changing = kept[kept > 1].index if (kept > 1).any() else kept.index
    by_measure = [table[table["measure"] == measure] for measure in changing[:PANELS]]
    return panels(
        [(capital(rows["measure"].iloc[0]), _line(rows)) for rows in by_measure],
        tall=HEIGHT,
        x={"title": "step"},
        y=[{"title": str(rows["unit"].iloc[0]) or "value"} for rows in by_measure],
        showlegend=False,
    )


def _line(rows: pd.DataFrame) -> list[go.Scatter]:
    """A measure by step, with its interval and its value without the effect."""
    scale = 100 if rows["unit"].iloc[0] in SCALED else 1
    names = ["value", "lower", "upper", "null"]
    rows = rows.assign(**{name: scale * rows[name] for name in names})
    sure, compared = rows.dropna(subset=["lower", "upper"]), rows.dropna(subset=["null"])
    hover = "step %{x:,}: %{y:.4g}"
    traces = [curve(rows["step"], rows["value"], hover, colour=EITHER)]
    if len(sure) > 1:
        steps, lower, upper = (sure[name].tolist() for name in ("step", "lower", "upper"))
        traces.insert(0, band(steps, lower, upper, EITHER, ""))
    if len(compared):
        hover = f"without the effect: {hover}"
        null = curve(
            compared["step"], compared["null"], hover, style=2, colour=BASELINE, mode="lines"
        )
        traces.append(null)
    return traces


def _title(rows: pd.DataFrame) -> str:
    """The measure, with its value without the effect if that is the same in all runs."""
    first, nulls = rows.iloc[0], rows["null"].dropna().unique()
    null = f" (without the effect: {shown(nulls[0], first['unit'])})" if len(nulls) == 1 else ""
    return f"{capital(first['measure'])}{null}"


def _traces(rows: pd.DataFrame) -> list[go.Scatter]:
    """A mark for each run, and a stroke at the mean of each group of several."""
    scale = 100 if rows["unit"].iloc[0] in SCALED else 1
    scaled = rows.assign(**{name: scale * rows[name] for name in ("value", "lower", "upper")})
    scaled["group"] = scaled["group"].replace("", "all runs")
    size = scaled.groupby("group", sort=False)["run"].transform("size")
    alone = scaled[size == 1]
    traces = [
        marks(
            scaled["value"],
            scaled["group"],
            "%{customdata}: %{x:.4g}",
            colour=EITHER,
            symbol="circle",
            customdata=scaled["run"],
            marker={"opacity": 0.7},
        )
    ]
    if alone["lower"].notna().any():
        bars = interval(alone, "value")
        traces.append(
            marks(alone["value"], alone["group"], "", colour=EITHER, symbol="circle", error_x=bars)
        )
    several = scaled[size > 1].groupby("group", sort=False)["value"].mean()
    if len(several):
        traces.append(
            marks(
                several,
                several.index,
                "mean of %{y}: %{x:.4g}",
                colour=EITHER,
                symbol="line-ns-open",
                size=18,
                marker={"line": {"width": 2}},
            )
        )
    return traces


FIGURES: Mapping[str, Draw] = {"numbers": numbers}
