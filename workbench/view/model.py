"""Figures of what a model is: where its parameters are, and its losses.

Pure functions of the tables of `profile`; they cost milliseconds.
"""

import math
from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.view.harmless import escaped

Tables = Mapping[str, pd.DataFrame]


def modules(tables: Tables) -> go.Figure:
    """Parameters by part, in the order of the model, its input at the top."""
    table = tables["modules"]
    bars = go.Bar(
        x=table["parameters"],
        y=table["module"],
        orientation="h",
        hovertemplate="%{y}: %{x:,} parameters<extra></extra>",
    )
    figure = go.Figure(bars)
    figure.update_layout(height=200 + 26 * len(table))
    figure.update_xaxes(title="parameters")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def losses(tables: Tables) -> go.Figure:
    """Every measure as a number, named by what it is of."""
    table = tables["losses"]
    figure = go.Figure()
    columns = min(len(table), 3)
    for place, row in enumerate(table.to_dict("records")):
        metric = escaped(row["metric"]).replace("_", " ")
        split, value = escaped(row["split"]), float(row["value"])
        figure.add_trace(
            go.Indicator(
                mode="number",
                value=None if math.isnan(value) else value,
                number={"valueformat": ".4~g", "font": {"size": 32}},
                title={
                    "text": f"{metric}<br>{split}, n = {row['n']:,}",
                    "font": {"size": 14},
                },
                domain={"row": place // columns, "column": place % columns},
            )
        )
    rows = -(-len(table) // columns)
    figure.update_layout(
        grid={"rows": rows, "columns": columns, "pattern": "independent"}, height=150 + 130 * rows
    )
    return figure


FIGURES = {"modules": modules, "losses": losses}
