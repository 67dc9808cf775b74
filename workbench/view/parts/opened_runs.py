"""A run that is opened, or several side by side; removed ones are brought back here.

Removing puts a run into the bin, so that nothing is lost by one click. Reads the runs' folders.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.view.parts import jobs, listing, results, saving, tables, words
from workbench.view.parts.plain import plain
from workbench.view.parts.problems import tell, told

if TYPE_CHECKING:
    from workbench.report.comparison import Comparison
    from workbench.runs.run import Run

REMOVED = "the run that was removed last"
DAY = 86_400


def show(names: Sequence[str]) -> None:
    """The runs in the address."""
    found: list[Run] = []
    for name in names:
        try:
            found.append(listing.open_named(name))
        except WorkbenchError as error:
            tell(error)
    found = list({run.name: run for run in found}.values())
    if not found:
        return
    st.divider()
    with told():
        if len(found) == 1:
            _one(found[0])
        else:
            _several(found)


def _one(run: "Run") -> None:
    now = run.status
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(plain(results.title(run)), anchor=False, width="content")
        if now.state == "done":
            words.state(now.state)
    words.facts([("run", run.name), ("asked", words.ago(now.created)), ("took", _took(run))])
    is_done = jobs.watched(run)
    _tools(run, is_done)
    what = ["Results", "Question", "Log"] if is_done else ["Question", "Log"]
    for name, place in zip(what, st.tabs(what), strict=True):
        with place:
            _PARTS[name](run)


def _took(run: "Run") -> str:
    from workbench.report.question import duration

    now = run.status
    return duration(now.seconds) if now.seconds else "–"


def _tools(run: "Run", is_done: bool) -> None:
    """What can be done with it."""
    if is_done:
        with st.expander("Save a report, a table or a figure", icon=":material/download:"):
            saving.offer([run], f"save {run.name}")
    if not run.status.under_way and st.button(
        "Remove",
        icon=":material/delete:",
        key=f"remove {run.name}",
        help="It can be brought back for a week.",
    ):
        with told():
            _remove(run)
            st.rerun()


def _remove(run: "Run") -> None:
    from workbench.runs.launch import set_aside

    title = results.title(run)
    st.session_state[REMOVED] = (set_aside(run), title)
    listing.look_at([name for name in listing.opened() if name != run.name])


def undo() -> None:
    """After a removal: say so, and offer to bring it back."""
    if REMOVED not in st.session_state:
        return
    entry, title = st.session_state[REMOVED]
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.text(f"Removed: {title}", width="stretch")
        if st.button("Bring it back", icon=":material/undo:", key="undo removal"):
            with told():
                _bring_back(entry)
                st.rerun()


def removed() -> None:
    """All that can be brought back."""
    from workbench.runs.launch import in_bin

    entries = in_bin()
    if not entries:
        return
    with st.expander(f"Removed runs ({len(entries):,})", icon=":material/delete:"):
        st.caption("A removed run is kept for a week; after that it may be deleted for good.")
        titles = {
            entry: f"{name}, {left / DAY:.0f} days left" if left > DAY else f"{name}, the last day"
            for entry, name, left in entries
        }
        chosen = st.selectbox("Run", list(titles), format_func=titles.__getitem__)
        if st.button("Bring back", icon=":material/undo:") and chosen:
            with told():
                _bring_back(chosen)
                st.rerun()


def _bring_back(entry: str) -> None:
    from workbench.runs.launch import bring_back

    run = bring_back(entry)
    if st.session_state.get(REMOVED, ("",))[0] == entry:
        del st.session_state[REMOVED]
    listing.look_at([run.name])


def _several(runs: Sequence["Run"]) -> None:
    """Runs side by side: what was asked differently, and each table with signed differences."""
    from workbench.report.comparison import comparisons

    st.header(f"{len(runs)} runs side by side", anchor=False)
    waiting = [run for run in runs if run.status.state != "done"]
    for run in waiting:
        words.facts([(run.status.state, results.title(run))])
    done = [run for run in runs if run not in waiting]
    if waiting:
        st.text("Only runs that are done can be compared.")
    if len(done) < 2:
        return
    with st.expander("Save a report of them", icon=":material/download:"):
        saving.offer(done, "save several")
    found = comparisons(done)
    if not found:
        st.info("These runs are of different experiments, so no table can be laid beside another.")
    for one in found:
        _compared(one)


def _compared(one: "Comparison") -> None:
    from workbench.runs.compare import compared

    st.subheader(plain(one.experiment), anchor=False)
    words.facts((letter, f"{run.name}: {results.title(run)}") for letter, run in one.runs.items())
    if one.asked.total:
        st.markdown("**What was asked differently**")
        tables.draw_grid(one.asked, f"asked {one.experiment}")
    for grid in one.tables:
        ((_, table),) = compared([{grid.name: run.tables[grid.name]} for run in one.runs.values()])
        st.markdown(f"**Table: {plain(grid.name)}**")
        if grid.about:
            st.text(grid.about)
        tables.draw(table, f"compared {one.experiment} {grid.name}")
    for note in one.notes:
        st.text(note)


_PARTS = {"Results": results.show, "Question": results.asked, "Log": results.log}
