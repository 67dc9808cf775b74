"""The grid of heads on its page: by role or by a score, some of it, and the head one chooses.

A click on a cell, or the box below, puts the head into the address. Costs milliseconds.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.heads.roles import ROLES
from workbench.view import heads_names as names
from workbench.view.heads_grid import NOTHING, by_role, by_score, outlined
from workbench.view.parts import figures
from workbench.view.parts.heads_run import HEAD, Looked, look_at
from workbench.view.theme import INK

if TYPE_CHECKING:
    import pandas as pd

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
        _draw(seen, colour, list(shown))
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


def _draw(seen: Looked, colour: str, shown: list[bool]) -> None:
    from workbench.report.drawings import Drawing
    from workbench.view.harmless import harmless

    heads = seen.heads
    if colour == ROLE:
        figure, about = by_role(heads, shown), _ABOUT
        figure.update_layout(showlegend=False)  # below it is one that wraps on a narrow page
        st.html(legend(heads, shown))
    else:
        figure = by_score(heads, colour, shown)
        about = f"{colour[:1].upper()}{colour[1:]}: {names.SCORES[colour].about}."
    outlined(figure, heads, seen.row, INK[figures.kind()])
    figure.update_layout(
        height=figure.layout.height - 24, margin={"t": figure.layout.margin.t - 24}
    )
    key = f"grid {seen.run.name} {seen.row}"  # a new one, so that a click may come back to it
    figures.draw(
        Drawing("heads", about, harmless(figure)), key, lambda: _clicked(seen, figures.points(key))
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


def _clicked(seen: Looked, points: list[list[object]]) -> None:
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
