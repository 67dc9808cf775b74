"""Figures of `architectures`, `recurrence` and `text-length`. Pure functions of tables.

Costs: milliseconds.
"""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Draw, curve, interval, marks, panels, plot
from workbench.drawing.theme import BASELINE, MODEL, SERIES, TUNED

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
    names = {"categoryorder": "array", "categoryarray": list(dict.fromkeys(tables["table"]["arm"]))}
    return panels(parts, ROW * len(order) + 20, x=x, y={**DOWN, **names}, showlegend=False)


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


# --- recurrence -----------------------------------------------------------------------------------


def by_memory(tables: Tables) -> go.Figure:
    """Bits per character by segment and memory, with 95 % intervals over seeds.

    How to read: the lower, the better; diamonds read the memory of another text; the grey line is
    the frequencies of pieces.
    """
    table = tables["table"]
    names = [f"{row['segment']} + {row['memory']}" for row in table.to_dict("records")]
    has_memory = table["memory"] > 0
    at = float(table["unigram"].iloc[0])
    shown = [
        curve(
            [at, at], [names[0], names[-1]], f"frequencies of pieces: {at:.2f}", "frequencies",
            colour=BASELINE, marker={"symbol": "line-ns", "size": 12},
            line={"width": 2, "dash": "solid"},
        ),
        marks(
            table["bits_per_character"], names, "%{y}: %{x:.3f} bits per character", "own memory",
            MODEL, "circle", size=10,
            error_x={**interval(table, "bits_per_character"), "color": MODEL},
        ),
        marks(
            table[has_memory]["other_text"],
            [name for name, has in zip(names, has_memory, strict=True) if has],
            "%{y}, memory of another text: %{x:.3f}", "another text's", TUNED, "diamond-open",
        ),
    ]  # fmt: skip
    return plot(
        shown, max(300, ROW * len(names) + 150), {"title": "bits per character"},
        {**DOWN, "title": "segment + memory", "categoryorder": "array", "categoryarray": names},
    )  # fmt: skip


def positions(tables: Tables) -> go.Figure:
    """Loss in nats by quarter of a segment, a panel for each length of segments.

    How to read: a memory lowers the loss most where a segment has read least, in its first quarter.
    """
    parts = []
    for segment, part in tables["positions"].groupby("segment", sort=False):
        shown = [
            curve(
                mine["quarter"], mine["loss"], f"memory {memory}, quarter %{{x}}: %{{y:.3f}} nats",
                f"memory {memory}", index, SERIES[index % len(SERIES)],
                error_y=interval(mine, "loss"),
            )
            for index, (memory, mine) in enumerate(part.groupby("memory", sort=False))
        ]  # fmt: skip
        parts.append((f"segments of {segment}", shown))
    x = {"title": "quarter of the segment", "dtick": 1}
    return panels(parts, 220, len(parts), x=x, y={"title": "loss, nats"}, apart=0.2)


def lengths(tables: Tables) -> go.Figure:
    """Operations per piece, in thousands, by the length of a text.

    How to read: reading a text at once costs more per piece the longer it is; segments do not.
    """
    shown = []
    ways = tables["costs"].groupby(["segment", "memory"], sort=False)
    for index, ((segment, memory), part) in enumerate(ways):
        name = f"{segment} + {memory}" if segment else "whole text"
        hover = f"{name}: %{{y:,.0f}} thousand operations per piece of a text of %{{x}}"
        colour = SERIES[index % len(SERIES)]
        shown.append(curve(part["length"], part["operations"], hover, name, index, colour))
    x = {"title": "pieces of a text", "type": "log", "dtick": "D2"}
    return plot(shown, 340, x, {"title": "thousand operations per piece", "rangemode": "tozero"})


RECURRENCE_FIGURES: Mapping[str, Draw] = {
    "losses": by_memory,
    "positions": positions,
    "costs": lengths,
}


# --- length of texts ------------------------------------------------------------------------------


def _by_length(tables: Tables, measure: str, unit: str) -> go.Figure:
    shown = []
    for index, (attention, part) in enumerate(tables["costs"].groupby("attention", sort=False)):
        hover = f"{attention}, %{{x}} pieces: %{{y:.3~g}} {unit}"
        colour = SERIES[index % len(SERIES)]
        shown.append(curve(part["length"], part[measure], hover, str(attention), index, colour))
    x = {"title": "pieces of a text", "rangemode": "tozero"}
    return plot(shown, 340, x, {"title": unit, "rangemode": "tozero"})


def memory(tables: Tables) -> go.Figure:
    """Megabytes of all tensors of a pass by the length of a text.

    How to read: a straight line grows with the length; full attention that stores its weights
    bends up, as its maps grow with the square of the length.
    """
    return _by_length(tables, "memory", "megabytes")


def seconds(tables: Tables) -> go.Figure:
    """Seconds of a forward and a backward pass by the length of a text.

    How to read: a straight line grows with the length; where curves cross, windows begin to pay.
    """
    return _by_length(tables, "seconds", "seconds")


def by_length(tables: Tables) -> go.Figure:
    """Nats per masked piece of the held-out text, by length and attention.

    How to read: the lower, the better, within a length; points are means over seeds with 95 %
    intervals; the grey line is the frequencies of pieces.
    """
    table = tables["table"]
    names = [f"{row['attention']}, {row['length']}" for row in table.to_dict("records")]
    at = float(table["unigram"].mean())
    shown = [
        curve(
            [at, at], [names[0], names[-1]], f"frequencies of pieces: {at:.2f}", "frequencies",
            colour=BASELINE, marker={"symbol": "line-ns", "size": 12},
            line={"width": 2, "dash": "solid"},
        ),
        marks(
            table["loss"], names, "%{y}: %{x:.3f} nats per masked piece", "models", MODEL,
            "circle", size=10, error_x={**interval(table, "loss"), "color": MODEL},
        ),
    ]  # fmt: skip
    return plot(
        shown, max(300, ROW * len(names) + 150), {"title": "nats per masked piece"},
        {**DOWN, "title": "attention, pieces", "categoryorder": "array", "categoryarray": names},
    )  # fmt: skip


TEXT_LENGTH_FIGURES: Mapping[str, Draw] = {
    "memory": memory,
    "seconds": seconds,
    "losses": by_length,
}


# --- scaling --------------------------------------------------------------------------------------


def _short(number: float) -> str:
    """A number as the name of a line: `25k`, `1.2M`."""
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.0f}k"


def _on_logarithms(tables: Tables, by: str, each: str, unit: str, of: str) -> go.Figure:
    """A curve for each size or amount of data, on two logarithmic axes."""
    shown = []
    for index, (value, part) in enumerate(tables["table"].groupby(each, sort=True)):
        points = part.sort_values(by)
        hover = f"{value:,} {of}, %{{x:,}} {unit}: %{{y:.3f}} bits per character"
        shown.append(
            curve(
                points[by], points["bits_per_character"], hover, _short(float(str(value))), index,
                SERIES[index % len(SERIES)],
                error_y=interval(points, "bits_per_character"),
            )
        )  # fmt: skip
    x = {"title": unit, "type": "log"}
    return plot(shown, 380, x, {"title": "bits per character", "type": "log"})


def by_size(tables: Tables) -> go.Figure:
    """Bits per character by the number of weights; one line per amount of data.

    How to read: on two logarithmic axes a power law is a straight line, as steep as its exponent; a
    line that flattens has too little data for its size.
    """
    return _on_logarithms(tables, "parameters", "pieces", "weights", "pieces")


def by_data(tables: Tables) -> go.Figure:
    """Bits per character by the number of pieces; one line per size.

    How to read: a line as steep as its neighbours has the same exponent; lines that cross show that
    more data needs a larger model.
    """
    return _on_logarithms(tables, "pieces", "parameters", "pieces", "weights")


def at_equal_operations(tables: Tables) -> go.Figure:
    """Bits per character by the number of weights, at equal operations.

    How to read: each line is a budget; its lowest point is the best size for it. Where the lowest
    point is at an end, the best size lies beyond.
    """
    if "budgets" not in tables:
        raise KeyError("three sizes with common operations")
    shown = []
    for index, (operations, part) in enumerate(tables["budgets"].groupby("operations")):
        name = f"{operations:.1e}"
        hover = f"{name} operations, %{{x:,}} weights: %{{y:.3f}} bits per character"
        colour = SERIES[index % len(SERIES)]
        y = part["bits_per_character"]
        shown.append(curve(part["parameters"], y, hover, name, index, colour))
    x = {"title": "weights", "type": "log"}
    return plot(shown, 380, x, {"title": "bits per character"})


SCALING_FIGURES: Mapping[str, Draw] = {
    "size": by_size,
    "data": by_data,
    "budgets": at_equal_operations,
}
