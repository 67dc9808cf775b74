"""Figures of `domain`: what each arm predicts, splits, moves and learns.

Pure functions of the tables. Costs: milliseconds.
"""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.domain.experiments import DOMAIN_TEXT, GENERAL
from workbench.core.findings import Tables
from workbench.core.metrics import spelt
from workbench.drawing.primitives import (
    DOWN,
    STATE,
    Draw,
    Trace,
    curve,
    interval,
    marks,
    panels,
    state_axis,
)
from workbench.drawing.theme import BASELINE, MODEL, TUNED

ROW = 30  # pixels of an arm
TITLES = {DOMAIN_TEXT: "text of the domain", GENERAL: "general text"}


def bits(tables: Tables) -> go.Figure:
    """Bits per character of text that no model was trained on, with 95 % intervals.

    How to read: one row per arm; further left is better. Compare arms within a panel: one text may
    be harder than another.
    """
    table = tables["bits"]
    hover = "%{y}: %{x:.3f} bits per character, n = %{customdata:,} texts"
    parts = [
        (title, [_points(table[table["text"] == text], "bits_per_character", hover, "texts")])
        for text, title in TITLES.items()
    ]
    return _rows(parts, len(table) // 2, "bits per character (lower is better)")


def words(tables: Tables) -> go.Figure:
    """Pieces per word by the general vocabulary and by the domain's own.

    How to read: blue is the general vocabulary, orange the domain's own; further left is split
    less, and 1 is a word in one piece.
    """
    table = tables["fertility"]
    shown = [
        marks(
            table[column], table["words"], f"%{{y}}: %{{x:.2f}} pieces per word, {name}", name,
            colour, symbol, size=11,
        )
        for column, name, colour, symbol in (
            ("general", "general vocabulary", MODEL, "circle"),
            ("own", "own vocabulary", TUNED, "diamond"),
        )
    ]  # fmt: skip
    return panels([("", shown)], 30 + ROW * len(table), x={"title": "pieces per word"}, y=DOWN)


def drift(tables: Tables) -> go.Figure:
    """How far the states of each layer moved from the model as is: 1 − CKA, means over seeds.

    How to read: 0 is unchanged. Orange: trained further on the domain. Grey: as long on general
    text; what lies above it is due to the domain. emb.: the embeddings.
    """
    parts = []
    for stack, rows in tables["drift"].groupby("stack", sort=False):
        lines = [
            curve(
                rows["layer"], rows[column], f"{name}, {STATE}: %{{y:.3f}}", name, style,
                colour,
            )
            for style, (column, name, colour) in enumerate(
                (("further", "domain", TUNED), ("control", "general", BASELINE))
            )
        ]  # fmt: skip
        parts.append((str(stack) if tables["drift"]["stack"].nunique() > 1 else "", lines))
    x = state_axis(tables["drift"]["layer"].max())
    return panels(parts, 240, x=x, y={"title": "1 − CKA", "rangemode": "tozero"})


def tasks(tables: Tables) -> go.Figure:
    """Score of each arm on each task, frozen and fine-tuned, with 95 % intervals.

    How to read: further right is better (of an error, further left). A grey diamond is the baseline
    without a model.
    """
    parts = []
    for (task, method, metric), rows in tables["tasks"].groupby(
        ["task", "method", "metric"], sort=False
    ):
        baseline = marks(
            rows["baseline"], rows["arm"], "%{y}: the baseline is %{x:.3f}", "baseline", BASELINE,
            "diamond", size=8,
        )  # fmt: skip
        points = _points(rows, "value", "%{y}: %{x:.3f}, n = %{customdata:,} texts", "texts")
        parts.append((f"{task}, {method} ({spelt(str(metric))})", [baseline, points]))
    return _rows(parts, tables["tasks"]["arm"].nunique(), "score")


def _points(rows: pd.DataFrame, column: str, hover: str, n: str) -> Trace:
    return marks(
        rows[column], rows["arm"], hover, "arm", MODEL, "circle", size=11, showlegend=False,
        error_x={**interval(rows, column), "color": MODEL}, customdata=rows[n].tolist(),
    )  # fmt: skip


def _rows(parts: list[tuple[str, list[Trace]]], n_arms: int, title: str) -> go.Figure:
    return panels(parts, 30 + ROW * n_arms, x={"title": title}, y=DOWN)


FIGURES: Mapping[str, Draw] = {"bits": bits, "words": words, "drift": drift, "tasks": tasks}
