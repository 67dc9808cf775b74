"""What is won over frozen models, as a picture; and the figures of every experiment on adapting.

Pure functions of the tables of `finetune` and `frozen-vs-finetuned`; they cost milliseconds.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.view.harmless import escaped
from workbench.view.heads_grid import titles_left
from workbench.view.transfer_learning import epochs, learning
from workbench.view.transfer_scores import by_seed, cost, scores

Tables = Mapping[str, pd.DataFrame]
WRITTEN = 6  # models beside each other whose cells have all three numbers
PALE = 2.0  # a scale this much too wide: no cell is so dark that one cannot read what it says
ROW, BETWEEN = 64, 64  # pixels of a task, and between panels


def delta(tables: Tables) -> go.Figure:
    """What fine-tuning wins over the frozen model under the same head, by task and model: ❄ frozen,
    → tuned, Δ between them. Bold where the 95 % interval of Δ leaves out 0, else with a dot."""
    table = tables["delta"]
    methods = list(dict.fromkeys(table["method"]))
    tasks, models = (list(dict.fromkeys(table[name])) for name in ("task", "model"))
    largest = PALE * (float(table["delta"].abs().max()) or 1.0)
    inner = len(methods) * len(tasks) * ROW + (len(methods) - 1) * BETWEEN
    figure = make_subplots(
        len(methods),
        1,
        subplot_titles=[escaped(name) for name in methods] if len(methods) > 1 else None,
        vertical_spacing=BETWEEN / inner if len(methods) > 1 else 0,
    )
    titles_left(figure)
    for row, method in enumerate(methods, start=1):
        own = table[table["method"] == method]
        wide = own.pivot(index="task", columns="model", values="delta").reindex(
            index=tasks, columns=models
        )
        figure.add_trace(
            go.Heatmap(
                z=wide.to_numpy(dtype=float), x=models, y=tasks, zmin=-largest, zmax=largest,
                autocolorscale=True, showscale=False, xgap=3, ygap=3, hoverinfo="skip",
            ),
            row, 1,
        )  # fmt: skip
        sure = (own["lower"] > 0) | (own["upper"] < 0)
        for some, known in ((own[sure], True), (own[~sure], False)):
            figure.add_trace(_cells(some, known, len(models) <= WRITTEN), row, 1)
    figure.update_xaxes(type="category", showgrid=False, fixedrange=True)
    figure.update_xaxes(categoryorder="array", categoryarray=models)
    figure.update_yaxes(type="category", showgrid=False, fixedrange=True, autorange="reversed")
    figure.update_yaxes(categoryorder="array", categoryarray=tasks)
    figure.update_layout(height=inner + 90, dragmode=False, showlegend=False, hovermode="closest")
    return figure


def _cells(own: pd.DataFrame, sure: bool, whole: bool) -> go.Scatter:
    """What stands in cells, and what one reads when pointing at them."""
    change = "Δ %{customdata[2]:+.2f}"
    change = f"<b>{change}</b>" if sure else f"{change} ·"
    both = "❄ %{customdata[0]:.2f}<br>→ %{customdata[1]:.2f}<br>"
    columns = ["frozen", "tuned", "delta", "lower", "upper", "p_value", "metric", "strong"]
    return go.Scatter(
        x=own["model"],
        y=own["task"],
        mode="text",
        customdata=own[columns].to_numpy(dtype=object),
        texttemplate=both + change if whole else change,
        textfont={"size": 12},
        hovertemplate="<b>%{y}, %{x}</b>: %{customdata[6]}<br>frozen %{customdata[0]:.4f}, tuned "
        "%{customdata[1]:.4f}<br>Δ %{customdata[2]:+.4f}, 95 % from %{customdata[3]:+.4f} to "
        "%{customdata[4]:+.4f}<br>p = %{customdata[5]:.3g}<br>frozen under an LSTM "
        "%{customdata[7]:.4f}<extra></extra>",
    )


Draw = Callable[[Tables], Any]
FINETUNE: Mapping[str, Draw] = {"scores": by_seed, "learning": learning, "epochs": epochs}
FROZEN_VS_FINETUNED: Mapping[str, Draw] = {
    "delta": delta,
    "scores": scores,
    "cost": cost,
    "epochs": epochs,
}
