"""The opened run of `heads` and its open head, both in the address; and views of all heads.

Costs: reading the tables that a view needs, which are cached.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.analyses.heads.figures import grid
from workbench.analyses.heads.figures import heads as drawn
from workbench.analyses.heads.figures.grid import by_role, by_score, outlined
from workbench.app import tables_and_figures
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import Column
from workbench.app.text import shortened
from workbench.core.head_names import ROLES
from workbench.drawing import heads as names
from workbench.drawing.heads import NOTHING
from workbench.drawing.theme import INK
from workbench.experiment.definition import HEAD as COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import plotly.graph_objects as go

    from workbench.drawing.theme import Kind
    from workbench.runs.run import Run

NAME = "heads"
HEAD, DIRECTION, RELATION = "head", "direction", "relation"  # in the address
_REQUIRED = (*COLUMNS, "role", "roles", *(score.column for score in grid.SCORES.values()))


@dataclass(frozen=True)
class OpenHead:
    """A run, and one of its heads."""

    run: "Run"
    row: int  # in the table of heads

    @cached_property
    def heads(self) -> "pd.DataFrame":
        return heads_of(self.run)

    @property
    def several(self) -> bool:
        """Whether there is more than one kind of attention."""
        return len(names.groups(self.heads)) > 1

    @property
    def scores(self) -> "pd.Series":
        """The row of the head in the table of heads."""
        return self.heads.iloc[self.row]

    @property
    def name(self) -> str:
        return names.named(self.heads)[self.row]

    def table(self, name: str) -> "pd.DataFrame":
        return tables_and_figures.table_of(self.run, name)

    def rows_of(self, name: str) -> "pd.DataFrame":
        """The rows of a table that belong to this head."""
        table = self.table(name)
        mask = table["head"] == self.scores["head"]
        for column in COLUMNS[:3]:
            if column in table:  # tables of cross-attention have no column for the kind
                mask &= table[column] == self.scores[column]
        rows: pd.DataFrame = table[mask]
        return rows


def heads_of(run: "Run") -> "pd.DataFrame":
    """The table of heads; an error if a column is missing."""
    return tables_and_figures.table_with(run, "heads", _REQUIRED).reset_index(drop=True)


def open_head(run: "Run") -> OpenHead:
    """The head in the address; else the first head with a role."""
    heads = heads_of(run)
    all_names = names.named(heads)
    in_address = st.query_params.get(HEAD)
    if in_address in all_names:
        return OpenHead(run, all_names.index(in_address))
    if in_address:
        st.warning(f"This run has no head {shortened(in_address)}. Showing another head.")
    return OpenHead(run, first_of(heads))


def first_of(heads: "pd.DataFrame") -> int:
    """The row of the first head with a role."""
    with_role = heads.index[heads["role"].astype(bool)]
    return int(with_role[0]) if len(with_role) else 0


def set_head(run: "Run", row: int) -> None:
    """Put the head of a row into the address; for callbacks."""
    all_names = names.named(heads_of(run))
    if 0 <= row < len(all_names):
        st.query_params[HEAD] = all_names[row]


def select_for_head(
    label: str, options: "Sequence[str]", key: str, default: str, selection: OpenHead
) -> str:
    """Draw a box whose default depends on the head; a choice of the user stays in the address."""
    in_address = st.query_params.get(key)
    if in_address and in_address not in options:
        st.caption(f"This head has no {key} {shortened(in_address)}.")
    first = str(next((name for name in (in_address, default) if name in options), options[0]))
    box = f"{key} {selection.run.name} {selection.row} {first} {len(options)}"
    picked = st.selectbox(
        label,
        options,
        options.index(first),
        key=box,
        width=200,
        on_change=lambda: run_list.set_query_from(box, key, first),
    )
    return str(picked) if picked in options else first


# --- tabs -----------------------------------------------------------------------------------------
#
# Views of all heads of a run: the best of each relation, similar heads, offsets, cross-attention.

FEW = 12  # rows in view
BEST = {
    "relation": Column("relation"),
    "direction": Column("direction"),
    "head": Column("head"),
    "accuracy": Column("accuracy", "%.1f", True),
    "interval": Column("95 % CI"),
    "gain": Column(
        "gain",
        "%+.1f",
        True,
        "Accuracy minus that of the best baseline, in points. Baselines: a fixed offset, the "
        "first word, the longest word.",
    ),
    "baseline_offset": Column("best offset", "%+d", help="The fixed offset with most hits."),
    "baseline_accuracy": Column(
        "offset accuracy", "%.1f", True, "Accuracy of the best fixed offset, in %."
    ),
    "n": Column("dependents"),
    "syntactic": Column(
        "syntactic",
        help="The confident accuracy is above the baselines by the margin, and significantly.",
    ),
    "accuracy_confident": Column(
        "confident accuracy", "%.1f", True, "Accuracy if unreliable maxima count as misses, in %."
    ),
    "accuracy_any_dependent": Column(
        "any-dependent accuracy",
        "%.1f",
        True,
        "Accuracy if each head word counts once and any of its dependents is a hit, in %.",
    ),
    "reliable": Column("reliable", "%.1f", True, "Share of words with a reliable maximum, in %."),
}


def relations(selection: OpenHead) -> None:
    """Draw the best head for each relation, as a table and as bars."""
    best = selection.table("best")
    if best.empty:
        st.text(
            "Relations are not computed for pieces. Set level to words."
            if selection.run.settings.get("level") == "pieces"
            else "The corpus has no dependencies, or too few of each relation."
        )
        return
    st.caption(
        "The best head for each relation and direction, whatever its role, next to the fixed "
        "offset with most hits. Accuracy as in Clark et al. (2019): the argmax over the other "
        "words, each dependent once. Tick a row to open its head."
    )
    row_of = {name: row for row, name in enumerate(names.named(selection.heads))}
    heads = names.named(best, selection.several)
    shown = best.assign(
        head=heads,
        relation=best["relation"].map(shortened),
        direction=best["direction"].map({way: name for name, way in grid.WAYS.items()}),
        interval=tables_and_figures.intervals(best),
    )
    key = f"best {selection.run.name} {st.query_params.get(HEAD)}"
    tables_and_figures.draw_columns(
        shown,
        BEST,
        key,
        FEW - 1,
        on_select=lambda: _ticked(selection, key, [row_of.get(head, -1) for head in heads]),
        selection_mode="single-row",
    )
    _draw_open_head(selection)
    tables_and_figures.view_of(selection.run, "relations", drawn.relations, {"best": best})


def _ticked(selection: OpenHead, key: str, rows: list[int]) -> None:
    ticked = st.session_state[key]["selection"]["rows"]
    if ticked and ticked[0] < len(rows):
        set_head(selection.run, rows[ticked[0]])


def _draw_open_head(selection: OpenHead) -> None:
    """Draw which head is open, in views that do not show its evidence."""
    role = grid.role_of(selection.scores["role"])
    st.text(f"Open head: {selection.name} ({role}). The tab “Open head” shows its evidence.")


def similar_heads(selection: OpenHead) -> None:
    """Draw which heads attend alike: a map, and a dendrogram."""
    tables = {"clusters": selection.table("clusters"), "heads": selection.heads}
    key = f"map {selection.run.name} {selection.row}"
    row = selection.rows_of("clusters").iloc[0]
    tables_and_figures.draw_view(
        selection.run,
        "map",
        _marked(drawn.kin_map(tables), row),
        drawn.kin_map,
        key,
        lambda: _clicked(selection, tables["clusters"], tables_and_figures.points(key)),
    )
    _draw_open_head(selection)
    cluster = tables["clusters"].copy()
    cluster = cluster[cluster["cluster"] == row["cluster"]]
    members = ", ".join(names.named(cluster, selection.several))
    st.text(
        f"Cluster {row['cluster']}: {members}."
        if len(cluster) > 1
        else "The open head is in a cluster of its own."
    )
    if "kin" in selection.run.tables and len(table := selection.table("kin")):
        st.subheader("Most similar heads of the other model", anchor=False)
        tables_and_figures.draw_table(table, f"kin {selection.run.name}")
    tables["dendrogram"] = selection.table("dendrogram")
    tables_and_figures.view_of(selection.run, "dendrogram", drawn.dendrogram, tables)


def _marked(figure: "go.Figure", row: "pd.Series") -> "go.Figure":
    """The figure with a ring around the open head."""
    import plotly.graph_objects as go

    ring = {
        "symbol": "circle-open",
        "size": 24,
        "color": INK[tables_and_figures.kind()],
        "line": {"width": 2},
    }
    point = {"x": [row["x"]], "y": [row["y"]], "mode": "markers", "marker": ring}
    return figure.add_trace(go.Scatter(**point, hoverinfo="skip", showlegend=False))


def _clicked(selection: OpenHead, clusters: "pd.DataFrame", points: list[list[object]]) -> None:
    """Open the clicked head; `points` give its row in `clusters`, which has its own order."""
    row = points[0][0] if points else None
    if not isinstance(row, int | float) or not 0 <= int(row) < len(clusters):
        return
    name = names.named(clusters, selection.several)[int(row)]
    all_names = names.named(selection.heads)
    if name in all_names:
        set_head(selection.run, all_names.index(name))


def offsets(selection: OpenHead) -> None:
    """Draw the attention of every head by relative offset."""
    tables_and_figures.view_of(
        selection.run, "offsets of all", drawn.offsets, {"offsets": selection.table("offsets")}
    )


def cross(selection: OpenHead) -> None:
    """Draw how far a decoder's heads follow the order of the encoder's input."""
    tables_and_figures.view_of(
        selection.run, "cross", drawn.cross, {"cross": selection.table("cross")}
    )


# --- the grid of heads: coloured by role or score, filtered; a click opens a head -----------------

ROLE = "role"
ALL = "all"
_STYLE = (
    "<style>ul.roles {list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem;"
    " margin: 0; padding: 0; font-size: .9em} ul.roles li {margin: 0; padding: 0}"
    " ul.roles i {display: inline-block; width: .8em; height: .8em; margin-right: .4em;"
    " border-radius: 2px}</style>"
)
_ABOUT = (
    "Colour: the main role of each head. Hover over a head to see its other roles, or click it to "
    "see the evidence."
)


def draw_grid(selection: OpenHead) -> None:
    """Draw the grid of heads; below it the box that opens a head, and the filters."""
    heads = selection.heads
    place = st.container()
    with st.container(key="controls-grid", horizontal=True, vertical_alignment="bottom"):
        _choose(selection)
        colour = _colour(heads)
        mask = _filtered(heads)
    with place:
        if not mask.any():
            st.info("No head matches. Remove a role or choose another kind of attention.")
        else:
            _grid(selection, colour, list(mask))


def _colour(heads: "pd.DataFrame") -> str:
    options = [ROLE, *(name for name, score in grid.SCORES.items() if score.column in heads)]
    about = "Colour heads by role or by a score."
    return tables_and_figures.select("Colour", options, "colour", width=270, help=about)


def _filtered(heads: "pd.DataFrame") -> "pd.Series":
    """A mask of the heads that match the filters."""
    mask = heads["layer"] >= 0
    groups = [" ".join(group) for group in names.groups(heads)]
    if len(groups) > 1:
        picked = tables_and_figures.select("Attention", [ALL, *groups], "part", width=190)
        if picked != ALL:
            mask &= heads["stack"] + " " + heads["kind"] == picked
    options = [role for role in [*ROLES, names.NONE] if _has(heads, role).any()]
    roles = [
        role
        for role in st.multiselect(
            "Roles",
            options,
            key="roles",
            bind="query-params",
            placeholder="all",
            width=300,
            help="Show only heads with one of these roles (default: all).",
        )
        if role in options
    ]
    return (
        mask & pd.concat([_has(heads, role) for role in roles], axis=1).any(axis=1)
        if roles
        else mask
    )


def _has(heads: "pd.DataFrame", role: str) -> "pd.Series":
    if role == names.NONE:
        return heads["roles"] == ""
    return heads["roles"].map(lambda roles: role in str(roles).split(", "))


def _grid(selection: OpenHead, colour: str, mask: list[bool]) -> None:
    if colour == ROLE:
        about = _ABOUT
        st.html(legend(selection.heads, mask))
    else:
        about = f"{colour[:1].upper()}{colour[1:]}: {grid.SCORES[colour].about}."
    figure = _coloured(selection, colour, mask, tables_and_figures.kind())
    # a new key for each head, so that the same cell can be clicked again
    key = f"grid {selection.run.name} {selection.row}"
    tables_and_figures.draw_view(
        selection.run,
        "heads",
        figure,
        about,
        key,
        lambda: _clicked_in_grid(selection, tables_and_figures.points(key)),
    )


def _coloured(
    selection: OpenHead, colour: str, mask: list[bool], kind: "Kind"
) -> "Mapping[str, Any]":
    """The grid, with a frame around the open head."""

    def draw() -> "go.Figure":
        heads = selection.heads
        figure = by_role(heads, mask) if colour == ROLE else by_score(heads, colour, mask)
        figure.update_layout(showlegend=False)  # the page has one that wraps where it is narrow
        return outlined(figure, heads, selection.row, INK[kind])

    run = selection.run
    key = ("grid", str(run.path), run.status.ended, selection.row, colour, mask, kind)
    return tables_and_figures.remembered(key, draw)


def draw_ahead(run: "Run") -> None:
    """Draw the grid of a run as it is first seen."""
    heads = heads_of(run)
    selection = OpenHead(run, first_of(heads))
    grid = _coloured(selection, ROLE, [True] * len(heads), "light")
    tables_and_figures.finish_ahead(grid)


def legend(heads: "pd.DataFrame", mask: list[bool]) -> str:
    """HTML of the legend: colour, code and name of each role, and its number of heads."""
    roles = heads.loc[mask, "role"]
    items = []
    for role in [*(role for role in ROLES if (roles == role).any()), ""]:
        if count := int((roles == role).sum()):
            colour = names.COLOUR.get(role, NOTHING)
            name = f"{grid.CODES[role]}: {role}" if role else names.NONE
            items.append(f'<li><i style="background:{colour}"></i>{name} ({count})</li>')
    return f'{_STYLE}<ul class="roles" aria-label="Roles">{"".join(items)}</ul>'


def _clicked_in_grid(selection: OpenHead, points: list[list[object]]) -> None:
    row = points[0][0] if points else None
    if isinstance(row, int | float):
        set_head(selection.run, int(row))


def _choose(selection: OpenHead) -> None:
    """Draw a box that opens a head: for keyboards and screen readers."""
    heads = selection.heads
    all_names = names.named(heads)
    roles = [grid.role_of(role) for role in heads["role"]]
    labels = {name: f"{name}: {role}" for name, role in zip(all_names, roles, strict=True)}
    key = f"head {selection.run.name} {st.query_params.get(HEAD)}"
    st.selectbox(
        "Head",
        all_names,
        selection.row,
        format_func=lambda name: labels.get(name, str(name)),
        key=key,
        width=220,
        help="3.7 is head 7 of layer 3. Tables count both from 0.",
        on_change=lambda: run_list.set_query_from(key, HEAD, all_names[selection.row]),
    )
