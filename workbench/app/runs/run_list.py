"""All runs and their status, for lists: ten thousand runs in a tenth of a second.

A status is read again only if its file changed. That of an unfinished run is read each time, since
its process may have died. Costs: one look at each run's folder.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.app import choice, selection
from workbench.app.runs import saved_runs
from workbench.app.runs.saved_runs import TICK
from workbench.app.tables_and_figures import first_of_page
from workbench.app.text import STATES, errors_shown
from workbench.core import machine
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.findings import capital
from workbench.runs import notes, status
from workbench.runs.notes import Note
from workbench.runs.run import BUILT_IN
from workbench.runs.saved import Saved
from workbench.runs.status import NamedStatus, Status

if TYPE_CHECKING:
    from workbench.core.findings import Finding
    from workbench.runs.run import Run

OPENED = "run"  # in the address: the opened runs
MAX_OPENED = 26  # runs compared at once
PAGE = 25  # runs on a page of the list
EVERY = 3.0  # seconds between looks at unfinished runs
TAGGED = "how often runs were tagged"
NOTED = 160  # characters of a note in the list


@st.cache_resource(show_spinner=False)
def _cached_statuses() -> dict[str, tuple[int, Status]]:
    """Statuses by folder, with the time at which the file was written."""
    return {}


def all_statuses() -> list[NamedStatus]:
    """All runs with their status: those under way, then the others, the last end first."""
    from workbench.runs.run import run_names

    folder = machine.runs()
    runs = [(name, _status(str(folder / name))) for name in run_names()]

    def when(run: NamedStatus) -> tuple[bool, str, str]:
        name, now = run
        return now.under_way, now.ended or now.created, name

    return sorted(runs, key=when, reverse=True)


def _status(path: str) -> Status:
    from pathlib import Path

    cached, folder = _cached_statuses(), Path(path)
    try:
        written = (folder / status.FILE).stat().st_mtime_ns
    except OSError:
        return status.settled(folder)
    before = cached.get(path)
    if before is not None and before[0] == written and not before[1].under_way:
        return before[1]
    now = status.settled(folder)
    cached[path] = (written, now)
    return now


@st.cache_resource(show_spinner=False)
def _cached_notes() -> dict[str, tuple[int, Note]]:
    """Tags and notes by folder, with the time at which the file was written."""
    return {}


def note_of(name: str) -> Note:
    """The tags and the note of a run; read again if the file changed."""
    folder, cached = machine.runs() / name, _cached_notes()
    try:
        written = (folder / notes.FILE).stat().st_mtime_ns
    except OSError:
        return Note()
    before = cached.get(str(folder))
    if before is None or before[0] != written:
        before = cached[str(folder)] = (written, notes.read(folder))
    return before[1]


def matching(runs: Iterable[NamedStatus], wanted: Saved) -> list[NamedStatus]:
    """The runs that a filter takes."""
    if wanted == Saved():
        return list(runs)
    return [(name, now) for name, now in runs if wanted.has(name, now, note_of(name))]


def is_whole(name: str, known: Mapping[str, Status]) -> bool:
    """Whether a run was not started by another one of these."""
    return status.whole_of(name, known) == name


def whole_runs() -> list[NamedStatus]:
    """All runs that no other run has started, latest first."""
    runs = all_statuses()
    known = dict(runs)
    return [(name, now) for name, now in runs if is_whole(name, known)]


def inputs_of(name: str, now: Status) -> tuple[Sequence[str], Sequence[str]]:
    """The models and corpora of a run by the names that they have now."""
    return status.inputs_of(machine.runs() / name, now)


def _duration(now: Status) -> str:
    from workbench.report.content import duration

    return duration(now.seconds) if now.seconds else ""


def opened() -> list[str]:
    """The names of runs in the address, each once."""
    return list(dict.fromkeys(st.query_params.get_all(OPENED)))[:MAX_OPENED]


def open_named(name: str) -> "Run":
    """A run by its name in the address; the name is not trusted. Errors name no folder."""
    from workbench.runs.run import builtin_names, open_run, run_names

    try:
        return open_run(name)
    except WorkbenchError as error:
        remedy = error.remedy
        if error.code == "run-not-found":
            built_in = [f"{BUILT_IN}{each}" for each in builtin_names()]
            every = [*run_names(), *built_in]
            experiment = name.removeprefix(BUILT_IN).rpartition("-")[0]
            alike = [each for each in every if each.removeprefix(BUILT_IN).startswith(experiment)]
            remedy = did_you_mean(name, alike or every, ordered=True)
        raise WorkbenchError(capital(error.what), code=error.code, remedy=remedy) from None


def draw_empty() -> None:
    """Draw what to do if there are no runs."""
    st.markdown("There are no runs yet. A run is one experiment with its settings and its result.")
    st.page_link("pages/experiments.py", label="Run an experiment", icon=":material/science:")
    st.text(f"Runs are stored in {machine.runs()}.")


def draw(runs: Sequence[NamedStatus]) -> None:
    """Draw the search, the user's runs, and the built-in results below them.

    Ticked runs are compared.
    """
    from workbench.runs.builtin import builtin_runs

    shipped = [(run.name, run.status) for run in builtin_runs()]
    st.html(_STYLE)
    with st.container(key="controls-runs"):
        wanted = _wanted([*runs, *shipped])
    buttons([name for name, _ in (*runs, *shipped)])
    if runs:
        _own(runs, matching(runs, wanted))
    if shipped:
        _built_in(shipped, matching(shipped, wanted), is_open=not runs or wanted != Saved())


_BOXES = {  # of the filter: their labels
    "experiments": "Experiments",
    "models": "Models",
    "states": "States",
    "tags": "Tags",
}


def _options(runs: Sequence[NamedStatus]) -> dict[str, list[str]]:
    """What the boxes of the filter offer."""
    return {
        "experiments": sorted({now.experiment for _, now in runs if now.experiment}),
        "models": sorted({model for _, now in runs for model in now.models}),
        "states": list(STATES),
        "tags": sorted({tag for name, _ in runs for tag in note_of(name).tags}),
    }


def _wanted(runs: Sequence[NamedStatus]) -> Saved:
    """Draw the search and the filters; return what is chosen, within an opened group."""
    offers = _options(runs)
    group = saved_runs.opened_group(runs, offers)
    options = {key: each for key, each in offers.items() if each or key != "tags"}
    text, *columns = st.columns(1 + len(options))
    words = text.text_input(
        "Search",
        placeholder="name, model, corpus, note",
        key=saved_runs.FIND,
        persist_state="session",
        type="search",
        on_change=saved_runs.changed,
    )
    picked = {
        key: tuple(
            column.multiselect(
                _BOXES[key],
                offered,
                placeholder="all",
                key=f"{key}{saved_runs.OF_RUNS}",
                persist_state="session",
                on_change=saved_runs.changed,
            )
        )
        for column, (key, offered) in zip(columns, options.items(), strict=True)
    }
    wanted = Saved(text=words or "", **picked)
    saved_runs.draw(wanted)
    return wanted.model_copy(update={"runs": group})


def _own(runs: Sequence[NamedStatus], matches: Sequence[NamedStatus]) -> None:
    """Draw the user's runs, a page at a time; below each one those that it started."""
    if not matches:
        st.info(f"None of the {len(runs):,} runs matches. Remove a search word or a filter.")
        return
    grouped = status.families(runs, matches)
    known = dict(runs)
    n_runs, n_all = len(grouped), sum(is_whole(name, known) for name in known)
    first = first_of_page(n_runs, PAGE, "page of runs")
    shown = grouped[first : first + PAGE]
    _refresh([each for whole, parts in shown for each in (whole, *parts[:PAGE])])
    noun = "run" if n_runs == 1 else "runs"
    which = f"{n_runs:,} {noun}{f' of {n_all:,}' if n_runs < n_all else ''}"
    if n_runs > PAGE:
        which = f"{first + 1:,} to {first + len(shown):,} of {which}"
    st.caption(f"{which}. Click one to open it, or tick several to compare them.")
    from workbench.runs.run import stored_headline

    folder = machine.runs()
    with st.container(key="run-list", gap=None):
        for (name, now), parts in shown:
            _row(name, now, stored_headline(folder / name, now))
            if parts:
                _parts(name, parts)


def _parts(name: str, parts: Sequence[NamedStatus]) -> None:
    """Draw the runs that a run has started, folded."""
    from workbench.runs.run import stored_headline

    n_parts = len(parts)
    label = f"{n_parts:,} {'run' if n_parts == 1 else 'runs'} started by it"
    if n_busy := sum(now.under_way for _, now in parts):
        label += f", {n_busy:,} under way"
    with (
        st.expander(label, type="compact", key=f"parts of {name}"),
        st.container(key=f"run-list-of {name}", gap=None),
    ):
        for part, now in parts[:PAGE]:
            _row(part, now, stored_headline(machine.runs() / part, now))
        if n_parts > PAGE:
            st.caption(f"and {n_parts - PAGE:,} more: search for their models or settings.")


def _built_in(
    shipped: Sequence[NamedStatus], matches: Sequence[NamedStatus], is_open: bool
) -> None:
    """Draw the built-in results; ticked ones are compared with the user's runs."""
    from workbench.runs.builtin import builtin_run
    from workbench.runs.run import stored_headline

    count = (
        f"{len(matches)}" if len(matches) == len(shipped) else f"{len(matches)} of {len(shipped)}"
    )
    label = f"Built-in results ({count})"
    with st.expander(label, expanded=is_open, type="compact", key="built-in results"):
        st.caption(
            "Results of the mini models, shipped with Workbench. They are not runs of yours."
        )
        with st.container(key="run-list-built-in", gap=None):
            for name, now in matches:
                _row(name, now, stored_headline(builtin_run(name).path, now))


_STYLE = """<style>
[class*="st-key-row-"] { border-top: 1px solid var(--shell-line, #d5dce3); padding: 8px 0; }
[class*="st-key-run-list-of"] { padding-left: 28px; }
[class*="st-key-row-"] [data-testid="stPageLink-NavLink"] { padding: 0; min-height: 0; }
[class*="st-key-row-"] [data-testid="stPageLink-NavLink"] p,
[class*="st-key-row-"] [data-testid="stPageLink-NavLink"] span {
  font-size: 15px; font-weight: 600; white-space: normal; overflow: visible; text-overflow: clip;
}
</style>"""
COLOURS = {"done": "gray", "running": "blue", "failed": "red", "queued": "gray"}


def _row(name: str, now: Status, found: "Finding | None") -> None:
    """Draw one run: a box to compare it, its title as a link, its state, and its first finding."""
    from workbench.app import navigation
    from workbench.app.runs.verdicts import in_line
    from workbench.app.text import ago, plain
    from workbench.report.prose import title_of_names

    experiment = now.experiment or name.rpartition("-")[0]
    with st.container(key=f"row {name}", horizontal=True, vertical_alignment="top", gap="small"):
        st.checkbox(
            f"Compare {name}",
            key=f"{TICK}{name}",
            label_visibility="collapsed",
            width="content",
            persist_state="page",  # kept while a search leaves the run out
        )
        with st.container(gap=None):
            title = title_of_names(experiment, *inputs_of(name, now))
            navigation.link(
                navigation.page_of(experiment), plain(title), query_params={OPENED: name}
            )
            is_builtin = name.startswith(BUILT_IN)
            state = (
                ":violet-badge[built-in]"
                if is_builtin
                else f":{COLOURS.get(now.state, 'orange')}-badge[{now.state}]"
            )
            when = "" if is_builtin else ago(now.ended or now.created)
            facts = " · ".join(filter(None, (when, _duration(now), name)))
            said = f"{in_line(found)}  \n" if found else ""
            note = note_of(name)
            labels = "".join(f" :blue-badge[{plain(tag)}]" for tag in note.tags)
            about = f"  \n:small[{plain(note.text.splitlines()[0][:NOTED])}]" if note.text else ""
            st.markdown(f"{said}{state}{labels} :small[{plain(facts)}]{about}")


def ticked(runs: Iterable[str]) -> list[str]:
    """The runs whose boxes are ticked."""
    return [name for name in runs if st.session_state.get(f"{TICK}{name}")][:MAX_OPENED]


def buttons(names: Sequence[str]) -> None:
    """Draw what is done with the ticked runs: compare them, or give them a tag."""
    if not (chosen := ticked(names)):
        return
    with st.container(key="controls-ticked", horizontal=True):
        st.button(
            f"Compare {len(chosen)} runs" if len(chosen) > 1 else "Tick another run to compare",
            icon=":material/compare_arrows:",
            disabled=len(chosen) < 2,
            key="compare ticked",
            on_click=set_opened,
            args=(chosen,),
            type="primary",
        )
        saved_runs.save_group(chosen)
        if own := [name for name in chosen if not name.startswith(BUILT_IN)]:
            _tag_button(own)


def _tag_button(names: Sequence[str]) -> None:
    """Draw the box that gives runs a tag; the list is then filtered by it."""
    noun = "run" if len(names) == 1 else f"{len(names)} runs"
    n_tagged = st.session_state.get(TAGGED, 0)
    with (
        choice.place_of_popover(n_tagged),
        st.popover(f"Tag {noun}", icon=":material/label:"),
        st.form("tag ticked", border=False),
        errors_shown(),
    ):
        tag = st.text_input("Tag", placeholder="one word", max_chars=40, key="tag of ticked")
        if st.form_submit_button("Add the tag") and tag.strip():
            for name in names:
                notes.tagged(open_named(name), [tag.strip()])
            st.session_state[TAGGED] = n_tagged + 1
            st.rerun()


def set_opened(names: Sequence[str]) -> None:
    """Put runs into the address."""
    set_query(OPENED, list(names))


def set_query(key: str, value: str | list[str] | None, cleared: Iterable[str] = ()) -> None:
    """Set or remove a choice in the address, and remove the `cleared` choices that depend on it.

    The address changes once, so that Back takes all of it back.
    """
    present = [each for each in (key, *cleared) if each in st.query_params]
    if (context := get_script_run_ctx()) is not None:
        with context.session_state.query_params() as address:
            for each in present if value else present[:-1]:
                address.discard_param_no_forward_msg(each)
    if value:
        st.query_params[key] = value
        return
    selection.forget_opened()
    if present:
        del st.query_params[present[-1]]


def set_query_from(box: str, key: str, first: object) -> None:
    """Set a choice in the address to the value of a box; for callbacks of the box.

    The value that it was drawn with, `first`, is no choice: an automatic look at the jobs may send
    a box once more that is gone since.
    """
    if (value := st.session_state.get(box)) != first:
        set_query(key, value)


def _refresh(shown: Sequence[NamedStatus]) -> None:
    """Draw the page again when the state of an unfinished run changes."""
    unfinished: dict[str, str] = {name: now.state for name, now in shown if now.under_way}
    if unfinished:
        st.fragment(_rerun_if_changed, run_every=EVERY)(unfinished)


def _rerun_if_changed(before: dict[str, str]) -> None:
    folder = machine.runs()
    if any(_status(str(folder / name)).state != state for name, state in before.items()):
        st.rerun()


def draw_latest(count: int, busy: bool = False) -> None:
    """Draw links to the latest runs; refreshed while one is unfinished or `busy` is set."""
    refresh = busy or any(now.under_way for _, now in whole_runs()[:count])
    st.fragment(_latest, run_every=EVERY if refresh else None)(count)


def _latest(count: int) -> None:
    from workbench.app.runs.verdicts import in_line
    from workbench.app.text import ago, plain, state
    from workbench.report.prose import title_of_names
    from workbench.runs.run import stored_headline

    runs = whole_runs()[:count]
    if not runs:
        st.markdown("No runs yet.")
        return
    for name, now in runs:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            state(now.state)
            experiment = now.experiment or name.rpartition("-")[0]
            title = title_of_names(experiment, *inputs_of(name, now))
            st.page_link("pages/runs.py", label=plain(title), query_params={OPENED: name})
            st.caption(plain(ago(now.ended or now.created)), width="content")
        if found := stored_headline(machine.runs() / name, now):
            st.caption(in_line(found))
    st.page_link("pages/runs.py", label="All runs", icon=":material/list:")
