"""Figures of the logit lens: what layers predict, and where predictions become final.

Pure functions of the tables of `lens`, and of one `LensReading`. Costs: milliseconds.
"""

from collections.abc import Iterator

import pandas as pd
import plotly.graph_objects as go

from workbench.core.errors import listed
from workbench.core.findings import Tables
from workbench.core.head_names import state_name
from workbench.drawing.primitives import (
    CELLS,
    STATE,
    Look,
    Trace,
    band,
    curve,
    heat_map,
    matrix,
    panels,
    plot,
    plot_or_panels,
    state_axis,
    state_cells,
)
from workbench.drawing.theme import BASELINE, MODEL, TUNED

SHARE: Look = {"title": "share of words", "tickformat": ".0%", "range": [0, 1.03]}
FEW = 10  # words of a tag; rarer tags are left out of the figure
NAMES = {"agreement": "agrees with the last layer", "accuracy": "is right"}


def predictions(tables: Tables) -> go.Figure:
    """Share of words for which the top choice of a state is the model's own prediction, and for
    which it is right, with 95 % intervals over documents.

    How to read: emb. are the embeddings; points between two layers are states after an
    attention. The grey line is the agreement within models with random weights: they also settle,
    on choices that are never right.
    """
    table = tables["layers"]
    parts = []
    for stack, own in _by_stack(table):
        traces = []
        for measure, name, colour, style in (
            ("agreement", NAMES["agreement"], MODEL, 0),
            ("accuracy", NAMES["accuracy"], TUNED, 1),
        ):
            traces += _line(own, "model", measure, name, colour, style, ".1%")
        traces += _line(own, "random", "agreement", "random weights agree", BASELINE, 5, ".1%")
        parts.append((stack, traces))
    return _panels(parts, table, SHARE)


def divergence(tables: Tables) -> go.Figure:
    """Divergence of the final distribution from that of each state, and entropy of each state, in
    nats.

    How to read: the divergence falls to 0 at the last layer; the entropy shows how sharp the
    prediction of a state is. A low entropy with a high divergence is a confident wrong guess.
    """
    table = tables["layers"]
    parts = []
    for stack, own in _by_stack(table):
        traces = _line(own, "model", "kl", "divergence (KL)", MODEL, 0, ".3f")
        traces += _line(own, "model", "entropy", "entropy", TUNED, 1, ".3f")
        parts.append((stack, traces))
    return _panels(parts, table, {"title": "nats", "rangemode": "tozero"})


def final(tables: Tables) -> go.Figure:
    """Share of predictions that no longer change from a layer on, for all words, and for words by
    their frequency.

    How to read: a curve that rises early belongs to words that the model decides early. The grey
    line is models with random weights.
    """
    table = tables["final"]
    parts = []
    for stack, own in table.groupby("stack", sort=False):
        everything = own[own["by"] == "all"]
        traces: list[Trace] = []
        x = everything["layer"].tolist()
        ends = everything["lower"].tolist(), everything["upper"].tolist()
        traces.append(band(x, *ends, MODEL, "all words"))
        traces.append(_cumulative(everything, "cumulative", "all words", 0, MODEL))
        if everything["random"].notna().all():
            traces.append(_cumulative(everything, "random", "random weights", 5, BASELINE))
        bins = own[(own["by"] == "frequency") & (own["n"] >= FEW)]
        for style, (group, rows) in enumerate(bins.groupby("group", sort=False)):
            name = f"rank {group}"
            traces.append(_cumulative(rows, "cumulative", name, style + 1, None))
        parts.append((str(stack), traces))
    return _panels(parts, table, {**SHARE, "title": "share of predictions"})


def final_by_tag(tables: Tables) -> go.Figure:
    """Distribution of the layer from which predictions no longer change, by part of speech, or of
    texts by their true class.

    How to read: each row sums to 100 %; tags are sorted by the mean layer, the earliest on top.
    Tags with fewer than ten words are left out.
    """
    table = tables["final"]
    stack = table["stack"].iloc[-1]  # that the head reads
    rows = table[(table["stack"] == stack) & (table["by"] == "tag") & (table["n"] >= FEW)]
    for by in ("label", "all"):  # of texts
        if rows.empty:
            rows = table[(table["stack"] == stack) & (table["by"] == by)]
    means = (rows["share"] * rows["layer"]).groupby(rows["group"]).sum()
    order = means.sort_values(kind="stable").index
    rows = rows.set_index("group").loc[order].reset_index()
    names, x = state_cells(sorted(set(rows["layer"])))
    wide = matrix(
        [f"{group} ({n:,})" for group, n in zip(rows["group"], rows["n"], strict=True)],
        rows["layer"].map(state_name),
        rows["share"],
    )[names]
    cells = heat_map(
        wide,
        "%{y}: %{z:.1%} final from %{x}",
        "share",
        "%{z:.0%}",
        tickformat=".0%",
        zmin=0,
        zmax=1,
    )
    y = {**CELLS, "type": "category", "autorange": "reversed"}
    x = {**x, "title": "layer from which the prediction is final"}
    return plot([cells], 130 + 26 * len(wide), x, y)


def grid(tables: Tables) -> go.Figure:
    """Top choice of every state (rows) for every word (columns) of one text, and its probability.

    How to read: from the embeddings (bottom) to the last layer (top), as in nostalgebraist's logit
    lens. For one word the columns are its most probable choices instead.
    """
    choices = tables["choices"]
    parts: list[tuple[object, list[Trace]]] = []
    heights = []
    for stack, own in choices.groupby("stack", sort=False):
        is_single = own["place"].nunique() == 1
        shown = own if is_single else own[own["rank"] == 1]
        rows = _state_names(shown)
        if is_single:
            columns = shown["rank"].map(lambda rank: f"{rank}.")
        else:
            columns = shown["place"].map(_column_names(own))
        is_score = bool(shown["probability"].isna().all())  # of a task head
        wide = matrix(rows, columns, shown["probability"].fillna(0.0))
        texts = matrix(rows, columns, shown["choice"].map(lambda choice: listed([choice])))
        cells = heat_map(
            wide,
            "%{y}, %{x}: “%{text}”" + ("" if is_score else " %{z:.1%}"),
            "probability",
            "%{text}",
            tickformat=".0%",
            text=texts.to_numpy(),
            zmin=0,
            zmax=1,
            showscale=not parts and not is_score,
        )
        parts.append((stack if choices["stack"].nunique() > 1 else "", [cells]))
        heights.append(max(120, 24 * len(wide)))
    return panels(parts, heights, x={**CELLS, "type": "category"}, y={**CELLS, "type": "category"})


FIGURES = {
    "predictions": predictions,
    "final": final,
    "final_by_tag": final_by_tag,
    "divergence": divergence,
}


def _by_stack(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each stack, with the place of each state on the axis of layers."""
    for stack, own in table.groupby("stack", sort=False):
        model = own[own["weights"] == "model"]
        states = model[["layer", "sublayer"]].drop_duplicates()
        index = states.groupby("layer").cumcount() + 1
        size = states.groupby("layer")["sublayer"].transform("size")
        x = (states["layer"] - 1 + index / size).clip(lower=0)
        yield str(stack), own.merge(states.assign(x=x), on=["layer", "sublayer"])


def _line(
    table: pd.DataFrame, weights: str, measure: str, name: str, colour: str, style: int, form: str
) -> list[Trace]:
    """A curve over the states, with its interval as a band."""
    rows = table[(table["weights"] == weights) & (table["measure"] == measure)]
    if rows.empty:
        return []
    x, shown = rows["x"].tolist(), rows[["lower", "upper"]].assign(state=_state_names(rows))
    hover = (
        f"%{{customdata[2]}}: {name} %{{y:{form}}} "
        f"(%{{customdata[0]:{form}}} to %{{customdata[1]:{form}}})"
    )
    return [
        band(x, rows["lower"].tolist(), rows["upper"].tolist(), colour, name),
        curve(x, rows["value"], hover, name, style, colour, customdata=shown),
    ]


def _cumulative(
    rows: pd.DataFrame, column: str, name: str, style: int, colour: str | None
) -> go.Scatter:
    hover = f"{name}: %{{y:.1%}} final from {STATE} or below"
    return curve(rows["layer"], rows[column], hover, name, style, colour)


def _panels(parts: list[tuple[str, list[Trace]]], table: pd.DataFrame, y: Look) -> go.Figure:
    x = state_axis(table["layer"].max())
    return plot_or_panels(parts, x=x, y=y)


def _column_names(rows: pd.DataFrame) -> dict[int, str]:
    """The word of each place, in other categories where a word occurs again."""
    words = rows.drop_duplicates("place")
    again = words.groupby("word").cumcount()
    names = [word + " " * n for word, n in zip(words["word"], again, strict=True)]
    return dict(zip(words["place"], names, strict=True))


def _state_names(rows: pd.DataFrame) -> pd.Series:
    """The states as they are written on an axis: `layer 3`, or `layer 3, attention`."""
    ends = rows["sublayer"].isin(["embeddings", "mlp"])
    names = rows["layer"].map(state_name)
    return names.where(ends, names + ", " + rows["sublayer"])
