"""All runs and their status, for lists: ten thousand runs in a tenth of a second.

A status is read again only if its file changed. That of an unfinished run is read each time, since
its process may have died. Costs: one look at each run's folder.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app.tables_and_figures import first_of_page
from workbench.app.text import STATES
from workbench.core import machine
from workbench.runs import status
from workbench.runs.run import BUILT_IN
from workbench.runs.status import Status

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs.run import Run

NamedStatus = tuple[str, Status]  # the name of a run and its status
OPENED = "run"  # in the address: the opened runs
MAX_OPENED = 26  # runs compared at once
PAGE = 50  # runs on a page of the list
VIEW = 12  # rows in view
EVERY = 3.0  # seconds between looks at unfinished runs


@st.cache_resource(show_spinner=False)
def _cached_statuses() -> dict[str, tuple[int, Status]]:
    """Statuses by folder, with the time at which the file was written."""
    return {}


def all_statuses() -> list[NamedStatus]:
    """All runs with their status, latest first."""
    from workbench.runs.run import run_names

    folder = machine.runs()
    runs = [(name, _status(str(folder / name))) for name in run_names()]
    return sorted(runs, key=lambda run: (run[1].created, run[0]), reverse=True)


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


def matching(
    runs: Iterable[NamedStatus], text: str, experiments: Sequence[str], states: Sequence[str]
) -> list[NamedStatus]:
    """Runs of these experiments and states that contain every word of the text."""
    words = text.lower().split()
    return [
        (name, now)
        for name, now in runs
        if (not experiments or now.experiment in experiments)
        and (not states or now.state in states)
        and all(word in _searched(name, now) for word in words)
    ]


def _searched(name: str, now: Status) -> str:
    return " ".join((name, now.experiment, now.state, *now.models, *now.corpora)).lower()


def table(runs: Sequence[NamedStatus]) -> "pd.DataFrame":
    """Runs as a table, one row each, with their first finding."""
    import pandas as pd

    from workbench.runs.run import first_claim

    rows = [
        (
            now.experiment or name.rpartition("-")[0],
            now.state,
            ", ".join(now.models),
            ", ".join(now.corpora),
            _time(now.created),
            _duration(now),
            name,
            first_claim(machine.runs() / name, now),
        )
        for name, now in runs
    ]
    columns = ["experiment", "state", "models", "corpora", "created", "duration", "run", "finding"]
    return pd.DataFrame(rows, columns=columns)


def _duration(now: Status) -> str:
    from workbench.report.content import duration

    return duration(now.seconds) if now.seconds else ""


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def opened() -> list[str]:
    """The names of runs in the address, each once."""
    return list(dict.fromkeys(st.query_params.get_all(OPENED)))[:MAX_OPENED]


def open_named(name: str) -> "Run":
    """A run by its name in the address; the name is not trusted."""
    from workbench.runs.run import open_run

    return open_run(name)


def draw_empty() -> None:
    """Draw what to do if there are no runs."""
    st.markdown("There are no runs yet. A run is one experiment with its settings and its result.")
    st.page_link("pages/experiments.py", label="Run an experiment", icon=":material/science:")
    st.text(f"Runs are stored in {machine.runs()}.")


def draw(runs: Sequence[NamedStatus]) -> None:
    """Draw the list, a page at a time; ticked runs go into the address."""
    text, experiments, states = st.columns([2, 2, 2])
    matches = matching(
        runs,
        text.text_input(
            "Search",
            placeholder="name, model, corpus",
            key="find runs",
            persist_state="session",
            type="search",
        )
        or "",
        experiments.multiselect(
            "Experiments",
            sorted({now.experiment for _, now in runs if now.experiment}),
            placeholder="all",
            key="experiments of runs",
            persist_state="session",
        ),
        states.multiselect(
            "States", STATES, placeholder="all", key="states of runs", persist_state="session"
        ),
    )
    if not matches:
        st.info(f"None of the {len(runs):,} runs matches. Remove a search word or a filter.")
        return
    first = first_of_page(len(matches), PAGE, "page of runs")
    shown = matches[first : first + PAGE]
    _refresh(shown)
    noun = "run" if len(matches) == 1 else "runs"
    which = f"{len(matches):,} {noun}{f' of {len(runs):,}' if len(matches) < len(runs) else ''}"
    if len(matches) > PAGE:
        which = f"{first + 1:,} to {first + len(shown):,} of {which}"
    st.caption(f"{which}. Tick one run to open it, two or more to compare them.")
    names = [name for name, _ in shown]
    key = f"runs {hash((*names, *opened()))}"
    st.dataframe(
        table(shown),
        hide_index=True,
        height=min(len(shown) + 1, VIEW) * 35 + 3,
        column_config={
            "models": st.column_config.TextColumn("models", width="small"),
            "created": st.column_config.DatetimeColumn("created", format="YYYY-MM-DD HH:mm"),
            "run": st.column_config.TextColumn(
                "run", width="small", help="Name of the run and of its folder."
            ),
            "finding": st.column_config.TextColumn(
                "finding", width="large", help="The first finding of the run."
            ),
        },
        on_select=lambda: _select(key, names),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": _rows(names)}},
        key=key,
    )


def draw_built_in() -> None:
    """Draw the list of built-in results; ticked ones are opened, next to the user's runs."""
    from workbench.runs.builtin import builtin_runs

    runs = builtin_runs()
    if not runs:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Built-in results", anchor=False, width="content")
        st.badge("built-in", icon=":material/inventory_2:", color="violet")
    st.caption(
        "Results of the mini models, shipped with Workbench. They are not runs of yours. Tick one "
        "to open it, or tick several, here and above, to compare them."
    )
    names = [run.name for run in runs]
    key = f"built-in {hash((*names, *opened()))}"
    st.dataframe(
        _built_in_table(),
        hide_index=True,
        height=min(len(runs) + 1, VIEW) * 35 + 3,
        column_config={
            "finding": st.column_config.TextColumn(
                "finding", width="large", help="The first finding of the result."
            ),
        },
        on_select=lambda: _select(key, names),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": _rows(names)}},
        key=key,
    )


@st.cache_data(max_entries=1, show_spinner=False)
def _built_in_table() -> "pd.DataFrame":
    """The built-in results as a table, one row each; they do not change while the app runs."""
    import pandas as pd

    from workbench.runs.builtin import builtin_runs
    from workbench.runs.run import first_claim

    pairs = [(run, run.status) for run in builtin_runs()]
    rows = [
        (
            now.experiment,
            ", ".join(now.models),
            ", ".join(now.corpora),
            first_claim(run.path, now),
            _duration(now),
        )
        for run, now in pairs
    ]
    return pd.DataFrame(rows, columns=["experiment", "models", "corpora", "finding", "duration"])


def _rows(names: Sequence[str]) -> list[int]:
    names_opened = opened()
    return [row for row, name in enumerate(names) if name in names_opened]


def _select(key: str, names: Sequence[str]) -> None:
    """Put the ticked runs into the address, after those of the other list."""
    rows = st.session_state[key]["selection"]["rows"]
    ticked = [names[row] for row in rows if row < len(names)]
    is_shipped = bool(names) and names[0].startswith(BUILT_IN)
    others = [name for name in opened() if name.startswith(BUILT_IN) != is_shipped]
    set_opened([*others, *ticked][:MAX_OPENED])


def set_opened(names: Sequence[str]) -> None:
    """Put runs into the address."""
    set_query(OPENED, list(names))


def set_query(key: str, value: str | list[str] | None, cleared: Iterable[str] = ()) -> None:
    """Set or remove a choice in the address, and remove the `cleared` choices that depend on it."""
    for each in (key, *cleared):
        st.query_params.pop(each, None)
    if value:
        st.query_params[key] = value


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
    refresh = busy or any(now.under_way for _, now in all_statuses()[:count])
    st.fragment(_latest, run_every=EVERY if refresh else None)(count)


def _latest(count: int) -> None:
    from workbench.app.text import ago, plain, state, subject
    from workbench.runs.run import first_claim

    runs = all_statuses()[:count]
    if not runs:
        st.markdown("No runs yet.")
        return
    for name, now in runs:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            state(now.state)
            title = subject(now.experiment or name, now.models, now.corpora)
            st.page_link("pages/runs.py", label=plain(title), query_params={OPENED: name})
            st.caption(plain(ago(now.created)), width="content")
        if claim := first_claim(machine.runs() / name, now):
            st.caption(plain(claim))
    st.page_link("pages/runs.py", label="All runs", icon=":material/list:")
