"""Runs of one experiment, to open one again: what each looked at, the newest first.

Costs a look at every run's status.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts import listing
from workbench.view.parts.plain import shortened

if TYPE_CHECKING:
    from workbench.runs.status import Status

MOST = 200  # of the newest runs, among which one chooses


def choose(experiment: str, opened: str, forgotten: Sequence[str] = ()) -> None:
    """Open a run of before; its name goes into the address, what is `forgotten` leaves it."""
    there = titles(experiment, everything=True)
    names = [name for name in there if name != opened]
    if not names:
        return
    key = f"open {experiment} {opened}"
    st.selectbox(
        "Open another run" if opened else "Open a run of before",
        names,
        None,
        format_func=there.__getitem__,
        key=key,
        placeholder="model, corpus, when it was asked",
        on_change=lambda: _open(st.session_state.get(key), forgotten),
    )


def _open(name: str | None, forgotten: Sequence[str]) -> None:
    if name:
        st.query_params[listing.OPENED] = name
        for key in forgotten:
            st.query_params.pop(key, None)


def titles(experiment: str, everything: bool = False) -> dict[str, str]:
    """What each run looked at, the newest first; those that are done, or all."""
    found = [
        (name, now)
        for name, now in listing.standing()
        if now.experiment == experiment and (now.state == "done" or everything)
    ]
    return {name: _title(name, now) for name, now in found[:MOST]}


def _title(name: str, now: "Status") -> str:
    state = "" if now.state == "done" else f", {now.state}"
    when = now.created[:16].replace("T", " ")
    seen = ", ".join((*now.models, *now.corpora))
    return shortened(f"{seen}{state}, {when} ({name.rpartition('-')[2][:6]})")
