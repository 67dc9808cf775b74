"""Figures of `architectures`. Pure functions of its tables. Costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.drawing.primitives import DOWN, Draw, Tables, curve, interval, marks, panels
from workbench.drawing.theme import BASELINE, MODEL, SERIES

ROW = 34  # pixels of an architecture


def losses(tables: Tables) -> go.Figure:
    """Bits per character of the held-out targets by each architecture, a panel per objective.

    How to read: points are means over seeds with 95 % intervals, small circles single seeds; the
    lower, the better; the grey line is a model that knows only how frequent each piece is. Panels
    have different targets and cannot be compared.
    """
    parts = []
    for goal, table in tables["table"].groupby("objective", sort=False):
        cells = tables["cells"][tables["cells"]["objective"] == goal]
        at, order = float(table["unigram"].iloc[0]), list(table["arm"])
        parts.append(
            (
                str(goal),
                [
                    curve(
                        [at, at], [order[0], order[-1]], f"frequencies alone: {at:.2f}",
                        colour=BASELINE, marker={"symbol": "line-ns", "size": 12},
                        line={"width": 2, "dash": "solid"},
                    ),
                    marks(
                        cells["bits_per_character"], cells["arm"],
                        "%{y}, seed %{customdata}: %{x:.3f}", colour=BASELINE,
                        symbol="circle-open", size=6, customdata=cells["seed"],
                    ),
                    marks(
                        table["bits_per_character"], table["arm"],
                        "%{y}: %{x:.3f} bits per character<br>%{customdata[0]:,} parameters, "
                        "%{customdata[1]:.0f} million operations per text",
                        colour=MODEL, symbol="circle", size=10,
                        error_x={**interval(table, "bits_per_character"), "color": MODEL},
                        customdata=table[["parameters", "operations"]].to_numpy(),
                    ),
                ],
            )
        )  # fmt: skip
    x = {"title": "bits per character", "rangemode": "normal"}
    return panels(
        parts, ROW * len(order) + 20, len(parts), x=x, y=DOWN, apart=0.3, showlegend=False
    )


def costs(tables: Tables) -> go.Figure:
    """Bits per character against the operations of a text, a panel per objective.

    How to read: the lower and the further left, the better; larger points have more parameters.
    """
    parts = []
    for goal, table in tables["table"].groupby("objective", sort=False):
        most = table["parameters"].max()
        shown = [
            marks(
                [row["operations"]], [row["bits_per_character"]],
                f"{row['arm']}: %{{y:.3f}} bits per character at %{{x:.0f}} million operations, "
                f"{row['parameters']:,} parameters",
                row["arm"], SERIES[index % len(SERIES)], "circle",
                size=8 + 8 * row["parameters"] / most,
            )
            for index, row in enumerate(table.to_dict("records"))
        ]  # fmt: skip
        parts.append((str(goal), shown))
    x = {"title": "million operations per text", "rangemode": "tozero"}
    return panels(parts, 220, len(parts), x=x, y={"title": "bits per character"}, apart=0.2)


FIGURES: Mapping[str, Draw] = {"losses": losses, "costs": costs}
