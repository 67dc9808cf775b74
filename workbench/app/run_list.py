"""All runs and how they stand, for lists: ten thousand of them in a tenth of a second.

A status is read again only when its file has changed; of a run under way each time, for its process
may have died. Costs a look at each run's folder.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app.tables_and_figures import first_of_page
from workbench.app.text import STATES
from workbench.core import machine
from workbench.runs import status
from workbench.runs.status import Status

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs.run import Run

Standing = tuple[str, Status]
OPENED = "run"  # in the address: the runs that are looked at
MOST = 26  # runs that are looked at together
LISTED = 50  # at a time
VIEW = 12  # rows in view
EVERY = 3.0  # seconds between looks at those under way


@st.cache_resource(show_spinner=False)
def _seen() -> dict[str, tuple[int, Status]]:
    """Statuses by folder, with the time at which the file was written."""
    return {}


def standing() -> list[Standing]:
    """All runs, the newest first."""
    from workbench.runs.run import run_names

    folder = machine.runs()
    found = [(name, _status(str(folder / name))) for name in run_names()]
    return sorted(found, key=lambda one: (one[1].created, one[0]), reverse=True)


def _status(path: str) -> Status:
    from pathlib import Path

    seen, folder = _seen(), Path(path)
    try:
        written = (folder / status.FILE).stat().st_mtime_ns
    except OSError:
        return status.settled(folder)
    before = seen.get(path)
    if before is not None and before[0] == written and not before[1].under_way:
        return before[1]
    now = status.settled(folder)
    seen[path] = (written, now)
    return now


def matching(
    runs: Iterable[Standing], text: str, experiments: Sequence[str], states: Sequence[str]
) -> list[Standing]:
    """Those in which every word of the text is found, of these experiments and states."""
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


def table(runs: Sequence[Standing]) -> "pd.DataFrame":
    """Runs as a table for people."""
    import pandas as pd

    rows = [
        (
            now.experiment or name.rpartition("-")[0],
            now.state,
            ", ".join(now.models),
            ", ".join(now.corpora),
            _moment(now.created),
            _took(now),
            name,
        )
        for name, now in runs
    ]
    names = ["experiment", "state", "models", "corpora", "asked", "took", "run"]
    return pd.DataFrame(rows, columns=names)


def _took(now: Status) -> str:
    from workbench.report.content import duration

    return duration(now.seconds) if now.seconds else ""


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def opened() -> list[str]:
    """The names in the address, each once."""
    return list(dict.fromkeys(st.query_params.get_all(OPENED)))[:MOST]


def open_named(name: str) -> "Run":
    """A run by the name in the address, which anybody may have written."""
    from workbench.runs.run import open_run

    return open_run(name)


def nothing() -> None:
    """There are no runs: how to come by one."""
    st.markdown("There are no runs yet. A run is an experiment with its question and its answer.")
    st.page_link("pages/experiments.py", label="Run an experiment", icon=":material/science:")
    st.text(f"Runs are kept in {machine.runs()}.")


def draw(runs: Sequence[Standing]) -> None:
    """The list, a page at a time; what is selected goes into the address."""
    text, experiments, states = st.columns([2, 2, 2])
    found = matching(
        runs,
        text.text_input(
            "Find",
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
    if not found:
        st.info(f"None of the {len(runs):,} runs is so. Ask for less.")
        return
    first = first_of_page(len(found), LISTED, "page of runs")
    shown = found[first : first + LISTED]
    _refreshed(shown)
    runs_of = "run" if len(found) == 1 else "runs"
    which = f"{len(found):,} {runs_of}{f' of {len(runs):,}' if len(found) < len(runs) else ''}"
    if len(found) > LISTED:
        which = f"{first + 1:,} to {first + len(shown):,} of {which}"
    st.caption(f"{which}. Tick one to open it, two or more to compare them.")
    names = [name for name, _ in shown]
    key = f"runs {hash((*names, *opened()))}"
    st.dataframe(
        table(shown),
        hide_index=True,
        height=min(len(shown) + 1, VIEW) * 35 + 3,
        column_config={
            "models": st.column_config.TextColumn("models", width="small"),
            "asked": st.column_config.DatetimeColumn("asked", format="YYYY-MM-DD HH:mm"),
            "run": st.column_config.TextColumn("run", help="The name of its folder."),
        },
        on_select=lambda: _select(key, names),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": _rows(names)}},
        key=key,
    )


def _rows(names: Sequence[str]) -> list[int]:
    there = opened()
    return [number for number, name in enumerate(names) if name in there]


def _select(key: str, names: Sequence[str]) -> None:
    """Put what is ticked into the address."""
    rows = st.session_state[key]["selection"]["rows"]
    look_at([names[row] for row in rows if row < len(names)][:MOST])


def look_at(names: Sequence[str]) -> None:
    """Put runs into the address."""
    put(OPENED, list(names))


def put(name: str, value: str | list[str] | None, forgotten: Iterable[str] = ()) -> None:
    """Put a choice into the address, or take it out; and with it those that go with another."""
    for key in (name, *forgotten):
        st.query_params.pop(key, None)
    if value:
        st.query_params[name] = value


def _refreshed(shown: Sequence[Standing]) -> None:
    """Draw the page anew when one of these that is under way has gone on."""
    under_way: dict[str, str] = {name: now.state for name, now in shown if now.under_way}
    if under_way:
        st.fragment(_look, run_every=EVERY)(under_way)


def _look(before: dict[str, str]) -> None:
    folder = machine.runs()
    if any(_status(str(folder / name)).state != state for name, state in before.items()):
        st.rerun()


def newest(number: int, busy: bool = False) -> None:
    """The newest runs, each a link; looked at again while one goes on, or `busy` says so."""
    going = busy or any(now.under_way for _, now in standing()[:number])
    st.fragment(_newest, run_every=EVERY if going else None)(number)


def _newest(number: int) -> None:
    from workbench.app.text import ago, plain, state, subject

    runs = standing()[:number]
    if not runs:
        st.markdown("None yet. Run an experiment, or take the tour.")
        return
    for name, now in runs:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            state(now.state)
            title = subject(now.experiment or name, now.models, now.corpora)
            st.page_link("pages/runs.py", label=plain(title), query_params={OPENED: name})
            st.caption(plain(ago(now.created)), width="content")
    st.page_link("pages/runs.py", label="All runs", icon=":material/list:")
