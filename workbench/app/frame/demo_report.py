"""The demo (`workbench demo`) as a process of its own, so that it outlives the page that began it.

While it runs it holds the lock of a folder among the runs, and writes its log there; so every page
shows the same. Costs: a process.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import streamlit as st

from workbench.app.text import errors_shown
from workbench.core import machine
from workbench.core.files import open_for_append, open_regular, read_regular, unwritable

FOLDER, LOCK, LOG, PID = ".demo", "lock", "log.txt", "pid"
REPORT = "demo.html"
EVERY = 1.0  # seconds between looks
PATIENCE = 15.0  # seconds to wait for the process to end
TAIL = 16 * 1024  # bytes read from the end of the log
_STOP = re.compile(r"(\d+) of (\d+): (.*)")
_STEP = re.compile(r"[^:]+: [\d,]+( of [\d,]+)?(, .* left.*)?")


def offer() -> None:
    """Draw the button that starts the demo, its progress while it runs, or its report."""
    if is_under_way():
        st.fragment(_watch, run_every=EVERY)()
        return
    report = machine.runs() / REPORT
    done = report.is_file() and _ended_well(report)
    if st.button(
        "Make the report again" if done else "Make the report",
        type="secondary" if done else "primary",
        icon=":material/explore:",
        help="The same as the command: workbench demo",
    ):
        with errors_shown(), st.spinner("Starting …"):
            begin()
            st.rerun()
    if done:
        _report(report)
    elif log := _last_lines():
        st.text("The last one was not finished. If you begin again, it continues where it stopped.")
        if errors := [line for line in log if line.startswith("error")]:
            st.code(errors[-1], language=None, wrap_lines=True)


def begin() -> None:
    """Start the demo, unless it is running."""
    from workbench.runs.process import reap_when_ended
    from workbench.runs.processes import locks

    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = locks.take(folder / LOCK)
        if lock is None:
            return
        try:
            with _emptied(folder / LOG) as log, _emptied(folder / PID) as pid:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, "demo"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "WORKBENCH_RUNS": str(machine.runs()), **_PLAIN},
                    pass_fds=[lock],
                    start_new_session=True,
                )
                pid.write(str(process.pid).encode())
        finally:
            os.close(lock)
    except OSError as error:
        raise unwritable(
            folder, error, "Start the app in a writable folder, or name one in WORKBENCH_RUNS."
        ) from None
    reap_when_ended(process)


def _emptied(path: Path) -> BinaryIO:
    return os.fdopen(open_for_append(path, os.O_TRUNC), "wb")


_PLAIN = {"PYTHONUNBUFFERED": "1", "COLUMNS": "100", "NO_COLOR": "1"}
# `workbench`, which an interrupt ends even if the app was started in the background. The process
# itself says so: code between fork and exec can hang in a server of many threads.
_PROGRAM = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('workbench.cli.main', run_name='__main__', alter_sys=True)"
)


def is_under_way() -> bool:
    """Whether the demo is running."""
    from workbench.runs.processes import locks

    return locks.is_held(_folder() / LOCK)


def end() -> None:
    """Interrupt the demo and its current run; finished runs stay."""
    deadline = time.monotonic() + PATIENCE
    interrupted = 0.0
    while is_under_way() and time.monotonic() < deadline:
        if time.monotonic() - interrupted > PATIENCE / 3:
            interrupted = time.monotonic()
            with suppress(OSError, ValueError):
                os.kill(int(read_regular(_folder() / PID)), signal.SIGINT)
        time.sleep(0.1)


def _watch() -> None:
    if not is_under_way():
        st.rerun()
    log = _last_lines()
    stops = [match for line in log if (match := _STOP.fullmatch(line.strip()))]
    with st.container(border=True):
        if stops:
            index, total, title = stops[-1].groups()
            st.text(f"{index} of {total}: {title}")
            st.progress(min(1.0, (int(index) - 1) / max(1, int(total))))
        else:
            st.text("Starting …")
            st.progress(0.0)
        steps = [line for line in log if _STEP.fullmatch(line.strip())]
        if steps:
            st.text(steps[-1].strip())
        if st.button("Cancel", icon=":material/stop_circle:", key="end demo"):
            with st.spinner("Cancelling (may take ten seconds) …"):
                end()
            st.rerun()


def _report(report: Path) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Save the report",
            partial(read_regular, report),
            file_name="workbench-demo.html",
            mime="text/html",
            icon=":material/download:",
            type="primary",
            on_click="ignore",
        )
        st.page_link("pages/runs.py", label="Show its runs", icon=":material/list:")
    st.text(f"Report: {report}. It opens in any browser.")


def _last_lines() -> list[str]:
    try:
        with open_regular(_folder() / LOG) as file:
            file.seek(max(0, (_folder() / LOG).stat().st_size - TAIL))
            return [line for line in file.read().decode("utf-8", "replace").splitlines() if line]
    except OSError:
        return []


def _ended_well(report: Path) -> bool:
    """Whether the report belongs to the last demo, not to an earlier one."""
    try:
        return report.stat().st_mtime >= (_folder() / PID).stat().st_mtime
    except OSError:
        return True  # made from the command line


def _folder() -> Path:
    return machine.runs() / FOLDER
