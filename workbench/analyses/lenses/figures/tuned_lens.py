"""Figures of `tuned-lens`: both lenses by layer, the bias check, and the training of the maps.

Pure functions of the tables. Costs: milliseconds.
"""

from collections.abc import Callable, Iterator

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.core.head_names import state_name
from workbench.drawing.primitives import (
    STATE,
    Look,
    Trace,
    curve,
    interval,
    level,
    panels,
    state_axis,
)
from workbench.drawing.theme import BASELINE, MODEL, TUNED

LENSES = {"logit": MODEL, "tuned": TUNED}
NATS = {"title": "nats", "rangemode": "tozero"}


def loss(tables: Tables) -> go.Figure:
    """Divergence of each layer's prediction from the final one, in nats, with 95 % intervals.

    How to read: the lower, the closer to what the model predicts in the end; above the grey line a
    lens says less than one fixed distribution for all texts. The tuned lens reads through a
    trained map.
    """
    rows = tables["baselines"].set_index("baseline")["loss"]
    constant = float(rows["constant"])

    def baseline(ends: list[int]) -> list[Trace]:
        return [_level(ends, constant, "constant", "%{y:.3f} nats for a constant prediction")]

    return _by_layer(tables["layers"], "loss", "%{y:.3f} nats", NATS, baseline)


def agreement(tables: Tables) -> go.Figure:
    """Share of predictions whose most likely choice is already the final one, with 95 % intervals.

    How to read: the higher, the more of the final predictions can be read at the layer; the grey
    line is the share for one fixed choice.
    """
    rows = tables["baselines"].set_index("baseline")["agreement"]
    constant = float(rows["constant"])

    def baseline(ends: list[int]) -> list[Trace]:
        return [_level(ends, constant, "constant", "%{y:.1%} for a constant prediction")]

    share = {
        "title": "agreement with the final prediction",
        "tickformat": ".0%",
        "range": [0, 1.03],
    }
    return _by_layer(tables["layers"], "agreement", "%{y:.1%}", share, baseline, "agreement_")


def bias(tables: Tables) -> go.Figure:
    """Divergence of each lens's mean distribution from the final layer's, with 95 % intervals.

    How to read: 0 is a lens without bias; a lens far above 0 prefers other pieces than the model
    does, whatever the text.
    """
    return _by_layer(tables["bias"], "bias", "%{y:.3f} nats", NATS, lambda ends: [])


def training(tables: Tables) -> go.Figure:
    """Loss on dev texts by training step, in nats, one curve per layer.

    How to read: step 0 is the logit lens; a curve that still falls at its end belongs to a map that
    has not converged.
    """
    table = tables["curve"]
    dev = table[table["split"] == "dev"]
    parts = []
    for stack, of_stack in dev.groupby("stack", sort=False):
        lines = [
            curve(
                rows["step"], rows["loss"],
                f"{state_name(layer)}: %{{y:.3f}} nats at step %{{x}}", state_name(layer), n,
            )
            for n, (layer, rows) in enumerate(of_stack.groupby("layer", sort=False))
        ]  # fmt: skip
        parts.append((stack if dev["stack"].nunique() > 1 else "", lines))
    return panels(parts, 320, len(parts), x={"title": "training steps"}, y=NATS)


def _by_layer(
    table: pd.DataFrame,
    column: str,
    form: str,
    y: Look,
    baseline: Callable[[list[int]], list[Trace]],
    bounds: str = "",
) -> go.Figure:
    """One curve per lens, one panel per stack."""
    parts = []
    for stack, of_stack in table.groupby("stack", sort=False):
        lines = [*_lenses(of_stack, column, form, bounds)]
        ends = [int(of_stack["layer"].min()), int(of_stack["layer"].max())]
        name = stack if table["stack"].nunique() > 1 else ""
        parts.append((name, [*baseline(ends), *lines]))
    x = state_axis(table["layer"].max())
    return panels(parts, 320, len(parts), x=x, y=y)


def _lenses(rows: pd.DataFrame, column: str, form: str, bounds: str) -> Iterator[Trace]:
    for n, (lens, colour) in enumerate(LENSES.items()):
        own = rows[rows["lens"] == lens]
        yield curve(
            own["layer"], own[column], f"{STATE}: {form}", f"{lens} lens", n, colour,
            error_y=interval(own, column, f"{bounds}lower", f"{bounds}upper"),
        )  # fmt: skip


def _level(ends: list[int], value: float, name: str, hover: str) -> Trace:
    return level(ends, value, hover, name, 2, line={"color": BASELINE})


FIGURES = {"loss": loss, "agreement": agreement, "bias": bias, "training": training}
