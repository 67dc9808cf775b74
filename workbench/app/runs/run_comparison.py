"""Several runs side by side: findings and figures on one scale, what differs, and tables.

Costs: reading the tables of the runs; about a second for large ones.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import navigation, tables_and_figures, text
from workbench.app.runs import export, run_list, run_view, verdicts
from workbench.app.text import captions, plain, prose
from workbench.core.findings import headline

if TYPE_CHECKING:
    from workbench.report.content import Comparison
    from workbench.runs.overlay import Choices
    from workbench.runs.run import Run

VALUES, ALL = "values", "all"  # the first choices of what is shown, and of a key
BESIDE = 3  # runs whose findings and figures are next to each other; of more, below
IN_VIEW = 3  # findings of a run


def draw(runs: Sequence["Run"]) -> None:
    """Draw a comparison of runs, by experiment."""
    from workbench.report.content import comparisons

    done = [run for run in runs if run.status.state == "done"]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title(f"Comparison of {len(runs)} runs", anchor=False, width="stretch")
        if len(done) > 1:
            with st.container(key="controls-comparison", width="content"):
                export.menu(done)
    if unfinished := [run for run in runs if run not in done]:
        for run in unfinished:
            text.facts([(run.status.state, run_view.run_title(run))])
        st.text("Only runs that are done can be compared.")
    if len(done) < 2:
        return
    groups = comparisons(done, {run.path: tables_and_figures.figures_of(run) for run in done})
    if not groups:
        st.info(
            "These runs are of different experiments, so their tables cannot be compared. "
            "Open All runs and tick runs of one experiment."
        )
    for group in groups:
        _compared(group, is_only=len(groups) == 1)


def _compared(group: "Comparison", is_only: bool) -> None:
    from workbench.app.runs.result_page import main_figure
    from workbench.runs.compare import caveats_of, what_changed

    if not is_only:
        st.subheader(plain(group.experiment), anchor=False)
    figure = ""
    if group.figures:
        figures = list(group.figures)
        first = main_figure(next(iter(group.runs.values())))
        index = figures.index(first) if first in figures else 0
        figure = figures[index]
        if len(figures) > 1:
            with st.container(key=f"controls-figure {group.experiment}"):
                figure = tables_and_figures.select("Figure", figures, "figure", index, width=280)
    _on_one_axis(group)
    items = list(group.runs.items())
    for start in range(0, len(items), BESIDE):
        row = items[start : start + BESIDE]
        for column, (letter, run) in zip(st.columns(len(row), gap="medium"), row, strict=True):
            with column:
                _one(letter, run)
                claims = [f"{letter}: {each.claim}" for each in run.findings[:IN_VIEW]]
                if figure:
                    drawing = group.figures[figure][letter]
                    with tables_and_figures.claims_in_view(claims):
                        tables_and_figures.draw_figure(drawing, f"compared {run.name} {figure}")
    st.subheader("What differs", anchor=False)
    runs = [*group.runs.values()]
    verdicts.findings(what_changed(runs))
    captions(caveats_of(runs))
    if group.requests.total:
        st.markdown("**Settings that differ**")
        tables_and_figures.draw_grid(group.requests, f"requests {group.experiment}")
    if group.tables:
        _table(group)
    captions(group.notes)


def _on_one_axis(group: "Comparison") -> None:
    """Draw a number of one table for all runs on one axis, as boxes choose."""
    from workbench.drawing.overlay import overlaid as drawn
    from workbench.runs.compare import groups
    from workbench.runs.overlay import PANELS, choices, overlaid, panel_of

    runs = [*group.runs.values()]
    names = [
        grid.name for grid in group.tables if choices([run.tables[grid.name] for run in runs]).fit
    ]
    if not names:
        return
    st.subheader("On one axis", anchor=False)
    select, key = tables_and_figures.select, f"axis {group.experiment}"
    with st.container(key=f"controls-{key}", horizontal=True):
        name = select("Table", names, f"{key} table", width=200)
        tables = [run.tables[name] for run in runs]
        about = "The column along the axis."
        over = select("Over", choices(tables).over, f"{key} over {name}", width=160, help=about)
        known = choices(tables, over)
        value = select("Number", known.values, f"{key} number {name}", width=200)
        by = groups(runs)
        own = (
            index for index, each in enumerate([*by.values()][1:], 1) if len({*each}) == len(runs)
        )
        about = "Runs that have this in common are one curve, their mean."
        first = next(own, 0)
        way = select("A curve for each", [*by], f"{key} by", first, width=160, help=about)
        curves = list(dict.fromkeys(by[way]))
        minus = ""
        if len(curves) > 1:
            shown = [VALUES, *(f"minus {each}" for each in curves)]
            about = "The numbers themselves, or their differences from one curve."
            minus = select("Show", shown, f"{key} show {way}", width=160, help=about)
            minus = "" if minus == VALUES else minus.removeprefix("minus ")
        held, panel = {}, panel_of(known)
        for other, values in known.others.items():
            by_name = {_shown(each, other, known): each for each in values}
            options = [*([ALL] if len(values) <= PANELS else []), *by_name]
            first = int(other != panel and options[0] == ALL)
            label, box = other.replace("_", " "), f"{key} {name} {other}"
            picked = select(label, options, box, first, width=150)
            if picked != ALL:
                held[other] = by_name[picked]
    rows = overlaid(tables, by[way], value, over, held, minus)
    tables_and_figures.draw_view(runs[0], "on one axis", drawn(rows), drawn, f"{key} figure")
    if held := rows.attrs["held"]:
        said = ", ".join(
            f"{other.replace('_', ' ')} {_shown(each, other, known)}"
            for other, each in held.items()
        )
        st.caption(plain(f"Of {said}."))


def _shown(value: Any, key: str, known: "Choices") -> str:
    """A value of a key; the index of a head or of its layer as other pages count."""
    return str(value + known.first if known.first and key in ("layer", "head") else value)


def _one(letter: str, run: "Run") -> None:
    """Draw one run: its letter, its title as a link, and its first findings."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.badge(letter, color="blue")
        navigation.link(
            navigation.page_of(run.spec.experiment),
            f"**{plain(run_view.run_title(run))}**",
            query_params={run_list.OPENED: run.name},
        )
    st.caption(plain(run.name))
    if first := headline(run.findings):
        verdicts.strip(first)
    verdicts.findings(run.findings[1:IN_VIEW])


def _table(group: "Comparison") -> None:
    """Draw one table with signed differences; a box chooses it."""
    from workbench.runs.compare import compared

    st.subheader("Tables", anchor=False)
    grids = {grid.name: grid for grid in group.tables}
    name = tables_and_figures.select("Table", list(grids), "compared", width=280)
    ((_, table),) = compared([{name: run.tables[name]} for run in group.runs.values()])
    if grids[name].about:
        st.caption(prose(grids[name].about))
    tables_and_figures.draw_table(table, f"compared {group.experiment} {name}")
