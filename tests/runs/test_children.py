"""Processes of runs and of the tour leave nothing behind in the process that began them."""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.night import mostly
from tests.runs.conftest import Asking, await_free, finished, logged, process_of, wait_until
from workbench.app.frame import demo_report
from workbench.runs.api import start_sweep
from workbench.runs.launch import cancel, start
from workbench.runs.processes import locks
from workbench.runs.run import Run


def defunct() -> list[int]:
    """The children of this process that have ended, and that nobody has waited for."""
    children = psutil.Process().children()
    return [one.pid for one in children if one.status() == psutil.STATUS_ZOMBIE]


def processes(runs: Path) -> list[psutil.Process]:
    """All processes of this machine that compute a run in this folder, or have not been reaped."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(runs) in " ".join(process.cmdline()):
                found.append(process)
    return found


@pytest.fixture(params=mostly(["forked", "new"], "forked"))
def either(request: pytest.FixtureRequest) -> None:
    """Processes from the starter, and without it."""
    if request.param == "new":
        request.getfixturevalue("fresh_workers")


@pytest.mark.slow  # by day `test_cancelling_a_sweep_ends_its_parts_and_no_other_run`
@pytest.mark.usefixtures("either")
def test_a_cancelled_sweep_leaves_no_process(place: Path) -> None:
    swept = {"seed": ["0", "1"]}
    run = start_sweep("steps", [], [], {"mood": "numb"}, swept, share=True)
    parts = [Run(place / part.name) for part in run.spec.parts]
    wait_until(lambda: sum("asleep" in logged(part) for part in parts) >= 2)
    pids = {part.status.pid for part in parts if part.status.pid} | {run.status.pid}
    assert pids <= {process.pid for process in processes(place)}
    assert cancel(run).state == "cancelled"
    wait_until(lambda: not processes(place) and not any(map(psutil.pid_exists, pids)), seconds=10)
    assert not defunct()


@pytest.mark.usefixtures("either")
def test_a_run_outlives_a_killed_app_and_then_leaves_no_process(
    asking: Asking, place: Path
) -> None:
    """The app is a fork of this process that starts a run."""
    asked = asking(steps=20, pause=0.02)
    app = os.fork()
    if app == 0:
        start(asked)
        time.sleep(600)
    run = Run(place / asked.name)
    wait_until(lambda: len(logged(run)) > 2)
    pid = process_of(run)
    os.kill(app, signal.SIGKILL)
    os.waitpid(app, 0)
    assert psutil.Process(pid) in processes(place) and finished(run).status.state == "done"
    wait_until(lambda: not processes(place) and not psutil.pid_exists(pid), seconds=10)


@pytest.mark.usefixtures("fresh_workers")
def test_runs_that_have_ended_leave_no_defunct_process(asking: Asking) -> None:
    """However they end, and though nobody follows them or starts another."""
    runs = [start(asking(mood=mood)) for mood in ("leaves", "numb")]
    os.kill(process_of(runs[-1]), signal.SIGKILL)
    for run in runs:
        await_free(run)
    wait_until(lambda: not defunct(), seconds=5)


def test_a_tour_that_has_ended_leaves_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho done\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    demo_report.begin()
    wait_until(lambda: not locks.is_held(demo_report._folder() / demo_report.LOCK))
    wait_until(lambda: not defunct(), seconds=5)
