"""The number of parameters of each part of a model, as bars. Costs: milliseconds."""

import plotly.graph_objects as go

from workbench.core.findings import Tables, percent
from workbench.core.head_names import weights_name
from workbench.drawing.primitives import DOWN, bars, plot

END = {"r": 56}  # pixels for texts at the ends of bars


def modules(tables: Tables) -> go.Figure:
    """Number of parameters of each part of the model.

    How to read: one bar per part, from the input (top) to the output; the text is its share of all
    parameters. Shared parameters count once, in the first part.
    """
    table = tables["modules"]
    sizes = table["parameters"]
    parts = bars(
        sizes,
        table["module"].map(weights_name),
        "%{y}: %{x:,} parameters, %{text} of all",
        text=[percent(share) for share in sizes / max(sizes.sum(), 1)],
        textposition="outside",
        cliponaxis=False,
    )
    return plot([parts], 130 + 26 * len(table), {"title": "number of parameters"}, DOWN, margin=END)
