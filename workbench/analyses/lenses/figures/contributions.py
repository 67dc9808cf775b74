"""Figures of direct contributions: by head, by layer, by part of speech, and their gains.

Pure functions of the tables of `contributions`. Costs: milliseconds.
"""

import pandas as pd
import plotly.graph_objects as go

from workbench.core.findings import Tables
from workbench.core.head_names import FIRST, block_name, has_several_kinds, part_name
from workbench.drawing.primitives import (
    CELLS,
    DOWN,
    bars,
    drawable,
    ends,
    head_grid,
    heat_map,
    interval,
    marks,
    matrix,
    plot,
)
from workbench.drawing.theme import MODEL, NOT_SIGNIFICANT, SERIES

MOST = 20  # parts that are shown
UNIT = "nats above the mean logit"
SOURCES = ("embeddings", "attention", "cross-attention", "MLP", "biases")


def heads(tables: Tables) -> go.Figure:
    """Mean contribution of each head to the model's own choice, in nats above the mean logit.

    How to read: one cell per head, one panel per kind of attention; blue raises the choice, orange
    lowers it. Grey heads do not raise the true word significantly more than other words.
    """
    rows = tables["components"].query("part == 'head'").reset_index(drop=True)
    return head_grid(
        rows,
        rows["contribution"],
        significant=rows["writes"],
        form="%{z:.2f}",
        hover="head %{y}.%{x}: %{z:.3f}",
        tickformat=".2f",
        **ends(rows["contribution"]),
    )


def layers(tables: Tables) -> go.Figure:
    """Mean contribution of each layer to the model's own choice, in nats above the mean logit.

    How to read: for each layer one bar for its heads together and one for its MLP, with 95 %
    intervals over documents; right of 0 raises the choice. Biases and embeddings are bars of their
    own.
    """
    table = tables["layers"]
    names = [
        "final biases" if layer == -1 and source == "biases" else
        source if layer == -1 else block_name(layer)
        for layer, source in zip(table["layer"], table["source"], strict=True)
    ]  # fmt: skip
    table = table.assign(name=names)[table["contribution"] != 0]  # T5 has no biases
    drawn = [
        bars(
            rows["contribution"],
            rows["name"],
            "%{y}: %{x:.2f}",
            source,
            SERIES[index],
            spread=interval(rows, "contribution"),
        )
        for index, source in enumerate(SOURCES)
        for rows in [table[table["source"] == source]]
        if len(rows)
    ]
    order = list(dict.fromkeys(table["name"]))
    return plot(
        drawn,
        130 + 44 * len(order),
        {"title": f"mean contribution, {UNIT}"},
        {**DOWN, "categoryorder": "array", "categoryarray": order},
        barmode="group",
    )


def gains(tables: Tables) -> go.Figure:
    """Gain of the largest parts for the true word in its own context, in nats.

    How to read: right of 0, a part raises the true word more where it is right than elsewhere, and
    more than other words of its part of speech; lines are 95 % intervals over documents. Pale parts
    are not significant in the permutation test.
    """
    table = _largest(tables["components"], "gain")
    parts = [
        marks(
            rows["gain"],
            rows["name"],
            "%{y}: gain %{x:.3f}, p = %{customdata:.2g}",
            name,
            colour,
            "circle",
            size=10,
            error_x={**interval(rows, "gain", "gain_lower", "gain_upper"), "color": colour},
            customdata=rows["p"],
        )
        for rows, name, colour in (
            (table[table["writes"].astype(bool)], "raises the true word", MODEL),
            (table[~table["writes"].astype(bool)], "not significant", NOT_SIGNIFICANT),
        )
        if len(rows)
    ]
    return plot(
        parts,
        130 + 24 * len(table),
        {"title": "gain for the true word, nats", "rangemode": "tozero"},
        {**DOWN, "categoryorder": "array", "categoryarray": list(table["name"])},
    )


def tags(tables: Tables) -> go.Figure:
    """Mean contribution of the largest parts, by part of speech of the predicted word, in nats.

    How to read: one row per part of the model, one column per part of speech; blue raises the
    model's own choice, orange lowers it.
    """
    table = drawable(tables["tags"], "no tags")
    chosen = _largest(tables["components"], "contribution")["name"]
    table = table.assign(name=_names(table))
    table = table[table["name"].isin(set(chosen))]
    wide = matrix(table["name"], table["tag"], table["contribution"])
    cells = heat_map(
        wide,
        "%{y}, %{x}: %{z:.2f}",
        form="%{z:.2f}",
        tickformat=".1f",
        **ends(table["contribution"]),
    )
    return plot(
        [cells],
        130 + 24 * len(wide),
        {**CELLS, "title": "part of speech of the predicted word", "type": "category"},
        {**CELLS, **DOWN},
    )


def _names(table: pd.DataFrame) -> list[str]:
    several = has_several_kinds(table[table["part"] == "head"])
    return [part_name(row, several) for row in table.to_dict("records")]


def _largest(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """The parts with the largest values, without biases, in the order of the model."""
    table = table[~table["part"].str.endswith("-bias")]
    table = table.assign(name=_names(table))
    kept = table[column].abs().sort_values(ascending=False, kind="stable").index[:MOST]
    return table.loc[sorted(kept)]


FIGURES = {"layers": layers, "heads": heads, "gains": gains, "tags": tags}


# --- one prediction -------------------------------------------------------------------------------


def one_prediction(table: pd.DataFrame) -> go.Figure:
    """The direct contribution of each head and MLP to one prediction, the last layer on top.

    How to read: blue parts speak for the prediction, orange ones against it.
    """
    wide = by_layer(table)
    scale = ends(table["contribution"])
    cells = heat_map(wide, "%{y}, %{x}: %{z:+.4f}", form="%{z:+.2f}", **scale)
    return plot([cells], 110 + 24 * len(wide), {**CELLS, "side": "top"}, {**CELLS, **DOWN})


def by_layer(table: pd.DataFrame) -> pd.DataFrame:
    """Contributions of heads and MLPs by layer, the last on top.  # [layers, heads and MLP]"""
    table = table[table["part"].isin(["head", "mlp"])]
    several = table["stack"].nunique() > 1
    kinds = {"self", "causal", "cross"} & {*table["kind"]}
    rows: list[str] = []
    columns: list[tuple[bool, bool, int, str]] = []  # heads before cross heads before the MLP
    for record in table.to_dict("records"):
        stack = f"{record['stack']} " if several else ""
        rows.append(f"{stack}{block_name(record['layer'])}")
        if record["part"] == "head":
            is_cross = record["kind"] == "cross" and len(kinds) > 1
            name = f"{'cross ' if is_cross else ''}head {int(record['head']) + FIRST}"
            columns.append((False, is_cross, int(record["head"]), name))
        else:
            columns.append((True, False, 0, "MLP"))
    wide = matrix(rows, [name for *_, name in columns], table["contribution"])
    return wide.loc[::-1, [name for *_, name in sorted(set(columns))]]
