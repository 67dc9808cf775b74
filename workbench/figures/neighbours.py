"""Figures of words in their contexts: what neighbours share, by layer, and maps of senses.

Pure functions of the tables of `neighbours`, and of `Senses`. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.findings import plural
from workbench.core.public import public
from workbench.figures.primitives import Trace, marks, plot
from workbench.figures.sanitize import escaped
from workbench.figures.theme import MARKS, SERIES
from workbench.words.occurrences import in_context
from workbench.words.senses import Senses

SIDE = 420  # pixels of a map


@public
def senses_figure(found: Senses, colour: str = "tag") -> go.Figure:
    """Draw the occurrences of a word form on a map, with their sentences on hover.

    Args:
        found: What `wb.senses` returned.
        colour: The column of its table that colours the marks (default: `tag`); their shapes are
            the clusters.

    Returns:
        A Plotly figure.

    Example:
        >>> model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=200")
        >>> figure = wb.senses_figure(wb.senses(model, corpus, "to"))
        >>> figure.data[0].type
        'scatter'
    """
    table = found.table
    if colour not in table:
        raise WorkbenchError(
            f"the table has no column {colour!r}.",
            code="column-not-found",
            remedy=did_you_mean(colour, map(str, table.columns)),
        )
    names = ["x", "y"] if not sum(found.explained) else [
        f"{name} component ({share:.0%} of the variance)"
        for name, share in zip(("first", "second"), found.explained, strict=True)
    ]  # fmt: skip
    look = {"title": {"text": _title(found)}, "margin": {"t": 48}}
    return plot(_points(table, colour), SIDE, {"title": names[0]}, {"title": names[1]}, **look)


def _points(table: pd.DataFrame, colour: str) -> list[Trace]:
    """A mark for each occurrence: its colour is its label, its shape its cluster."""
    traces = []
    for index, (label, own) in enumerate(table.groupby(table[colour].astype(str), sort=True)):
        shown = [
            escaped(in_context(text, start, end))
            for text, start, end in own[["sentence", "start", "end"]].itertuples(index=False)
        ]
        shapes = [MARKS[cluster % len(MARKS)] for cluster in own["cluster"]]
        hover = "%{customdata}"
        traces.append(
            marks(
                own["x"], own["y"], hover, str(label) or "(none)", SERIES[index % len(SERIES)],
                shapes, customdata=shown,
            )
        )  # fmt: skip
    return traces


def _title(found: Senses) -> str:
    """How well the clusters fit the labels."""
    counted = plural(len(found.table), "occurrence")
    size = f"{counted} of “{escaped(found.word)}” in {plural(found.n_clusters, 'cluster')}"
    if found.measures.empty:
        return size
    row = found.measures.iloc[0]
    return f"{size}: V-measure {row['v_measure']:.2f} with the {row['gold']}"
