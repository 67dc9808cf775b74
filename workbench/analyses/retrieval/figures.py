"""Figures of `retrieve`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.analyses.attribution.figures.parts import part_shares
from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Draw, interval, marks, panels
from workbench.drawing.theme import BASELINE, MODEL

ROW = 36  # pixels of a row


def retrieval(tables: Tables) -> go.Figure:
    """How often the passage with the answer is found, by retriever, with 95 % intervals.

    How to read: a panel per measure; MRR is the mean of 1 / rank. A grey diamond is a random order.
    """
    parts = []
    for measure, rows in tables["retrieval"].groupby("measure", sort=False):
        chance = marks(
            rows["chance"], rows["retriever"], "random order: %{x:.1%}", "random order", BASELINE,
            "diamond", size=8,
        )  # fmt: skip
        own = marks(
            rows["value"], rows["retriever"], f"%{{y}}: {measure} %{{x:.1%}}", "found", MODEL,
            "circle", size=10, error_x={**interval(rows, "value"), "color": MODEL},
        )  # fmt: skip
        parts.append((str(measure), [chance, own]))
    n_rows = tables["retrieval"]["retriever"].nunique()
    return panels(parts, ROW * n_rows + 20, x={"tickformat": ".0%", "range": [-0.02, 1.04]}, y=DOWN)


def answers(tables: Tables) -> go.Figure:
    """The right answer by what the model reads before it: its nats, or how often it is given.

    How to read: fewer nats are a more probable answer. A model that reads needs fewest with the
    passage that has the answer, and a random passage is no better than none. A model that finds
    answers gives the right one (exact) more often with its question than with another one.
    """
    rows = tables["answers"]
    column, title = ("nats", "nats of the right answer") if "nats" in rows else ("exact", "exact")
    own = marks(
        rows[column], rows["passages"], f"%{{y}}: %{{x:.2f}} {column}", "right answer", MODEL,
        "circle", size=10,
        error_x={
            **interval(rows, column, f"{column}_lower", f"{column}_upper"), "color": MODEL,
        },
    )  # fmt: skip
    x = {"title": title, "rangemode": "tozero"}
    return panels([("", [own])], ROW * len(rows) + 20, x=x, y=DOWN)


def swaps(tables: Tables) -> go.Figure:
    """Share of questions in which another answer is more probable than the right one, by passage.

    How to read: with the answer exchanged, the passage says the other one. A model that follows its
    passage prefers it there only; one that goes by its weights prefers it equally often everywhere.
    """
    rows = tables["swaps"]
    own = marks(
        rows["other"], rows["passage"], "%{y}: %{x:.1%}", "other answer preferred", MODEL, "circle",
        size=10, error_x={**interval(rows, "other"), "color": MODEL},
    )  # fmt: skip
    x = {"title": "other answer preferred", "tickformat": ".0%", "range": [-0.02, 1.04]}
    return panels([("", [own])], ROW * len(rows) + 20, x=x, y=DOWN)


def attribution(tables: Tables) -> go.Figure:
    """Share of the answer's attribution in each part of what is read, by kind of passage.

    How to read: circles are shares of all absolute scores, with 95 % intervals; diamonds are what
    the parts have of the pieces, crosses what they have with random weights. A model that reads the
    answer off its passage has much of the attribution on the answer there.
    """
    return part_shares(tables["attribution"], "passages", "part")


FIGURES: Mapping[str, Draw] = {
    "retrieval": retrieval, "swaps": swaps, "answers": answers, "attribution": attribution,
}  # fmt: skip
