"""Figures of `geometry`: contextuality and anisotropy by layer, frequency, and word forms.

Pure functions of its tables. Costs: milliseconds.
"""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.corpora.word_groups import FUNCTION
from workbench.drawing.primitives import (
    STATE,
    Look,
    Trace,
    band,
    bars,
    curve,
    interval,
    level,
    marks,
    plot,
    plot_or_panels,
    state_axis,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, CONTROL, SERIES

Curve = tuple[str, str, str, int]  # measure, name, weights, style


def contextuality(tables: Tables) -> go.Figure:
    """How context-specific words are by layer, corrected for anisotropy, with 95 % intervals.

    How to read: at 1 a word form has the same state in every context; the lower its
    self-similarity, the more the context decides. Intra-sentence similarity says how much words
    share with their sentence. The grey line is the self-similarity with random weights.
    """
    return _by_layer(
        tables["layers"],
        (
            ("self_similarity_corrected", "self-similarity", "model", 0),
            ("intra_sentence_corrected", "intra-sentence similarity", "model", 1),
            ("explained_variance_corrected", "explained variance", "model", 2),
            ("self_similarity_corrected", "self-similarity, random weights", "random", 5),
        ),
        "corrected for anisotropy",
    )


def anisotropy(tables: Tables) -> go.Figure:
    """Mean cosine of random words by layer: as it is, and where few dimensions cannot dominate.

    How to read: at 0 states are spread over all directions, near 1 they lie in a narrow cone. If
    standardising the dimensions takes the cosine to 0, single dimensions make the cone. The grey
    line is models with random weights.
    """
    return _by_layer(
        tables["layers"],
        (
            ("anisotropy", "as it is", "model", 0),
            ("anisotropy_standardised", "standardised", "model", 1),
            ("anisotropy_without_top", "without the top components", "model", 2),
            ("anisotropy", "random weights", "random", 5),
        ),
        "mean cosine of random words",
    )


def similarity(tables: Tables) -> go.Figure:
    """Self-similarity of word forms by layer, not corrected, next to that of random words.

    How to read: the distance between self-similarity and the mean cosine of random words is what a
    word keeps of itself in all contexts.
    """
    return _by_layer(
        tables["layers"],
        (
            ("self_similarity", "self-similarity", "model", 0),
            ("self_similarity_standardised", "self-similarity, standardised", "model", 1),
            ("intra_sentence", "intra-sentence similarity", "model", 2),
            ("anisotropy", "random words", "model", 3),
        ),
        "mean cosine",
    )


def frequency(tables: Tables) -> go.Figure:
    """Spearman's correlation of the log frequency of word forms with their self-similarity and with
    the norm of their states, with 95 % intervals.

    How to read: below 0 frequent words vary more with context, or have shorter states. Grey are
    models with random weights.
    """
    table = tables["frequency"]
    if table.empty:
        return plot([], 200, {"title": "layer"}, {"title": "no word form has enough contexts"})
    parts = []
    for stack, own in table.groupby("stack", sort=False):
        traces: list[Trace] = []
        for style, measure in enumerate(("self_similarity", "norm")):
            rows, name = own[own["measure"] == measure], measure.replace("_", "-")
            if rows.empty:
                continue
            hover = f"{STATE}: {name} %{{y:.2f}} (%{{customdata[0]:.2f}} to %{{customdata[1]:.2f}})"
            colour, x = SERIES[style], rows["layer"].tolist()
            traces.append(band(x, rows["lower"].tolist(), rows["upper"].tolist(), colour, name))
            ends = rows[["lower", "upper"]]
            traces.append(curve(x, rows["rho"], hover, name, style, colour, customdata=ends))
            if rows["random"].notna().all():
                hover = f"{STATE}: {name} with random weights %{{y:.2f}}"
                name = f"{name}, random weights"
                traces.append(curve(x, rows["random"], hover, name, style, BASELINE))
        parts.append((str(stack), traces))
    return _panels(parts, table, {"title": "Spearman's rho"})


def word_classes(tables: Tables) -> go.Figure:
    """Self-similarity of function words and of content words by layer, with 95 % intervals.

    How to read: the lower curve belongs to the words that vary more with their context. Without
    both classes the parts of speech with most word forms are shown.
    """
    table = tables["groups"]
    if table.empty:
        return plot([], 200, {"title": "layer"}, {"title": "no word form has enough contexts"})
    is_class = table["by"] == "class"
    shown = table[is_class] if is_class.any() else table
    sizes = shown.drop_duplicates("group").sort_values("n", ascending=False, kind="stable")
    names = sizes["group"].head(5).tolist()
    parts = []
    for stack, own in shown.groupby("stack", sort=False):
        traces: list[Trace] = []
        for style, name in enumerate(sorted(names)):
            rows = own[own["group"] == name]
            hover = (
                f"{STATE}: {escaped(name)} %{{y:.3f}} (%{{customdata[0]:.3f}} to "
                "%{customdata[1]:.3f})"
            )
            x, colour = rows["layer"].tolist(), SERIES[style]
            traces.append(band(x, rows["lower"].tolist(), rows["upper"].tolist(), colour, name))
            ends = rows[["lower", "upper"]]
            traces.append(
                curve(x, rows["self_similarity"], hover, name, style, colour, customdata=ends)
            )
        parts.append((str(stack), traces))
    return _panels(parts, table, {"title": "self-similarity"}, zero=False)


def forms(tables: Tables) -> go.Figure:
    """Each word form in the last layer: its frequency and its self-similarity.

    How to read: each mark is a word form; low marks are words whose state depends most on the
    context.
    """
    table = tables["forms"]
    if table.empty:
        return plot([], 200, {"title": "count"}, {"title": "no word form has enough contexts"})
    parts = []
    for stack, own in table.groupby("stack", sort=False):
        rows = own[own["layer"] == own["layer"].max()]
        is_function = rows["tag"].isin([*FUNCTION])
        traces = [
            marks(
                group["count"],
                group["self_similarity"],
                "%{customdata[0]} (%{customdata[1]}): %{y:.3f} in %{customdata[2]} of %{x} words",
                name,
                colour,
                symbol,
                customdata=pd.DataFrame(
                    {
                        "form": group["form"].map(escaped),
                        "tag": group["tag"].map(escaped),
                        "contexts": group["contexts"],
                    }
                ),
            )
            for name, group, colour, symbol in (
                ("function words", rows[is_function], SERIES[1], "diamond"),
                ("other words", rows[~is_function], SERIES[0], "circle"),
            )
            if len(group)
        ]
        parts.append((str(stack), traces))
    x: Look = {"title": "count in the texts", "type": "log"}
    y: Look = {"title": "self-similarity, last layer"}
    return plot_or_panels(parts, x=x, y=y)


def dimensions(tables: Tables) -> go.Figure:
    """Share of the mean cosine of random words that the largest dimensions contribute, by layer.

    How to read: a large share means that cosines in this layer say little about the other
    dimensions. Layers whose mean cosine is not positive have no share.
    """
    table = tables["dimensions"]
    table = table[table["rank"] == "all"]
    n = tables["dimensions"]["rank"].nunique() - 1
    traces = []
    for style, (stack, rows) in enumerate(table.groupby("stack", sort=False)):
        rows = rows[rows["share"].notna()]
        traces.append(
            bars(
                rows["share"],
                rows["layer"],
                f"{STATE}: %{{y:.1%}} of the mean cosine",
                str(stack) if table["stack"].nunique() > 1 else None,
                SERIES[style],
                upright=True,
                spread=interval(rows, "share"),
            )
        )
    y: Look = {"title": f"share of the {n} largest", "tickformat": ".0%", "rangemode": "tozero"}
    x = state_axis(table["layer"].max())
    return plot(traces, 320, x, y)


FIGURES = {
    "contextuality": contextuality,
    "anisotropy": anisotropy,
    "similarity": similarity,
    "dimensions": dimensions,
    "frequency": frequency,
    "word_classes": word_classes,
    "forms": forms,
}


def _by_layer(table: pd.DataFrame, curves: Sequence[Curve], title: str) -> go.Figure:
    """Curves of measures over layers, with their intervals, a panel for each stack."""
    parts = []
    for stack, own in table.groupby("stack", sort=False):
        traces: list[Trace] = []
        for measure, name, weights, style in curves:
            rows = own[(own["measure"] == measure) & (own["weights"] == weights)]
            if rows.empty:
                continue
            colour = BASELINE if weights == "random" else SERIES[style]
            x, ends = rows["layer"].tolist(), rows[["lower", "upper"]]
            hover = f"{STATE}: {name} %{{y:.3f}} (%{{customdata[0]:.3f}} to %{{customdata[1]:.3f}})"
            traces.append(band(x, rows["lower"].tolist(), rows["upper"].tolist(), colour, name))
            traces.append(curve(x, rows["value"], hover, name, style, colour, customdata=ends))
        parts.append((str(stack), traces))
    return _panels(parts, table, {"title": title})


def _panels(
    parts: list[tuple[str, list[Trace]]], table: pd.DataFrame, y: Look, zero: bool = True
) -> go.Figure:
    """The panels of the stacks, with a line at zero."""
    deepest = int(table["layer"].max())
    x = state_axis(deepest)
    for _, traces in parts if zero else ():
        line = level([0, max(deepest, 1)], 0.0, "", "zero", 2, line={"color": CONTROL, "width": 1})
        line.showlegend, line.hoverinfo = False, "skip"
        traces.insert(0, line)
    return plot_or_panels(parts, x=x, y=y)
