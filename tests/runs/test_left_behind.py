"""Commands and a killed app leave no process behind: those with the test's folder are listed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.runs.conftest import wait_until
from workbench.runs import status
from workbench.runs.run import Run

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture
def environment(place: Path, package: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What the commands of the test are started with; whatever they leave is killed."""
    yield {
        **os.environ,
        "PYTHONPATH": f"{package}{os.pathsep}{ROOT}",
        "WORKBENCH_STARTER": "3",
        "WORKBENCH_RUNS": str(place),
    }
    for process in left(place):
        process.kill()


def left(place: Path) -> list[psutil.Process]:
    """All processes that were started with this folder of runs, and defunct children."""
    found = [p for p in psutil.Process().children() if p.status() == psutil.STATUS_ZOMBIE]
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("WORKBENCH_RUNS") == str(place) and process.pid != os.getpid():
                found.append(process)
    return found


def starters(place: Path) -> list[psutil.Process]:
    """The starters among them; their processes have other command lines."""
    found = []
    for process in left(place):
        with suppress(psutil.Error):
            if "workbench.runs.processes.starter" in process.cmdline():
                found.append(process)
    return found


def command(environment: dict[str, str], *arguments: str) -> None:
    command = [sys.executable, "-m", "workbench", *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)


def test_a_finished_run_leaves_none_when_the_starter_is_idle(
    environment: dict[str, str], place: Path
) -> None:
    command(environment, "run", "steps")
    assert starters(place)
    wait_until(lambda: not left(place), seconds=60)


def test_a_cancelled_sweep_leaves_none(environment: dict[str, str], place: Path) -> None:
    command(environment, "run", "steps", "--mood", "numb", "--sweep", "seed=0,1", "--detach")
    wait_until(lambda: len(list(place.glob("steps-*/events.jsonl"))) == 3)
    (whole,) = (r for path in place.glob("steps-*") if (r := Run(path)).spec.sweep)
    command(environment, "runs", "cancel", whole.name)
    assert whole.status.state == "cancelled"
    wait_until(lambda: not left(place), seconds=60)


def test_a_killed_app_leaves_its_run_and_nothing_when_that_is_done(
    environment: dict[str, str], place: Path, tmp_path: Path
) -> None:
    """The starter would wait for minutes, but ends with the app that began it."""
    environment["WORKBENCH_STARTER"] = "600"
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    app = subprocess.Popen(
        [sys.executable, "-m", "workbench", "app", "--headless", "--port", port],
        env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_until(lambda: starters(place))
    command(environment, "run", "steps", "--steps", "200", "--pause", "0.05", "--detach")
    (run,) = (Run(path) for path in place.glob("steps-*"))
    wait_until(lambda: run.status.state == "running")
    assert psutil.Process(run.status.pid).ppid() != 1, "forked by the starter of the app"
    app.send_signal(signal.SIGKILL)
    app.wait()
    time.sleep(1)
    assert run.status.state == "running"
    wait_until(lambda: not run.status.under_way)
    now = status.read(run.path)
    assert now and now.state == "done"
    wait_until(lambda: not left(place), seconds=30)
