"""Figures of `smaller-model`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.analyses.compression.figures import SYMBOLS, lost, speed
from workbench.core.findings import Tables
from workbench.drawing.primitives import Draw, interval, marks, panels
from workbench.drawing.theme import BASELINE, CONTROL, SERIES

TALL = 360


def points(tables: Tables) -> go.Figure:
    """The share of the score that each model keeps on dev, against its size, with 95 % intervals.

    How to read: the dotted line is the share that was to be kept. Filled marks were chosen, each
    stage going on from the one before; the star is the original.
    """
    table = tables["points"]
    whole = tables["sizes"].iloc[0]
    drawn = [
        marks(
            [whole["disk"]], [1.0], "original: %{x:.2f} MiB", "original", CONTROL, "star", size=12
        )
    ]
    for number, (stage, rows) in enumerate(table.groupby("stage", sort=False)):
        symbol = SYMBOLS[number % len(SYMBOLS)]
        names = [
            f"{row.amount}{', trained again' if row.trained else ''}" for row in rows.itertuples()
        ]
        symbols = [symbol if row.chosen else f"{symbol}-open" for row in rows.itertuples()]
        drawn.append(
            marks(
                rows["disk"], rows["kept"],
                f"{stage}, %{{customdata}}: %{{y:.1%}}, %{{x:.2f}} MiB", str(stage),
                SERIES[number % len(SERIES)], symbols, size=10, customdata=names,
                error_y={**interval(rows, "kept"), "width": 0},
            )
        )  # fmt: skip
    metric = tables["kept"]["score"].iloc[0]
    x = {"title": "size on disk, MiB", "rangemode": "tozero"}
    y = {"title": f"share of {metric} kept on dev", "tickformat": ".0%"}
    figure = panels([("", drawn)], TALL, x=x, y=y)
    bound = float(tables["kept"]["bound"].iloc[0])
    return figure.add_hline(y=bound, line={"color": BASELINE, "dash": "dot"})


FIGURES: Mapping[str, Draw] = {"points": points, "speed": speed, "lost": lost}
