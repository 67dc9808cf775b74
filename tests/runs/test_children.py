"""Processes of runs and of the tour leave nothing behind in the process that began them."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.runs.conftest import Asking, await_free, process_of, wait_until
from workbench.app import tour
from workbench.runs import locks
from workbench.runs.launch import start


def defunct() -> list[int]:
    """The children of this process that have ended, and that nobody has waited for."""
    children = psutil.Process().children()
    return [one.pid for one in children if one.status() == psutil.STATUS_ZOMBIE]


@pytest.mark.usefixtures("fresh_workers")
def test_runs_that_have_ended_leave_no_defunct_process(asking: Asking) -> None:
    """However they end, and though nobody follows them or starts another."""
    runs = [start(asking(number, mood=mood)) for number, mood in enumerate(("well", "leaves"))]
    runs.append(start(asking(mood="numb")))
    os.kill(process_of(runs[-1]), signal.SIGKILL)
    for run in runs:
        await_free(run)
    wait_until(lambda: not defunct(), seconds=5)


def test_a_tour_that_has_ended_leaves_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho done\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    tour.begin()
    wait_until(lambda: not locks.is_held(tour._folder() / tour.LOCK))
    wait_until(lambda: not defunct(), seconds=5)
