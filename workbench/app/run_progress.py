"""A run that is watched: how it stands, how far it is, what it says; with cancel and resume.

The page reads the run's folder once a second while it is under way, and the page is drawn anew
once when it has ended. Whoever opens the same address sees the same run: nothing is kept here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app.text import lines, state, subject, tell, told
from workbench.runs.status import Status, log_lines

if TYPE_CHECKING:
    from workbench.runs.run import Run

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
        with st.container(horizontal=True, vertical_alignment="center"):
            state(now.state)
            st.text(subject(now.experiment, now.models, now.corpora))
        _progress(run, now)
        if st.button("Cancel", icon=":material/stop_circle:", key=f"cancel {run.name}"):
            with told(), st.spinner("Ending it; this may take ten seconds …"):
                cancel(run)
            st.rerun()


def _progress(run: "Run", now: Status) -> None:
    from workbench.runs import events

    told_last = events.last(run.path)
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
        with st.container(horizontal=True, vertical_alignment="center"):
            state(now.state)
            st.text(subject(now.experiment, now.models, now.corpora))
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
    from workbench.core.errors import WorkbenchError
    from workbench.runs.launch import start

    if not run.spec.answerable:
        raise WorkbenchError(
            "what it looks at was handed over as an object.",
            where=run.name,
            remedy="Call wb.run again with the same object.",
        )
    start(run.spec)
