"""Figures of `few-shot`. Pure functions of the tables; costs: milliseconds."""

from collections.abc import Mapping

import plotly.graph_objects as go

from workbench.analyses.attribution.figures.parts import part_shares
from workbench.core.findings import Tables
from workbench.drawing.primitives import DOWN, Draw, bars, curve, interval, level, marks, plot
from workbench.drawing.theme import BASELINE

SHARE = {"title": "accuracy", "tickformat": ".0%"}
SHOTS = {"title": "demonstrations", "type": "category"}
ROW = 34  # pixels of a step


def accuracy(tables: Tables) -> go.Figure:
    """Accuracy by number of demonstrations, a curve for each calibration, with 95 % intervals.

    How to read: the grey line is what always the most frequent label gives. A model that learns
    from demonstrations rises above it and above its own start.
    """
    scores = tables["scores"]
    shown = []
    own = scores[scores["prompt"].isin(["none", "demonstrations"])]
    for style, (name, rows) in enumerate(own.groupby("calibration", sort=False)):
        shown.append(
            curve(
                rows["shots"].astype(str), rows["accuracy"],
                f"{name}, %{{x}} demonstrations: %{{y:.1%}}", str(name), style,
                error_y=interval(rows, "accuracy"),
            )
        )  # fmt: skip
    ends = [str(each) for each in own["shots"].drop_duplicates()]
    majority = scores.loc[scores["prompt"] == "majority", "accuracy"].iloc[0]
    shown.append(
        level(ends, majority, "most frequent label: %{y:.1%}", "most frequent label", 0,
              colour=BASELINE)
    )  # fmt: skip
    return plot(shown, 360, x=SHOTS, y=SHARE)


def steps(tables: Tables) -> go.Figure:
    """What each part of the demonstrations adds to accuracy, with 95 % intervals.

    How to read: the bars add up to the whole gain. Format: other texts with other words in the
    place of labels; then the words of the labels, texts of the task, and the right labels.
    """
    gains = tables["gains"]
    parts = ("format", "label words", "texts of the task", "right labels")
    rows = gains[gains["gain"].isin(parts)]
    drawn = bars(
        rows["difference"], rows["gain"], "%{y}: %{x:+.1%}", spread=interval(rows, "difference")
    )
    return plot(
        [drawn], ROW * len(parts) + 90, x={"title": "accuracy", "tickformat": "+.0%"}, y=DOWN
    )


def designs(tables: Tables) -> go.Figure:
    """Accuracy of each draw of demonstrations with each template and set of label words.

    How to read: each mark is one prompt. Marks of a row that lie far apart say that the choice of
    demonstrations matters more than what is compared.
    """
    table = tables["designs"]
    names = table["template"] + " (" + table["words"] + ")"
    shown = []
    for style, (name, rows) in enumerate(table.groupby(names, sort=False)):
        shown.append(
            marks(
                rows["accuracy"], rows["shots"].astype(str),
                f"{name}, %{{y}} demonstrations: %{{x:.1%}}", str(name),
                symbol=("circle", "diamond", "square", "x")[style % 4], size=10,
            )
        )  # fmt: skip
    shots = {"title": "demonstrations", "type": "category", **DOWN}
    return plot(shown, ROW * table["shots"].nunique() + 150, x=SHARE, y=shots)


def layers(tables: Tables) -> go.Figure:
    """How many of the choices of each layer are those of the last, and how many are right.

    How to read: where the first curve reaches the top, the label is decided; the grey curve is the
    agreement of two independent choices.
    """
    rows = tables["layers"]
    names = [f"{stack} {layer}" for stack, layer in zip(rows["stack"], rows["layer"], strict=True)]
    shown = [
        curve(names, rows["agrees"], "%{x}: %{y:.1%}", "as the last layer",
              error_y=interval(rows, "agrees")),
        curve(names, rows["accuracy"], "%{x}: %{y:.1%}", "right", 1),
        curve(names, rows["chance"], "%{x}: %{y:.1%}", "chance agreement", 2, BASELINE),
    ]  # fmt: skip
    return plot(shown, 340, x={"title": "layer", "type": "category"},
                y={"title": "texts", "tickformat": ".0%"})  # fmt: skip


def heads(tables: Tables) -> go.Figure:
    """Accuracy without the heads of most induction, and without random ones.

    How to read: heads that carry what is learnt from demonstrations lower accuracy when they are
    removed, and random ones do not.
    """
    rows = tables["heads"]
    names = [
        f"{kind} ({heads})" if heads else "all heads"
        for kind, heads in zip(rows["removed"], rows["heads"], strict=True)
    ]
    drawn = marks(
        rows["accuracy"], names, "without %{y}: %{x:.1%}", size=10,
        error_x=interval(rows, "accuracy"),
    )  # fmt: skip
    return plot([drawn], ROW * len(names) + 90, x=SHARE, y={**DOWN, "title": "removed"})


def origins(tables: Tables) -> go.Figure:
    """Share of the chosen label's attribution, by demonstration and in the text in question.

    How to read: circles are shares of all absolute scores, with 95 % intervals; diamonds are what
    the parts have of the pieces, crosses what they have with random weights. A label that is looked
    up in a demonstration has much of the attribution there.
    """
    table = tables["attribution"]
    names = table["demonstration"].where(
        table["label"] == "", table["demonstration"] + " " + table["label"]
    )
    return part_shares(table.assign(shown=names), "part", "shown")


FIGURES: Mapping[str, Draw] = {
    "accuracy": accuracy, "steps": steps, "designs": designs, "layers": layers, "heads": heads,
    "origins": origins,
}  # fmt: skip
