"""The jobs under way as a chip of the top bar: how many, which; refreshed while there are any.

Costs: one look at the status of each unfinished run.
"""

import streamlit as st

from workbench.app.runs import run_list
from workbench.app.text import plain, subject
from workbench.runs.status import NamedStatus

EVERY = 3.0  # seconds between looks while a job is under way
MOST = 8  # jobs in the list


def draw() -> None:
    """Draw the chip, if a job is under way."""
    if _under_way():
        st.fragment(_watch, run_every=EVERY)()


def _under_way() -> list[NamedStatus]:
    """Runs under way; not those that a run under way has started."""
    jobs = {name: now for name, now in run_list.all_statuses() if now.under_way}
    return [(name, now) for name, now in jobs.items() if run_list.is_whole(name, jobs)]


def _watch() -> None:
    jobs = _under_way()
    if not jobs:
        return
    running = sum(now.state == "running" for _, now in jobs)
    queued = len(jobs) - running
    counts = ((running, "running"), (queued, "queued"))
    label = ", ".join(f"{count} {state}" for count, state in counts if count)
    with st.popover(label, icon=":material/progress_activity:", help="Jobs under way", key="jobs"):
        for name, now in jobs[:MOST]:
            st.page_link(
                "pages/runs.py",
                label=plain(
                    f"{now.state}: {subject(now.experiment, *run_list.inputs_of(name, now))}"
                ),
                query_params={run_list.OPENED: name},
            )
        if len(jobs) > MOST:
            st.caption(f"and {len(jobs) - MOST} more")
        st.page_link("pages/runs.py", label="All runs", icon=":material/list:")
