"""Figures of a model beside a trigram model. Pure functions of the tables of `trigram`."""

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.theme import EITHER

Tables = Mapping[str, pd.DataFrame]
FORMS = {"accuracy": ".1%"}  # how a measure is written; others with three digits


def scores(tables: Tables) -> go.Figure:
    """What the model and the trigram model make of the same pieces, a panel a measure. More is
    better of accuracy, less of perplexity."""
    table = tables["scores"]
    names = [escaped(measure) for measure in table["measure"]]
    figure = make_subplots(1, len(table), subplot_titles=names, horizontal_spacing=0.18)
    for column, row in enumerate(table.to_dict("records"), start=1):
        form = FORMS.get(str(row["measure"]), ".3g")
        bars = go.Bar(
            x=["model", "trigram"],
            y=[row["model"], row["trigram"]],
            texttemplate=f"%{{y:{form}}}",
            textposition="outside",
            cliponaxis=False,
            marker_color=EITHER,
            hovertemplate=f"%{{x}}: %{{y:{form}}}, n = {row['n']:,}<extra></extra>",
        )
        figure.add_trace(bars, 1, column)
        figure.update_yaxes(tickformat=form, row=1, col=column)
    figure.update_layout(height=320, showlegend=False, margin={"t": 48})
    return figure


FIGURES = {"scores": scores}
