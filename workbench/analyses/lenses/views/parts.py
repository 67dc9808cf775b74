"""The tab Who? of the page Predict & explain: what each head and MLP adds to the prediction.

Costs: a forward pass, and the backward pass of the model's head.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.lenses.figures.contributions import by_layer, one_prediction
from workbench.analyses.predictions.views.results import (
    ENTRIES,
    Explained,
    Side,
    is_score,
    prediction_at,
    target_of,
)
from workbench.analyses.predictions.views.target import named_for, shown, target_boxes
from workbench.app import choice, glossary, navigation, selection
from workbench.app.downloads import downloads
from workbench.app.text import errors_shown, plain
from workbench.app.text_boxes import OWN, row
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import View, grid, index_in
from workbench.core.head_names import FIRST, block_name
from workbench.drawing.heads import named
from workbench.experiment.definition import HEAD as HEADS
from workbench.report.format import number

if TYPE_CHECKING:
    import pandas as pd

OF = {
    "logit": "The contributions sum to the logit, with the scale of every norm held.",
    "head input": "The language-model head is not linear. The contributions are to the input of "
    "the head: they sum to the product of this input and the gradient of the logit there, and not "
    "to the logit.",
}
REST = {
    "embeddings": "embeddings",
    "attention-bias": "biases of attention",
    "norm-bias": "biases of layer norms",
    "output-bias": "bias of the output",
}


# --- what is computed, once for each text ---------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """What every part of a model contributes, as of `DirectContributions`."""

    of: str  # logit, or head input
    target: str  # as text, with what it is compared with
    total: float
    table: "pd.DataFrame"
    notes: tuple[str, ...] = ()


def parts(side: Side, target: str, against: str) -> Parts:
    """The direct contributions of heads and MLPs to the target."""
    return _parts(side.key, Explained(target, against), side)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _parts(key: tuple[str, str, tuple[int, ...]], explained: Explained, _side: Side) -> Parts:
    from workbench.analyses.lenses.contributions import contributions
    from workbench.engine.forward_pass import ALONE

    prediction = prediction_at(_side)
    target = target_of(_side, explained)
    with ALONE:
        found = contributions(_side.model, prediction, target=target)
    names = prediction.names(
        [target.choice] if target.against is None else [target.choice, target.against]
    )
    label = " rather than ".join(f"“{name}”" for name in names)
    label = "the score" if is_score(_side) else label
    return Parts(found.of, label, found.total, found.table, tuple(getattr(found, "notes", ())))


# --- the tab --------------------------------------------------------------------------------------


def who(sides: Sequence[Side]) -> None:
    """Draw the tab Who?: a grid of heads and MLPs for each model."""
    with row("who"):
        target, against = target_boxes(sides[0])
    for side in sides:
        with errors_shown():
            with st.spinner("Computing contributions …"):
                own = named_for(side, sides[0], target, against)
                found = parts(side, *own)
            _grid(side, found, own)
    _link(sides[0])


def _grid(side: Side, found: Parts, explained: tuple[str, str]) -> None:
    names = _heads_of(side, found)
    name = selection.named(selection.HEAD, names.values())
    view = grid_of(found, names, name)

    def chosen(pick: Mapping[str, Any]) -> None:
        row, column = (index_in(pick, name, 1_000_000) for name in ("row", "column"))
        if row is not None and column is not None and (row, column) in names:
            selection.select(head=names[row, column])

    st.markdown(f"**Which heads and MLPs speak for {shown(found.target)}?** · {plain(side.name)}")
    token_views([view], f"parts {side.ref}", chosen)
    if names:
        best = max(names, key=lambda cell: abs(view["values"][cell[0]][cell[1]]))
        about = side.key, *explained
        selection.say_first(about, "head", "direct contributions", names[best])
    if name:
        navigation.link(
            "head",
            f"Turn head {name} off",
            icon=":material/toggle_off:",
            query_params={
                **choice.in_url(),
                selection.HEAD: name,
                "text": side.doc.text[:2000],
                "at": side.place.as_text,
            },
            help="The page of this head: its role, and the predictions without it.",
        )
    rest = found.table[~found.table["part"].isin(["head", "mlp"])]
    sums = rest.groupby("part", sort=False)["contribution"].sum()
    others = ", ".join(
        f"{REST.get(str(name), str(name))} {number(value, signed=True)}"
        for name, value in sums.items()
    )
    outside = (
        f"Outside the grid: {others}. Total: {number(found.total, signed=True)}. "
        f"{OF.get(found.of, '')}"
    )
    st.caption(plain(outside), help=glossary.explained(f"attention head, MLP. {outside}"))
    title = f"Contributions to {found.target}, {side.name}"
    downloads(
        "contributions",
        found.table,
        lambda: [(title, [view])],
        lambda: one_prediction(found.table),
        title,
    )


def _heads_of(side: Side, found: Parts) -> dict[tuple[int, int], str]:
    """The heads in the cells of the grid, by row and column, as the page Heads names them."""
    groups = {(str(site.stack), str(site.kind)) for site in side.model.sites}
    heads = found.table[found.table["part"] == "head"]
    kinds = {str(kind) for kind in heads["kind"]}
    wide = by_layer(found.table)
    names: dict[tuple[int, int], str] = {}
    for (_, kind, layer, head), name in zip(
        heads[[*HEADS]].itertuples(index=False), named(heads, len(groups) > 1), strict=True
    ):
        cross = "cross " if kind == "cross" and len(kinds) > 1 else ""
        row = [*wide.index].index(block_name(layer))
        names[row, [*wide.columns].index(f"{cross}head {head + FIRST}")] = name
    return names


def grid_of(
    found: Parts,
    heads: Mapping[tuple[int, int], str] = MappingProxyType({}),
    chosen: str = "",
) -> View:
    """Layers, the last on top, by heads and MLP; a chosen head has a frame."""
    wide = by_layer(found.table)
    rows, columns = list(wide.index), list(wide.columns)
    cells = wide.to_numpy().tolist()  # [rows, columns], NaN: no such head
    return grid(
        "parts",
        "Contributions of heads and MLPs",
        rows,
        columns,
        cells,
        tips=[
            [
                "" if math.isnan(value) else f"{name}, {column}: {value:+.4f}"
                for column, value in zip(columns, line, strict=True)
            ]
            for name, line in zip(rows, cells, strict=True)
        ],
        diverging=True,
        legend=("against", "for"),
        marked=[(row, column) for (row, column), name in heads.items() if name == chosen],
        pickable=bool(heads),
        note="One cell for each attention head and each MLP, the last layer on top."
        + (" Click a head to turn it off." if heads else ""),
    )


def _link(side: Side) -> None:
    """Draw a link to the attention of these heads on the same text."""
    if not side.model.sites:
        return
    query: dict[str, Any] = dict(choice.in_url())
    for key in (selection.AT, selection.WORD, selection.HEAD):
        query |= {key: st.query_params[key]} if key in st.query_params else {}
    navigation.link(
        "attention",
        "See what these heads attend to in this text",
        icon=":material/visibility:",
        query_params={**query, "from": OWN, "text": side.doc.text[:2000]},
    )
