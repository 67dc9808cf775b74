"""Figures of `distil`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.analyses.distillation.experiments import LOWER, STUDENT, TEACHER
from workbench.core.findings import Tables
from workbench.core.metrics import spelt
from workbench.drawing.primitives import DOWN, Draw, Look, interval, marks, panels
from workbench.drawing.theme import BASELINE, MODEL, TUNED

ROW = 34  # pixels of a model
COLOURS = {TEACHER: MODEL, STUDENT: TUNED}


def scores(tables: Tables) -> go.Figure:
    """What each model predicts, and how much of its teacher is in it, with 95 % intervals.

    How to read: blue is the teacher, orange the student, grey the same student without a teacher,
    and the baseline. Top: the score itself. Middle: 0 % is the baseline, 100 % the teacher. Bottom:
    how often the prediction is the teacher's.
    """
    table = tables["scores"]
    metric = spelt(table["metric"].iloc[0])
    better = "lower" if metric in LOWER else "higher"
    shown: tuple[tuple[str, str, str, str, Look], ...] = (
        ("value", "", f"{metric} ({better} is better)", ".3f", {}),
        ("kept", "kept_", "share of the teacher's gain kept", ".1%", {"tickformat": ".0%"}),
        ("agreement", "agreement_", "agreement with the teacher", ".1%", {"tickformat": ".0%"}),
    )
    parts, axes = [], []
    for column, prefix, title, form, axis in shown:
        known = table[table[column].notna()]
        parts.append(
            (
                "",
                [
                    marks(
                        rows[column], rows["arm"], f"%{{y}}: %{{x:{form}}}", str(arm),
                        COLOURS.get(str(arm), BASELINE), "circle", size=11, showlegend=False,
                        error_x={
                            **interval(rows, column, f"{prefix}lower", f"{prefix}upper"),
                            "color": COLOURS.get(str(arm), BASELINE),
                        },
                    )
                    for arm, rows in known.groupby("arm", sort=False)
                ],
            )
        )  # fmt: skip
        axes.append({"title": title, **axis})
    return panels(parts, ROW * len(table), x=axes, y=DOWN)


def sizes(tables: Tables) -> go.Figure:
    """Parameters of teacher and student, and seconds of a pass over the same texts.

    How to read: blue is the teacher, orange the student; further left is smaller and faster.
    """
    table = tables["sizes"]
    parts = [
        (
            "",
            [
                marks(
                    [row[column]], [row["arm"]], f"%{{y}}: {hover}", row["arm"],
                    COLOURS[row["arm"]], "circle", size=11, showlegend=False,
                )
                for row in table.to_dict("records")
            ],
        )
        for column, hover in (("parameters", "%{x:,}"), ("seconds", "%{x:.3f} s"))
    ]  # fmt: skip
    titles = ("parameters", "seconds of a pass")
    axes = [{"title": title, "rangemode": "tozero"} for title in titles]
    return panels(parts, ROW * len(table), x=axes, y=DOWN)


FIGURES: Mapping[str, Draw] = {"scores": scores, "sizes": sizes}
