"""Parts of an opened run: its progress, request, log and removal.

Removing a run moves it to a bin, so that one click loses nothing. Costs: reading the runs' folders.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import tables_and_figures, text
from workbench.app.runs import run_list
from workbench.app.text import errors_shown, lines, plain, show_error, state, subject
from workbench.runs import notes
from workbench.runs.reported import Reported, reported
from workbench.runs.status import Status, log_line, log_lines
from workbench.runs.time_left import age_of, in_words, progress_line

if TYPE_CHECKING:
    from workbench.runs.run import Run

# --- parts of a result ----------------------------------------------------------------------------


def badge(run: "Run") -> None:
    """Draw the state of a run as a badge; that of a built-in result is `built-in`."""
    if run.is_builtin:
        st.badge("built-in", icon=":material/inventory_2:", color="violet")
    else:
        text.state(run.status.state)


def built_in(run: "Run") -> None:
    """Draw what a built-in result is, and the command that computes it again."""
    text.facts([("run", run.name), ("duration", duration_of(run))])
    st.caption(
        "This result is shipped with Workbench and is not a run of yours. This command computes it "
        "again; the time is that of the machine that made it, with one thread."
    )
    st.code(str(run.provenance["command"]), language="bash", wrap_lines=True)


def request_of(run: "Run") -> None:
    """Draw what the run computed: settings, models, corpora, times; and the command for it."""
    from workbench.report.content import command, facts

    with errors_shown():
        if run.status.state == "done":
            groups = facts(run)
        else:
            spec = run.spec
            groups = {
                "Settings": (
                    ("run", run.name),
                    ("experiment", spec.experiment),
                    *((key, str(value)) for key, value in run.settings.items()),
                    ("split", spec.split or "all"),
                    ("seed", str(spec.seed)),
                ),
                "Models and corpora": (
                    *(("model", model.name) for model in spec.models),
                    *(("corpus", corpus.name) for corpus in spec.corpora),
                ),
            }
        for title, rows in groups.items():
            if rows:
                st.markdown(f"**{title}**")
                text.facts(rows)
        st.markdown("**Command line**")
        st.code(command(run.spec), language="bash", wrap_lines=True)


def log(run: "Run") -> None:
    """Draw the last lines of the run's log."""
    from workbench.runs.status import log_lines

    if log := log_lines(run.path, 200):
        lines(log)
    else:
        st.text("The log is empty.")


def run_title(run: "Run") -> str:
    """The experiment, its models and its corpora in one line."""
    now = run.status
    return subject(now.experiment or run.name, now.models, now.corpora)


# --- opened runs ----------------------------------------------------------------------------------

REMOVED = "the run that was removed last"
DAY = 86_400


def duration_of(run: "Run") -> str:
    """How long the run took; "" if that is not known."""
    from workbench.report.content import duration

    now = run.status
    return duration(now.seconds) if now.seconds else ""


def note(run: "Run") -> None:
    """Draw the drawer with the tags and the note of a run of the user's."""
    if run.is_builtin:
        return
    found = notes.read(run.path)
    label = ": ".join(filter(None, ("Tags and note", plain(", ".join(found.tags)))))
    with (
        st.expander(label, icon=":material/label:", type="compact"),
        st.form(f"note {run.name}", border=False),
        errors_shown(),
    ):
        tags = st.multiselect(
            "Tags", found.tags, found.tags, accept_new_options=True, placeholder="words of your own"
        )
        words = st.text_area("Note", found.text, max_chars=notes.LONGEST)
        if st.form_submit_button("Save", icon=":material/save:"):
            notes.write(run, tags, words)
            st.rerun()


def remove_button(run: "Run") -> None:
    """Draw the button that removes the run, unless it is under way or built in."""
    if (
        not run.status.under_way
        and not run.is_builtin
        and st.button(
            "Remove",
            icon=":material/delete:",
            key=f"remove {run.name}",
            help="You can restore the run for a week.",
        )
    ):
        with errors_shown():
            _remove(run)
            st.rerun()


def _remove(run: "Run") -> None:
    from workbench.runs.launch import move_to_bin

    title = run_title(run)
    st.session_state[REMOVED] = (move_to_bin(run), title)
    run_list.set_opened([name for name in run_list.opened() if name != run.name])
    st.toast(f"Removed: {plain(title)}. The page Runs restores it for a week.", duration="long")


def undo() -> None:
    """Draw the last removed run with a button that restores it."""
    if REMOVED not in st.session_state:
        return
    entry, title = st.session_state[REMOVED]
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        st.text(f"Removed: {title}", width="stretch")
        if st.button("Undo", icon=":material/undo:", key="undo removal"):
            with errors_shown():
                _restore(entry)
                st.rerun()


def removed() -> None:
    """Draw all runs that can be restored."""
    from workbench.runs.launch import runs_in_bin

    entries = runs_in_bin()
    if not entries:
        return
    with st.expander(f"Removed runs ({len(entries):,})", icon=":material/delete:"):
        st.caption("A removed run is kept for a week. After that it may be deleted permanently.")
        titles = {
            entry: f"{name}, {left / DAY:.0f} days left" if left > DAY else f"{name}, last day"
            for entry, name, left in entries
        }
        chosen = st.selectbox("Run", list(titles), format_func=titles.__getitem__)
        if st.button("Restore", icon=":material/undo:") and chosen:
            with errors_shown():
                _restore(chosen)
                st.rerun()


def _restore(entry: str) -> None:
    from workbench.runs.launch import restore_from_bin

    run = restore_from_bin(entry)
    if st.session_state.get(REMOVED, ("",))[0] == entry:
        del st.session_state[REMOVED]
    run_list.set_opened([run.name])


# --- progress of a run ----------------------------------------------------------------------------
#
# State, progress and log of a run, with buttons to cancel and resume it.
#
# The run's folder is read once a second while it is unfinished, and the page is drawn again when it
# ends. Everyone who opens the same address sees the same run: no state is kept here.

EVERY = 1.0  # seconds between looks
LOG_LINES = 12  # of the log in view
PARTS = 3  # runs that a run has started, with curves in view


def watched(run: "Run") -> bool:
    """Draw the progress of a run, or how it ended; return whether it is done."""
    from workbench.runs.launch import looked

    now = looked(run)
    if now.under_way:
        st.fragment(_under_way, run_every=EVERY)(run)
        return False
    if now.state != "done":
        _ended(run, now)
    return now.state == "done"


def _under_way(run: "Run") -> None:
    """Draw the progress once; the browser repeats this until the run has ended."""
    from workbench.runs.launch import cancel, looked

    now = looked(run)
    if not now.under_way:
        st.rerun()
    with st.container(key=f"run-under-way-{run.name}"):
        _draw_state(now)
        _progress(run, now)
        if st.button("Cancel", icon=":material/stop_circle:", key=f"cancel {run.name}"):
            with errors_shown(), st.spinner("Cancelling (may take ten seconds) …"):
                cancel(run)
            st.rerun()


def _draw_state(now: Status) -> None:
    state(now.state)


def _progress(run: "Run", now: Status) -> None:
    from workbench.runs import status

    events = status.last(run.path)
    starts = [n for n, event in enumerate(events) if event.get("state") in ("queued", "running")]
    current = events[starts[-1] :] if starts else events
    step = next((event for event in reversed(current) if event["kind"] == "progress"), None)
    log = [log_line(event) for event in current if event["kind"] in ("log", "warning")]
    _stages(run, now)
    if step is None:
        left = f", {in_words(now.expected)} left" if now.expected else ""
        st.text(f"starting{left}")
        st.progress(0.0)
    else:
        age = age_of(step)
        st.text(progress_line(step, age))
        st.progress(_share(now, step, age))
    _curves(run)
    if log:
        lines(log[-LOG_LINES:])


@st.cache_resource(max_entries=100, show_spinner=False)
def _read_so_far(path: str) -> list[Reported]:
    """What was read of a run's events, so that each look reads only the new ones."""
    return []


def _reported(run: "Run") -> Reported:
    before = _read_so_far(str(run.path))
    now = reported(run.path, before[0] if before else None)
    before[:] = [now]
    return now


@st.cache_data(max_entries=100, show_spinner=False)
def _stages_of_earlier(path: str) -> list[str]:
    """The stages of the most similar earlier run, in order."""
    from workbench.runs.run import Run
    from workbench.runs.time_left import earlier

    run = Run(Path(path))
    before = earlier(run.path, run.status, run.spec)
    return [] if before is None else list(dict.fromkeys(name for name, _ in before.stages))


def _stages(run: "Run", now: Status) -> None:
    """Draw the stages that are done, the current one, and those that an earlier run had next."""
    begun = list(dict.fromkeys(_reported(run).stages))
    if not begun or now.state != "running":
        return
    current = _reported(run).stages[-1]
    done = [f":green[✓] {plain(name)}" for name in begun if name != current]
    later = [name for name in _stages_of_earlier(str(run.path)) if name not in begun]
    following = [f":gray[{plain(name)}]" for name in later]
    st.markdown(" → ".join([*done, f"**{plain(current)}**", *following]))


def _curves(run: "Run") -> None:
    """Draw the curves of a run as they come, or those of the runs that it started and repeats."""
    import pandas as pd

    from workbench.drawing import progress

    rows = []
    parts = [each for each in _parts_under_way(run) if _reported(each).curves]
    for each in parts or [run]:
        so_far = _reported(each)
        rows += [
            (run_title(each), series, measure, x, y, so_far.total)
            for (series, measure), points in so_far.curves.items()
            for x, y in points
        ]
    if rows:
        points = pd.DataFrame(rows, columns=list(progress.COLUMNS))
        key = f"curves {run.name}"
        about: Any = progress.curves
        if points[["run", "series"]].drop_duplicates().shape[0] == 1:
            about = "The loss so far, as the run reports it."
        tables_and_figures.draw_view(run, "curves", progress.curves(points), about, key)


def _parts_under_way(run: "Run") -> "list[Run]":
    """The first runs under way that a run has started."""
    names = [
        name
        for name, now in run_list.all_statuses()
        if now.state == "running" and now.part_of == run.name
    ]
    return [run_list.open_named(name) for name in names[:PARTS]]


def _share(now: Status, step: Mapping[str, Any], age: float) -> float:
    """The share of the run that is done, or of its stage if no earlier run tells the former."""
    left = step.get("left_of_run")
    share = step["done"] / step["total"] if step["total"] else 0.0
    if now.state == "running" and left and now.expected:
        share = 1 - (left - age) / max(now.expected, left)
    return float(min(1.0, max(0.0, share)))


def _ended(run: "Run", now: Status) -> None:
    """Draw a run that failed or was cancelled: the reason, its log, and a button to resume."""
    with st.container(key=f"run-ended-{run.name}"):
        _draw_state(now)
        if now.failure is not None:
            show_error(now.failure.error())
        log = now.failure.lines if now.failure and now.failure.lines else log_lines(run.path)
        if log and not (now.failure and now.failure.kind == "input"):
            with st.expander("End of the log"):
                lines(log)
        if st.button(
            "Resume",
            icon=":material/resume:",
            key=f"resume {run.name}",
            help="Continue from the last checkpoint, or from the start if there is none.",
        ):
            with errors_shown(), st.spinner("Starting …"):
                resume(run)
                st.rerun()


def resume(run: "Run") -> None:
    """Resume a run that was cancelled, failed or died."""
    from workbench.runs.launch import start
    from workbench.runs.run import require_own
    from workbench.runs.spec import cannot_reopen

    for item in run.spec.objects():
        raise cannot_reopen(item)
    require_own(run, "resumed")
    start(run.spec)
