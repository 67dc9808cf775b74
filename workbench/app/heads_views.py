"""A run of `heads` that is looked at, and the head of it that is: both in the address.

Costs reading the tables that are asked for, which are kept.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import run_view, tables_and_figures
from workbench.app.text import shortened
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import HEAD as COLUMNS
from workbench.figures import head_grid as names
from workbench.figures import heads as drawn
from workbench.figures.head_grid import NOTHING, by_role, by_score, outlined
from workbench.figures.theme import INK
from workbench.heads.roles import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
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
    table = tables_and_figures.table_of(run, "heads").reset_index(drop=True)
    missing = [column for column in _WANTED if column not in table.columns]
    if missing or table.empty:
        what = f"has no column {missing[0]!r}" if missing else "is empty"
        raise WorkbenchError(
            f"its table 'heads' {what}.",
            where=run.name,
            remedy="It was made by another version; ask the same question again.",
        )
    return table


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


def one(label: str, there: "Sequence[str]", key: str, usual: str, seen: Looked) -> str:
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
        on_change=lambda: _chosen(key, there, st.session_state.get(box)),
    )
    return str(picked) if picked in there else first


def _chosen(key: str, there: "Sequence[str]", name: str | None) -> None:
    if name in there:
        st.query_params[key] = str(name)


# --- tabs -----------------------------------------------------------------------------------------
#
# Views of all heads of a run: the best of each relation, kin, offsets, cross-attention, tables.
#
# Each reads the tables it needs and draws them. Costs milliseconds.

FEW = 12  # rows in view


def relations(seen: Looked) -> None:
    """Of each relation the head that follows it best, as a table and as bars."""
    best = seen.table("best")
    if best.empty:
        st.text(
            "By pieces, relations are not asked for: see level."
            if seen.run.spec.settings.get("level") == "pieces"
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
    shown = best.assign(head=heads, relation=[shortened(name) for name in best["relation"]])
    shown["direction"] = shown["direction"].map({way: name for name, way in names.WAYS.items()})
    shares = ("accuracy", "lower", "upper", "accuracy_confident", "accuracy_any_dependent",
              "reliable", "baseline_accuracy", "gain")  # fmt: skip
    for name in shares:
        shown[name] = 100 * shown[name]
    shown["interval"] = [
        f"{low:.1f}–{high:.1f}" for low, high in zip(shown["lower"], shown["upper"], strict=True)
    ]
    columns = {
        "relation": "relation",
        "direction": "looks at",
        "head": "head",
        "accuracy": "accuracy",
        "interval": "95 %",
        "gain": "gain",
        "baseline_offset": "offset",
        "baseline_accuracy": "at it",
        "n": "dependents",
        "syntactic": "role",
        "accuracy_confident": "confident",
        "accuracy_any_dependent": "any dependent",
        "reliable": "reliable",
    }
    number = st.column_config.NumberColumn
    key = f"best {seen.run.name} {st.query_params.get(HEAD)}"
    st.dataframe(
        shown[list(columns)].rename(columns=columns),
        hide_index=True,
        height=min(len(shown) + 1, FEW) * 35 + 3,
        column_config={
            "accuracy": number(format="%.1f"),
            "at it": number(format="%.1f", help="Accuracy of that fixed offset."),
            "gain": number(
                format="%+.1f",
                help="Above the best simple rule: a fixed offset, the first or the longest word.",
            ),
            "confident": number(format="%.1f", help="Accuracy where unreliable maxima are misses."),
            "any dependent": number(
                format="%.1f", help="Accuracy with each head word once, any dependent a hit."
            ),
            "reliable": number(format="%.1f", help="Maxima that are reliable, in %."),
            "offset": number(format="%+d", help="The fixed offset that hits most often."),
            "95 %": st.column_config.TextColumn(width=105),
            "role": st.column_config.CheckboxColumn(
                help="Syntactic: confident accuracy above the baselines, by the margin and "
                "significantly."
            ),
        },
        on_select=lambda: _ticked(seen, key, [there.get(head, -1) for head in heads]),
        selection_mode="single-row",
        key=key,
    )
    _here(seen)
    _draw(seen, drawn.relations({"best": best}), drawn.relations, "relations")


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
    if "clusters" not in seen.run.tables or seen.table("clusters").empty:
        st.text("No sentences were kept, so heads were not compared: ask with examples.")
        return
    found = {"clusters": seen.table("clusters"), "heads": seen.heads}
    key = f"map {seen.run.name} {seen.row}"
    own = seen.own("clusters").iloc[0]
    _draw(
        seen,
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
    _draw(seen, drawn.dendrogram(found), drawn.dendrogram, "dendrogram")


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
    table = seen.table("offsets")
    if table.empty:
        st.text("No word has a word near it, so there are no offsets.")
        return
    _draw(seen, drawn.offsets({"offsets": table}), drawn.offsets, "offsets of all")


def cross(seen: Looked) -> None:
    """How a decoder's heads go along what the encoder read."""
    table = seen.table("cross")
    _draw(seen, drawn.cross({"cross": table}), drawn.cross, "cross")


def all_tables(seen: Looked) -> None:
    """Every table, and what leaves the app as a file."""
    run_view.every_table(seen.run)


def _draw(
    seen: Looked,
    figure: "go.Figure",
    draw: object,
    name: str,
    pointed: "Callable[[], None] | None" = None,
) -> None:
    from workbench.figures.sanitize import harmless
    from workbench.report.content import Drawing

    about = " ".join((draw.__doc__ or "").split())
    key = name if pointed else f"{name} {seen.run.name}"
    tables_and_figures.draw_figure(Drawing(name, about, harmless(figure)), key, pointed)


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
    picked = st.selectbox(
        "Colour",
        there,
        key="colour",
        bind="query-params",
        width=270,
        help="The role of each head, or one of its scores.",
    )
    return picked if picked in there else ROLE


def _shown(heads: "pd.DataFrame") -> "pd.Series":
    """Which heads are wanted."""
    kept = heads["layer"] >= 0
    parts = [" ".join(group) for group in names.groups(heads)]
    if len(parts) > 1:
        picked = st.selectbox(
            "Attention", [ALL, *parts], key="part", bind="query-params", width=190
        )
        if picked in parts:
            stack, kind = names.groups(heads)[parts.index(picked)]
            kept &= (heads["stack"] == stack) & (heads["kind"] == kind)
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
    if wanted:
        some = _has(heads, wanted[0])
        for role in wanted[1:]:
            some |= _has(heads, role)
        kept &= some
    return kept


def _has(heads: "pd.DataFrame", role: str) -> "pd.Series":
    if role == names.NONE:
        return heads["roles"] == ""
    return heads["roles"].map(lambda roles: role in str(roles).split(", "))


def _draw_grid(seen: Looked, colour: str, shown: list[bool]) -> None:
    from workbench.figures.sanitize import harmless
    from workbench.report.content import Drawing

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
    tables_and_figures.draw_figure(
        Drawing("heads", about, harmless(figure)),
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
        on_change=lambda: _picked(seen, there, st.session_state.get(key)),
    )


def _picked(seen: Looked, there: list[str], name: str | None) -> None:
    if name in there:
        look_at(seen.run, there.index(str(name)))
