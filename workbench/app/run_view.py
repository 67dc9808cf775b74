"""A run that is opened, or several side by side; removed ones are brought back here.

Removing puts a run into the bin, so that nothing is lost by one click. Reads the runs' folders.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import run_list, tables_and_figures, text
from workbench.app.text import lines, plain, size, state, subject, tell, told
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat
from workbench.runs.status import Status, log_lines

if TYPE_CHECKING:
    from workbench.report.content import Comparison
    from workbench.runs.run import Run

# --- what a run found, on a page: caveats beside what they touch, figures, tables -----------------
#
# Reads its folder; costs a look at its tables.

CAVEATS = 2  # in view; more stand behind a fold


def show_results(run: "Run") -> None:
    """Figures and tables of a run that is done."""
    with told():
        drawn = tables_and_figures.figures_of(run)
        names = list(run.tables)
        caveats = run.caveats
        there = {*drawn, *names}
        notes = [c.text for c in caveats if not there.intersection(c.beside)]
        for text in [*notes, *dict.fromkeys(run.warnings)]:
            _note(text)
        for name, drawing in drawn.items():
            st.subheader(_title(name), anchor=False)
            for caveat in caveats:
                if name in caveat.beside:
                    _note(caveat.text)
            tables_and_figures.draw_figure(drawing, f"figure {run.name} {name}")
        for name in names:
            st.subheader(f"Table: {_title(name)}", anchor=False)
            _draw_table(run, name, () if name in drawn else caveats)
        if not there:
            st.text("This run left neither tables nor figures.")


def _draw_table(run: "Run", name: str, caveats: Iterable[Caveat] = ()) -> None:
    """A table with what it says of itself, and what to know of it."""
    table = tables_and_figures.table_of(run, name)
    for line in tables_and_figures.about(table):
        st.text(line.replace("`", ""))
    for caveat in caveats:
        if name in caveat.beside:
            _note(caveat.text)
    tables_and_figures.draw_table(table, f"table {run.name} {name}")


def heading(run: "Run") -> None:
    """What was asked of what, how it stands, and when."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(plain(run_title(run)), anchor=False, width="content")
        text.state(run.status.state)
    text.facts([("run", run.name), ("asked", text.ago(run.status.created))])


def caveats(run: "Run", always: Sequence[str] = ()) -> None:
    """What to know when reading it; of many notes, those with words of `always` stay in view."""
    notes = list(dict.fromkeys([*(caveat.text for caveat in run.caveats), *run.warnings]))
    few = len(notes) <= CAVEATS
    shown = notes if few else [note for note in notes if any(each in note for each in always)]
    for each in shown:
        _note(each)
    if rest := [note for note in notes if note not in shown]:
        with st.expander(f"What to know when reading this ({len(rest)})", icon=":material/info:"):
            for text in rest:
                st.text(text)


def every_table(run: "Run") -> None:
    """Every table, one at a time, and what leaves the app as a file."""
    with st.expander("Save a report, a table or a figure", icon=":material/download:"):
        offer([run], f"save {run.name}")
    names = list(run.tables)
    if not names:
        raise WorkbenchError(
            "this run left no tables.",
            where=run.name,
            remedy=f"To compute it again: workbench runs rm {run.name} --yes, then ask again.",
        )
    _draw_table(run, tables_and_figures.one("Table", names, "table", width=200))
    st.page_link(
        "pages/runs.py",
        label="Everything about this run",
        icon=":material/open_in_new:",
        query_params={run_list.OPENED: run.name},
    )


def asked(run: "Run") -> None:
    """What was asked, of what, with what and when; and the command that asks it again."""
    from workbench.report.content import command, facts

    with told():
        if run.status.state == "done":
            groups = facts(run)
        else:
            spec = run.spec
            groups = {
                "What was asked": (
                    ("run", run.name),
                    ("experiment", spec.experiment),
                    *((key, str(value)) for key, value in run.settings.items()),
                    ("split", spec.split or "all of them"),
                    ("seed", str(spec.seed)),
                ),
                "Of what": (
                    *(("model", model.name) for model in spec.models),
                    *(("corpus", corpus.name) for corpus in spec.corpora),
                ),
            }
        for title, rows in groups.items():
            if rows:
                st.markdown(f"**{title}**")
                text.facts(rows)
        st.markdown("**The same from the command line**")
        st.code(command(run.spec), language="bash", wrap_lines=True)


def log(run: "Run") -> None:
    """The last lines the run has said."""
    from workbench.runs.status import log_lines

    if said := log_lines(run.path, 200):
        lines(said)
    else:
        st.text("The run has said nothing.")


def run_title(run: "Run") -> str:
    """The experiment, and what it looked at."""
    now = run.status
    return subject(now.experiment or run.name, now.models, now.corpora)


def _note(text: str) -> None:
    """A caveat or a warning, as text."""
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.markdown(":material/info:", width="content")
        st.text(text)


def _title(name: str) -> str:
    return plain(name.replace("_", " "))


# --- opened runs ----------------------------------------------------------------------------------

REMOVED = "the run that was removed last"
DAY = 86_400


def show_opened_runs(names: Sequence[str]) -> None:
    """The runs in the address."""
    found: list[Run] = []
    for name in names:
        try:
            found.append(run_list.open_named(name))
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
        st.header(plain(run_title(run)), anchor=False, width="content")
        if now.state == "done":
            text.state(now.state)
    text.facts([("run", run.name), ("asked", text.ago(now.created)), ("took", _took(run))])
    is_done = watched(run)
    _tools(run, is_done)
    what = ["Results", "Question", "Log"] if is_done else ["Question", "Log"]
    for name, place in zip(what, st.tabs(what), strict=True):
        with place:
            _PARTS[name](run)


def _took(run: "Run") -> str:
    from workbench.report.content import duration

    now = run.status
    return duration(now.seconds) if now.seconds else "–"


def _tools(run: "Run", is_done: bool) -> None:
    """What can be done with it."""
    if is_done:
        with st.expander("Save a report, a table or a figure", icon=":material/download:"):
            offer([run], f"save {run.name}")
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

    title = run_title(run)
    st.session_state[REMOVED] = (set_aside(run), title)
    run_list.look_at([name for name in run_list.opened() if name != run.name])


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
    run_list.look_at([run.name])


def _several(runs: Sequence["Run"]) -> None:
    """Runs side by side: what was asked differently, and each table with signed differences."""
    from workbench.report.content import comparisons

    st.header(f"{len(runs)} runs side by side", anchor=False)
    waiting = [run for run in runs if run.status.state != "done"]
    for run in waiting:
        text.facts([(run.status.state, run_title(run))])
    done = [run for run in runs if run not in waiting]
    if waiting:
        st.text("Only runs that are done can be compared.")
    if len(done) < 2:
        return
    with st.expander("Save a report of them", icon=":material/download:"):
        offer(done, "save several")
    found = comparisons(done)
    if not found:
        st.info("These runs are of different experiments, so no table can be laid beside another.")
    for one in found:
        _compared(one)


def _compared(one: "Comparison") -> None:
    from workbench.runs.compare import compared

    st.subheader(plain(one.experiment), anchor=False)
    text.facts((letter, f"{run.name}: {run_title(run)}") for letter, run in one.runs.items())
    if one.requests.total:
        st.markdown("**What was asked differently**")
        tables_and_figures.draw_grid(one.requests, f"asked {one.experiment}")
    for grid in one.tables:
        ((_, table),) = compared([{grid.name: run.tables[grid.name]} for run in one.runs.values()])
        st.markdown(f"**Table: {plain(grid.name)}**")
        if grid.about:
            st.text(grid.about)
        tables_and_figures.draw_table(table, f"compared {one.experiment} {grid.name}")
    for note in one.notes:
        st.text(note)


_PARTS = {"Results": show_results, "Question": asked, "Log": log}


# --- downloads ------------------------------------------------------------------------------------
#
# What leaves the app as a file: reports of runs, their tables and figures; made when asked for.
#
# Two steps: choose and make, then save. Only the last file made is kept, in the session. Costs
# what the writing costs; for pictures the start of a browser.

REPORT = "Report"
FORMS = {
    ".html": "HTML, one page that opens anywhere",
    ".md": "Markdown, with pictures",
    ".tex": "LaTeX",
    ".zip": "zip, with all tables and figures",
    ".csv": "CSV",
    ".parquet": "Parquet",
    ".json": "JSON",
    ".svg": "SVG",
    ".png": "PNG",
    ".pdf": "PDF",
}
MADE = "file that was made"


def offer(runs: Sequence["Run"], key: str) -> None:
    """Choose what to save and how; make it; save it."""
    from workbench.report import ENDINGS
    from workbench.report.export import FIGURE_ENDINGS, TABLE_ENDINGS

    one = runs[0] if len(runs) == 1 else None
    things: dict[str, tuple[str, ...]] = {REPORT: ENDINGS}
    if one is not None:
        with told():
            things |= {f"Table {name}": TABLE_ENDINGS for name in one.tables}
            things |= {f"Figure {name}": FIGURE_ENDINGS for name in one.figures}
    what, how, make = st.columns([3, 3, 2], vertical_alignment="bottom")
    thing = what.selectbox("What to save", list(things), key=f"{key} what")
    ending = how.selectbox(
        "As", things.get(thing, ENDINGS), format_func=FORMS.__getitem__, key=f"{key} how"
    )
    chosen = (tuple(run.name for run in runs), thing, ending)
    if make.button("Make the file", icon=":material/draft:", key=f"{key} make", width="stretch"):
        st.session_state.pop(MADE, None)
        with told(), st.spinner("Writing …"):
            st.session_state[MADE] = (chosen, *_made(runs, thing, ending))
    made = st.session_state.get(MADE)
    if made is not None and made[0] == chosen:
        _, name, content = made
        st.download_button(
            plain(f"Save {name} ({size(len(content))})"),
            content,
            file_name=name,
            mime="application/octet-stream",
            key=f"{key} save",
            on_click="ignore",
            type="primary",
            icon=":material/download:",
        )


def _made(runs: Sequence["Run"], thing: str, ending: str) -> tuple[str, bytes]:
    """The file's name and its bytes; a zip of all where pictures lie beside it."""
    kind, _, name = thing.partition(" ")
    title = runs[0].name if len(runs) == 1 else f"{len(runs)}-runs"
    stem = f"{title}-{name}" if name else title
    with tempfile.TemporaryDirectory(prefix="workbench-") as made:
        folder = Path(made) / stem
        folder.mkdir()
        path = folder / f"{stem}{ending}"
        _writer(runs, kind, name)(path)
        if len(list(folder.iterdir())) == 1:
            return path.name, path.read_bytes()
        packed = shutil.make_archive(str(folder), "zip", folder)
        return f"{stem}{ending}.zip", Path(packed).read_bytes()


def _writer(runs: Sequence["Run"], kind: str, name: str) -> Callable[[Path], object]:
    from workbench.report import write_report
    from workbench.report.export import export_figure, export_table

    if kind == "Table":
        return lambda path: export_table(runs[0], name, path)
    if kind == "Figure":
        return lambda path: export_figure(runs[0], name, path)
    return lambda path: write_report(runs, path)


# --- progress of a run ----------------------------------------------------------------------------
#
# A run that is watched: how it stands, how far it is, what it says; with cancel and resume.
#
# The page reads the run's folder once a second while it is under way, and the page is drawn anew
# once when it has ended. Whoever opens the same address sees the same run: nothing is kept here.

EVERY = 1.0  # seconds between looks
SAID = 12  # lines of the log in view


def watched(run: "Run") -> bool:
    """How a run stands; whether it is done, and has results to show."""
    from workbench.runs.launch import looked

    now = looked(run)
    if now.under_way:
        st.fragment(_under_way, run_every=EVERY)(run)
        return False
    if now.state != "done":
        _ended(run, now)
    return now.state == "done"


def _under_way(run: "Run") -> None:
    """One look, repeated by the browser's wish until the run has ended."""
    from workbench.runs.launch import cancel, looked

    now = looked(run)
    if not now.under_way:
        st.rerun()
    with st.container(border=True):
        _draw_state(now)
        _progress(run, now)
        if st.button("Cancel", icon=":material/stop_circle:", key=f"cancel {run.name}"):
            with told(), st.spinner("Ending it; this may take ten seconds …"):
                cancel(run)
            st.rerun()


def _draw_state(now: Status) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        state(now.state)
        st.text(subject(now.experiment, now.models, now.corpora))


def _progress(run: "Run", now: Status) -> None:
    from workbench.runs import status

    told_last = status.last(run.path)
    begun = [n for n, event in enumerate(told_last) if event.get("state") == "queued"]
    this = told_last[begun[-1] :] if begun else told_last
    step = next((event for event in reversed(this) if event["kind"] == "progress"), None)
    said = [_said(event) for event in this if event["kind"] in ("log", "warning")]
    if step is None:
        st.text("It waits for its turn." if now.state == "queued" else "It is starting …")
        st.progress(0.0)
    else:
        st.text(_step(step))
        share = step["done"] / step["total"] if step["total"] else 0.0
        st.progress(min(max(share, 0.0), 1.0))
    if said:
        lines(said[-SAID:])


def _step(step: Mapping[str, Any]) -> str:
    """What it is doing, how far it is, and the time left."""
    from workbench.report.content import duration

    of = f" of {step['total']:,}" if step["total"] else ""
    left = f", about {duration(step['left'])} left" if step["left"] else ""
    return f"{step['doing'] or 'at work'}: {step['done']:,}{of}{left}"


def _said(event: Mapping[str, Any]) -> str:
    return f"warning: {event['text']}" if event["kind"] == "warning" else str(event["text"])


def _ended(run: "Run", now: Status) -> None:
    """One that failed or was cancelled: why, its last words, and how to go on."""
    with st.container(border=True):
        _draw_state(now)
        if now.failure is not None:
            tell(now.failure.error())
        said = now.failure.lines if now.failure and now.failure.lines else log_lines(run.path)
        if said and not (now.failure and now.failure.kind == "input"):
            with st.expander("The last lines of its log"):
                lines(said)
        if st.button(
            "Resume",
            icon=":material/resume:",
            key=f"resume {run.name}",
            help="Go on from what the run had saved; from its beginning where it saved nothing.",
        ):
            with told(), st.spinner("Starting …"):
                resume(run)
                st.rerun()


def resume(run: "Run") -> None:
    """Go on with a run that was cancelled, failed or died."""
    from workbench.runs.launch import start

    if not run.spec.answerable:
        raise WorkbenchError(
            "what it looks at was handed over as an object.",
            where=run.name,
            remedy="Call wb.run again with the same object.",
        )
    start(run.spec)
