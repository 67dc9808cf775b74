"""Figures of words in their contexts: what neighbours share, by layer, and maps of senses.

Pure functions of the tables of `neighbours`, and of `Senses`. Costs: milliseconds.
"""

from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.findings import Tables, percent, plural
from workbench.core.head_names import state_name
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    STATE,
    Look,
    Trace,
    band,
    choice,
    curve,
    drawable,
    heat_map,
    marks,
    matrix,
    panels,
    plot,
    plot_or_panels,
    state_axis,
    state_cells,
)
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, CONTROL, MARKS, MODEL, SERIES

if TYPE_CHECKING:
    from workbench.analyses.words.senses import Senses

SHARE: Look = {"title": "share of neighbours", "tickformat": ".0%", "rangemode": "tozero"}
SIDE = 420  # pixels of a map
ALL, OTHER = "all words", "other forms"  # candidates
LABELS = {"tag": "part of speech", "relation": "dependency relation", "lemma": "lemma"}
TRACES = {"form": "form", "lemma": "lemma", "position": "position in the sentence",
          "document": "document"}  # fmt: skip


def shares(tables: Tables) -> go.Figure:
    """Share of the nearest neighbours of another form with the same part of speech, relation or
    lemma, by layer, with 95 % intervals over documents.

    How to read: emb. are the embeddings. Chance exchanges labels between forms of about the same
    frequency. Grey are models with random weights: only what lies above them was learnt.
    """
    table = tables["neighbours"]
    table = table[table["candidates"] == OTHER]
    parts = []
    for name, title in LABELS.items():
        for stack, own in table[table["property"] == name].groupby("stack", sort=False):
            traces = _line(own, "share", "the model", "of neighbours share it")
            traces.append(_dashed(own, "chance", "chance", CONTROL, 4))
            if own["random"].notna().any():
                traces.append(_dashed(own, "random", "random weights", BASELINE, 5))
            parts.append((_panel(title, stack, table), traces))
    return _panels(parts, table, SHARE)


def forms(tables: Tables) -> go.Figure:
    """Share of the nearest neighbours, among all words of other sentences, with the same form, the
    same lemma, at the same position and in the same document, by layer.

    How to read: where neighbours have the same form, a layer tells little of the context. A large
    share at one position is due to position embeddings.
    """
    table = tables["neighbours"]
    table = table[table["candidates"] == ALL]
    parts = []
    for stack, own in table.groupby("stack", sort=False):
        traces = []
        for style, (name, title) in enumerate(TRACES.items()):
            rows = own[own["property"] == name]
            if len(rows):
                traces += _line(rows, "share", title, "of neighbours", SERIES[style], style)
        parts.append((_panel("", stack, table), traces))
    return _panels(parts, table, SHARE)


def separation(tables: Tables) -> go.Figure:
    """How well the senses of forms are separated, by layer, with 95 % intervals over forms.

    How to read: accuracy is the share of occurrences whose nearest occurrence of the form has the
    same sense; chance is that of permuted senses, and of static vectors. The V-measure compares
    clusters with senses: 1 is one cluster for each sense, 0 is no relation.
    """
    table = tables["separation"]
    parts = []
    for measure, title in (("accuracy", "accuracy of the nearest"), ("v_measure", "V-measure")):
        for stack, own in table[table["measure"] == measure].groupby("stack", sort=False):
            traces = _line(own, "value", "the model", title)
            traces.append(_dashed(own, "chance", "permuted senses", CONTROL, 4))
            if own["random"].notna().any():
                traces.append(_dashed(own, "random", "random weights", BASELINE, 5))
            parts.append((_panel(title, stack, table), traces))
    return _panels(parts, table, {"title": "mean over forms", "range": [0, 1.03]})


def forms_with_senses(tables: Tables) -> go.Figure:
    """Accuracy of the sense of the nearest occurrence, for each form (rows) and layer (columns).

    How to read: the number after a form is the accuracy with permuted senses, which is that of
    static vectors.
    """
    table = drawable(tables["senses"], "no form has several senses")
    parts: list[tuple[object, list[Trace]]] = []
    heights, axes = [], []
    for stack, own in table.groupby("stack", sort=False):
        chances = own.groupby("form")["chance"].mean()
        names = [f"{form} ({percent(chances[form])})" for form in own["form"]]
        states, x = state_cells(sorted(set(own["layer"])))
        wide = matrix(names, own["layer"].map(state_name), own["accuracy"])[states]
        cells = heat_map(
            wide, "%{y}, %{x}: %{z:.1%}", "accuracy", "%{z:.0%}", tickformat=".0%",
            zmin=0, zmax=1, showscale=not parts,
        )  # fmt: skip
        parts.append((_panel("", stack, table), [cells]))
        axes.append(x)
        heights.append(60 + 24 * len(wide))
    return panels(parts, heights, x=axes, y=[{**CELLS, **DOWN}] * len(parts))


def sense_map(tables: Tables) -> go.Figure:
    """Occurrences of a form on a map of their states, with their sentences on hover.

    How to read: each mark is an occurrence; its colour is its sense, its shape its cluster. The
    axes are the first two principal components, at the layer with the highest accuracy.
    """
    table = drawable(tables["map"], "no form has several senses")
    parts = [
        (f"{form}, {state_name(layer)}", _points(own, "sense", own["context"]))
        for (form, layer), own in table.groupby(["form", "layer"], sort=False)
    ]
    x, y = ({"title": f"{name} principal component"} for name in AXES)
    return choice(parts, SIDE, x=x, y=y)


AXES = ("first", "second")

FIGURES = {
    "shares": shares,
    "forms": forms,
    "separation": separation,
    "forms_with_senses": forms_with_senses,
    "sense_map": sense_map,
}


def _panel(title: str, stack: object, table: pd.DataFrame) -> str:
    """The title of a panel, with the stack if there are several."""
    return ", ".join(filter(None, [title, str(stack) if table["stack"].nunique() > 1 else ""]))


def _panels(parts: list[tuple[str, list[Trace]]], table: pd.DataFrame, y: Look) -> go.Figure:
    if not parts:
        raise KeyError("no rows to draw")
    x = state_axis(table["layer"].max())
    return plot_or_panels(parts, 380, 240, x=x, y=y)


def _line(
    rows: pd.DataFrame, value: str, name: str, what: str, colour: str = MODEL, style: int = 0
) -> list[Trace]:
    """A curve over layers, with its interval as a band."""
    x = rows["layer"].tolist()
    hover = f"{STATE}, {name}: %{{y:.1%}} {what} (%{{customdata[0]:.1%}} to %{{customdata[1]:.1%}})"
    shown = rows[["lower", "upper"]]
    return [
        band(x, rows["lower"].tolist(), rows["upper"].tolist(), colour, name),
        curve(x, rows[value], hover, name, style, colour, customdata=shown),
    ]


def _dashed(rows: pd.DataFrame, column: str, name: str, colour: str, style: int) -> Trace:
    hover = f"{STATE}, {name}: %{{y:.1%}}"
    return curve(rows["layer"], rows[column], hover, name, style, colour)


# --- one word -------------------------------------------------------------------------------------


def one_form(found: "Senses", colour: str = "tag") -> go.Figure:
    """The occurrences of a word form on a map, with their sentences on hover.

    How to read: each mark is an occurrence; its colour is its label, its shape its cluster.
    """
    from workbench.analyses.words.occurrences import in_context

    table = found.table
    if colour not in table:
        raise WorkbenchError(
            f"the table has no column {colour!r}.",
            code="column-not-found",
            remedy=did_you_mean(colour, map(str, table.columns)),
        )
    axes = [
        {"title": f"{name} principal component ({percent(share)} of the variance)"}
        for name, share in zip(AXES, found.explained, strict=True)
    ]
    shown = [
        in_context(text, start, end)
        for text, start, end in table[["sentence", "start", "end"]].itertuples(index=False)
    ]
    traces = _points(table, colour, pd.Series(shown, table.index))
    return plot(
        traces,
        SIDE,
        *axes,
        title={"text": _title(found)},
        margin={"t": 48},
        hovermode="closest",
    )


def _points(table: pd.DataFrame, colour: str, contexts: pd.Series) -> list[Trace]:
    """A mark for each occurrence: its colour is its label, its shape its cluster."""
    traces = []
    for index, (label, own) in enumerate(table.groupby(table[colour].astype(str), sort=True)):
        shapes = [MARKS[cluster % len(MARKS)] for cluster in own["cluster"]]
        name, shown = str(label) or "(none)", contexts[own.index]
        tone = SERIES[index % len(SERIES)]
        traces.append(
            marks(own["x"], own["y"], "%{customdata}", name, tone, shapes, customdata=shown)
        )
    return traces


def _title(found: "Senses") -> str:
    """How well the clusters fit the labels."""
    counted = plural(len(found.table), "occurrence")
    size = f"{counted} of “{escaped(found.word)}” in {plural(found.n_clusters, 'cluster')}"
    if found.measures.empty:
        return size
    row = found.measures.iloc[0]
    return f"{size}: V-measure {row['v_measure']:.2f} with the {row['gold']}"
