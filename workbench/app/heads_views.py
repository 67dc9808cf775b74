"""A run of `heads` that is looked at, and the head of it that is: both in the address.

Costs reading the tables that are asked for, which are kept.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.app import run_list, tables_and_figures
from workbench.app.tables_and_figures import Column
from workbench.app.text import shortened
from workbench.core.experiment import HEAD as COLUMNS
from workbench.figures import head_grid as names
from workbench.figures import heads as drawn
from workbench.figures.head_grid import NOTHING, by_role, by_score, outlined
from workbench.figures.theme import INK
from workbench.heads.roles import ROLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from workbench.runs.run import Run

NAME = "heads"
HEAD, DIRECTION, RELATION = "head", "direction", "relation"  # in the address
_WANTED = (*COLUMNS, "role", "roles", *(score.column for score in names.SCORES.values()))


@dataclass(frozen=True)
class Looked:
    """A run, and one of its heads."""

    run: "Run"
    row: int  # of the table of heads

    @cached_property
    def heads(self) -> "pd.DataFrame":
        return heads_of(self.run)

    @property
    def several(self) -> bool:
        """Whether there is more than one kind of attention."""
        return len(names.groups(self.heads)) > 1

    @property
    def here(self) -> "pd.Series":
        """The head's own row."""
        return self.heads.iloc[self.row]

    @property
    def name(self) -> str:
        return names.named(self.heads)[self.row]

    def table(self, name: str) -> "pd.DataFrame":
        return tables_and_figures.table_of(self.run, name)

    def own(self, name: str) -> "pd.DataFrame":
        """The rows of a table that speak of this head."""
        table = self.table(name)
        there = table["head"] == self.here["head"]
        for column in COLUMNS[:3]:
            if column in table:  # of cross-attention the kind goes without saying
                there &= table[column] == self.here[column]
        rows: pd.DataFrame = table[there]
        return rows


def heads_of(run: "Run") -> "pd.DataFrame":
    """The table of heads; an error where it is not as it is today."""
    return tables_and_figures.table_with(run, "heads", _WANTED).reset_index(drop=True)


def looked(run: "Run") -> Looked:
    """The head that the address names; else the first that has a role."""
    heads = heads_of(run)
    there = names.named(heads)
    asked = st.query_params.get(HEAD)
    if asked in there:
        return Looked(run, there.index(asked))
    if asked:
        st.warning(f"This run has no head {shortened(asked)}; another is shown.")
    with_role = heads.index[heads["role"].astype(bool)]
    return Looked(run, int(with_role[0]) if len(with_role) else 0)


def look_at(run: "Run", row: int) -> None:
    """Put the head of a row into the address; for callbacks."""
    there = names.named(heads_of(run))
    if 0 <= row < len(there):
        st.query_params[HEAD] = there[row]


def following(label: str, there: "Sequence[str]", key: str, usual: str, seen: Looked) -> str:
    """A choice that follows the head until it is made, and stays in the address from then on."""
    asked = st.query_params.get(key)
    if asked and asked not in there:
        st.caption(f"no {key} {shortened(asked)} here")
    first = str(next((name for name in (asked, usual) if name in there), there[0]))
    box = f"{key} {seen.run.name} {seen.row} {first} {len(there)}"
    picked = st.selectbox(
        label,
        there,
        there.index(first),
        key=box,
        width=200,
        on_change=lambda: run_list.put(key, st.session_state.get(box)),
    )
    return str(picked) if picked in there else first


# --- tabs -----------------------------------------------------------------------------------------
#
# Views of all heads of a run: the best of each relation, kin, offsets, cross-attention, tables.
#
# Each reads the tables it needs and draws them. Costs milliseconds.

FEW = 12  # rows in view
BEST = {
    "relation": Column("relation"),
    "direction": Column("looks at"),
    "head": Column("head"),
    "accuracy": Column("accuracy", "%.1f", True),
    "interval": Column("95 %"),
    "gain": Column(
        "gain",
        "%+.1f",
        True,
        "Above the best simple rule: a fixed offset, the first or the longest word.",
    ),
    "baseline_offset": Column("offset", "%+d", help="The fixed offset that hits most often."),
    "baseline_accuracy": Column("at it", "%.1f", True, "Accuracy of that fixed offset."),
    "n": Column("dependents"),
    "syntactic": Column(
        "role",
        help="Syntactic: confident accuracy above the baselines, by the margin and significantly.",
    ),
    "accuracy_confident": Column(
        "confident", "%.1f", True, "Accuracy where unreliable maxima are misses."
    ),
    "accuracy_any_dependent": Column(
        "any dependent", "%.1f", True, "Accuracy with each head word once, any dependent a hit."
    ),
    "reliable": Column("reliable", "%.1f", True, "Maxima that are reliable, in %."),
}


def relations(seen: Looked) -> None:
    """Of each relation the head that follows it best, as a table and as bars."""
    best = seen.table("best")
    if best.empty:
        st.text(
            "By pieces, relations are not asked for: see level."
            if seen.run.settings.get("level") == "pieces"
            else "The corpus has no dependencies, or too few of each relation."
        )
        return
    st.caption(
        "The best head of each relation and direction, whatever its role, next to the fixed offset "
        "that hits most often, counted as Clark et al. (2019) do: the argmax over the other words, "
        "each dependent once. Tick a row to look at its head."
    )
    there = {name: row for row, name in enumerate(names.named(seen.heads))}
    heads = names.named(best, seen.several)
    shown = best.assign(
        head=heads,
        relation=best["relation"].map(shortened),
        direction=best["direction"].map({way: name for name, way in names.WAYS.items()}),
        interval=tables_and_figures.intervals(best),
    )
    key = f"best {seen.run.name} {st.query_params.get(HEAD)}"
    tables_and_figures.draw_columns(
        shown,
        BEST,
        key,
        FEW - 1,
        on_select=lambda: _ticked(seen, key, [there.get(head, -1) for head in heads]),
        selection_mode="single-row",
    )
    _here(seen)
    tables_and_figures.view_of(seen.run, "relations", drawn.relations, {"best": best})


def _ticked(seen: Looked, key: str, rows: list[int]) -> None:
    ticked = st.session_state[key]["selection"]["rows"]
    if ticked and ticked[0] < len(rows):
        look_at(seen.run, rows[ticked[0]])


def _here(seen: Looked) -> None:
    """Which head is looked at, where its evidence is not in view."""
    role = names.role_of(seen.here["role"])
    st.text(f"Head {seen.name} is looked at ({role}): see the view Heads.")


def kin(seen: Looked) -> None:
    """Which heads look alike: on a map, and in the order in which they join."""
    found = {"clusters": seen.table("clusters"), "heads": seen.heads}
    key = f"map {seen.run.name} {seen.row}"
    own = seen.own("clusters").iloc[0]
    tables_and_figures.draw_view(
        seen.run,
        "map",
        _marked(drawn.kin_map(found), own),
        drawn.kin_map,
        key,
        lambda: _clicked(seen, found["clusters"], tables_and_figures.points(key)),
    )
    _here(seen)
    near = found["clusters"].copy()
    near = near[near["cluster"] == own["cluster"]]
    others = ", ".join(names.named(near, seen.several))
    st.text(f"Cluster {own['cluster']}: {others}." if len(near) > 1 else "It clusters with none.")
    if "kin" in seen.run.tables and len(table := seen.table("kin")):
        st.subheader("Nearest in the other model", anchor=False)
        tables_and_figures.draw_table(table, f"kin {seen.run.name}")
    found["dendrogram"] = seen.table("dendrogram")
    tables_and_figures.view_of(seen.run, "dendrogram", drawn.dendrogram, found)


def _marked(figure: "go.Figure", own: "pd.Series") -> "go.Figure":
    """A ring round the head that is looked at."""
    import plotly.graph_objects as go

    ring = {
        "symbol": "circle-open",
        "size": 24,
        "color": INK[tables_and_figures.kind()],
        "line": {"width": 2},
    }
    place = {"x": [own["x"]], "y": [own["y"]], "mode": "markers", "marker": ring}
    return figure.add_trace(go.Scatter(**place, hoverinfo="skip", showlegend=False))


def _clicked(seen: Looked, places: "pd.DataFrame", points: list[list[object]]) -> None:
    """`points` tell the row of `clusters`, which has an order of its own."""
    at = points[0][0] if points else None
    if not isinstance(at, int | float) or not 0 <= int(at) < len(places):
        return
    name = names.named(places, seen.several)[int(at)]
    there = names.named(seen.heads)
    if name in there:
        look_at(seen.run, there.index(name))


def offsets(seen: Looked) -> None:
    """How far every head looks."""
    tables_and_figures.view_of(
        seen.run, "offsets of all", drawn.offsets, {"offsets": seen.table("offsets")}
    )


def cross(seen: Looked) -> None:
    """How a decoder's heads go along what the encoder read."""
    tables_and_figures.view_of(seen.run, "cross", drawn.cross, {"cross": seen.table("cross")})


# --- the grid of heads on its page: by role or by a score, some of it, and the head one chooses ---
#
# A click on a cell, or the box below, puts the head into the address. Costs milliseconds.

ROLE = "role"
ALL = "all"
_STYLE = (
    "<style>ul.roles {list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem;"
    " margin: 0; padding: 0; font-size: .9em} ul.roles li {margin: 0; padding: 0}"
    " ul.roles i {display: inline-block; width: .8em; height: .8em; margin-right: .4em;"
    " border-radius: 2px}</style>"
)
_ABOUT = (
    "A head has the colour of the role it fills best; pointing at it tells the others. A click "
    "shows what it does."
)


def grid(seen: Looked) -> None:
    """The choices, the grid, and the head that is looked at."""
    heads = seen.heads
    with st.container(horizontal=True, vertical_alignment="bottom"):
        colour = _colour(heads)
        shown = _shown(heads)
    if not shown.any():
        st.info("No head is so. Ask for less.")
    else:
        _draw_grid(seen, colour, list(shown))
    _choose(seen)


def _colour(heads: "pd.DataFrame") -> str:
    there = [ROLE, *(name for name, score in names.SCORES.items() if score.column in heads)]
    about = "The role of each head, or one of its scores."
    return tables_and_figures.one("Colour", there, "colour", width=270, help=about)


def _shown(heads: "pd.DataFrame") -> "pd.Series":
    """Which heads are wanted."""
    kept = heads["layer"] >= 0
    parts = [" ".join(group) for group in names.groups(heads)]
    if len(parts) > 1:
        picked = tables_and_figures.one("Attention", [ALL, *parts], "part", width=190)
        if picked != ALL:
            kept &= heads["stack"] + " " + heads["kind"] == picked
    known = [*ROLES, names.NONE]
    there = [role for role in known if _has(heads, role).any()]
    wanted = [
        role
        for role in st.multiselect(
            "Roles",
            there,
            key="roles",
            bind="query-params",
            placeholder="all",
            width=300,
            help="Heads that have one of these among their roles.",
        )
        if role in there
    ]
    return (
        kept & pd.concat([_has(heads, role) for role in wanted], axis=1).any(axis=1)
        if wanted
        else kept
    )


def _has(heads: "pd.DataFrame", role: str) -> "pd.Series":
    if role == names.NONE:
        return heads["roles"] == ""
    return heads["roles"].map(lambda roles: role in str(roles).split(", "))


def _draw_grid(seen: Looked, colour: str, shown: list[bool]) -> None:
    heads = seen.heads
    if colour == ROLE:
        figure, about = by_role(heads, shown), _ABOUT
        figure.update_layout(showlegend=False)  # below it is one that wraps on a narrow page
        st.html(legend(heads, shown))
    else:
        figure = by_score(heads, colour, shown)
        about = f"{colour[:1].upper()}{colour[1:]}: {names.SCORES[colour].about}."
    outlined(figure, heads, seen.row, INK[tables_and_figures.kind()])
    figure.update_layout(
        height=figure.layout.height - 24, margin={"t": figure.layout.margin.t - 24}
    )
    key = f"grid {seen.run.name} {seen.row}"  # a new one, so that a click may come back to it
    tables_and_figures.draw_view(
        seen.run,
        "heads",
        figure,
        about,
        key,
        lambda: _clicked_in_grid(seen, tables_and_figures.points(key)),
    )


def legend(heads: "pd.DataFrame", shown: list[bool]) -> str:
    """The roles there are: the colour, the word and the name of each, and how many heads."""
    there = heads.loc[shown, "role"]
    items = []
    for role in [*(role for role in ROLES if (there == role).any()), ""]:
        if count := int((there == role).sum()):
            colour = names.COLOUR.get(role, NOTHING)
            name = f"{names.CODES[role]}: {role}" if role else names.NONE
            items.append(f'<li><i style="background:{colour}"></i>{name} ({count})</li>')
    return f'{_STYLE}<ul class="roles" aria-label="Roles">{"".join(items)}</ul>'


def _clicked_in_grid(seen: Looked, points: list[list[object]]) -> None:
    row = points[0][0] if points else None
    if isinstance(row, int | float):
        look_at(seen.run, int(row))


def _choose(seen: Looked) -> None:
    """The same by a box: for keys, and for who cannot see the grid."""
    heads = seen.heads
    there = names.named(heads)
    roles = [names.role_of(role) for role in heads["role"]]
    said = {name: f"{name}: {role}" for name, role in zip(there, roles, strict=True)}
    key = f"head {seen.run.name} {st.query_params.get(HEAD)}"
    st.selectbox(
        "Head",
        there,
        seen.row,
        format_func=lambda name: said.get(name, str(name)),
        key=key,
        width=360,
        help="3-1 is head 1 of layer 3; both are counted from 0.",
        on_change=lambda: run_list.put(HEAD, st.session_state.get(key)),
    )
