"""The question "What does layer 5 know?": a box for the layer, and the findings of that layer.

Costs: the facts of the model, which are cached; reading two tables of a run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.probes.findings import one_layer
from workbench.app import cache, tables_and_figures
from workbench.core.findings import Finding
from workbench.core.head_names import state_name

if TYPE_CHECKING:
    from workbench.runs.run import Run

LAYER = "layer"  # in the address


def choose(models: Sequence[str], asked: Mapping[str, str]) -> dict[str, str]:
    """Draw the layers of the model; return the chosen one (default: the middle one)."""
    n_layers = max(stack["layers"] for stack in cache.facts(models[0])["stacks"])
    layers = [str(layer) for layer in range(n_layers + 1)]
    given = asked.get(LAYER)
    first = layers.index(given) if given in layers else (n_layers + 1) // 2
    picked = st.selectbox(
        "Layer",
        layers,
        first,
        format_func=lambda layer: state_name(int(layer)),
        key=f"layer of a question, {n_layers} {first}",
        width=140,
    )
    return {LAYER: picked or layers[first]}


def answer(runs: "Sequence[Run]", asked: Mapping[str, str]) -> Iterator[Finding]:
    """What the layer knows, and the layers below and above it."""
    tables = {name: tables_and_figures.table_of(runs[0], name) for name in ("summary", "means")}
    return one_layer(tables, int(asked[LAYER]))
