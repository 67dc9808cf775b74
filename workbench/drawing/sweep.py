"""The figure of a sweep: the numbers of its runs, by group and measure.

Costs: nothing; a sweep of 10,000 runs has 10,000 marks a panel.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import SCALED, capital
from workbench.drawing.primitives import DOWN, Draw, Tables, interval, marks, panels
from workbench.drawing.theme import EITHER

NUMBERS = "numbers_of_runs"
PANELS = 6  # measures that are drawn
ROW = 26  # pixels of a group


def numbers(tables: Tables) -> go.Figure:
    """The numbers of the findings, for each run of the sweep.

    A mark is a run, the vertical stroke the mean of a group of runs that differ only in their seed.
    Where a group has one run, its 95 % interval is drawn. The dotted line is the value without the
    effect.
    """
    table = tables[NUMBERS]
    n_runs = table["run"].nunique()
    counts = table.groupby("measure", sort=False)["run"].nunique()
    measures = [str(measure) for measure in counts[counts == n_runs].index][:PANELS]
    by_measure = [table[table["measure"] == measure] for measure in measures]
    units = [str(rows["unit"].iloc[0]) for rows in by_measure]
    figure = panels(
        [(capital(name), _traces(rows)) for name, rows in zip(measures, by_measure, strict=True)],
        tall=40 + ROW * max(1, table["group"].nunique()),
        x=[{"title": unit or "value", "zeroline": False} for unit in units],
        y=DOWN,
        showlegend=False,
    )
    for place, (rows, unit) in enumerate(zip(by_measure, units, strict=True), start=1):
        nulls = rows["null"].dropna().unique()
        if len(nulls) == 1:
            figure.add_vline(_scale(unit) * nulls[0], row=place, col=1, line={"dash": "dot"})
    return figure


def _traces(rows: pd.DataFrame) -> list[go.Scatter]:
    """A mark for each run, and a stroke at the mean of each group of several."""
    scale = _scale(str(rows["unit"].iloc[0]))
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
            customdata=scaled["run"],
            marker={"opacity": 0.7},
        )
    ]
    if alone["lower"].notna().any():
        bars = interval(alone, "value")
        traces.append(marks(alone["value"], alone["group"], "", colour=EITHER, error_x=bars))
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


def _scale(unit: str) -> int:
    return 100 if unit in SCALED else 1


FIGURES: Mapping[str, Draw] = {"numbers": numbers}
