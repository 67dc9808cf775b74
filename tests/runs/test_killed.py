"""Killed without warning, over and over: nothing is lost, and nothing half-made is ever read.

At a chosen moment each day, at hundreds of random ones with `-m slow`.
"""

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import psutil
import pytest

from tests import warm
from tests.runs.conftest import (
    Asking,
    await_free,
    await_halt,
    contents,
    done,
    done_here,
    finished,
    logged,
    process_of,
    wait_until,
)
from workbench.runs import process, status
from workbench.runs.launch import remove, start
from workbench.runs.processes import locks
from workbench.runs.run import Run
from workbench.runs.spec import Spec

STEPS = {"steps": 12, "pause": 0.012, "rows": 200}
ASKER = """
import pytest
from tests import warm
from workbench.runs.api import answered
from workbench.runs.request import make_request
warm.fork_workers(pytest.MonkeyPatch())
answered(make_request("steps", settings={settings!r}))
"""


class Reader(threading.Thread):
    """Looks at a run's tables all the time, as an app would; each must be whole, and right."""

    def __init__(self, run: Run, right: pd.DataFrame) -> None:
        super().__init__(daemon=True)
        self.run_, self.right = run, right
        self.stopped, self.looks, self.wrong = threading.Event(), 0, list[str]()

    def run(self) -> None:
        while not self.stopped.wait(0.01):
            path = self.run_.path / "tables" / "values.parquet"
            try:
                seen = pd.read_parquet(path)
            except FileNotFoundError:
                continue
            except Exception as error:
                self.wrong.append(repr(error))
                continue
            self.looks += 1
            if not seen.equals(self.right):
                self.wrong.append(f"{len(seen)} rows")


@pytest.fixture
def right(asking: Asking, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, bytes]:
    """What a run leaves that nobody disturbs."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("WORKBENCH_RUNS", str(tmp_path / "undisturbed"))
        return contents(done(asking(**STEPS)))


@pytest.fixture
def asked(asking: Asking) -> Spec:
    return asking(**STEPS)


@pytest.fixture
def watched(asked: Spec, right: dict[str, bytes], place: Path, tmp_path: Path) -> Iterator[Reader]:
    values = next((tmp_path / "undisturbed").glob("steps-*/tables/values.parquet"))
    reader = Reader(Run(place / asked.name), pd.read_parquet(values))
    reader.start()
    yield reader
    reader.stopped.set()
    reader.join()


def seconds_alone(undisturbed: Callable[[], object]) -> float:
    """How long it takes here and now, for kills to come at every moment of it."""
    began = time.monotonic()
    undisturbed()
    return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.parametrize("times", [3, 300])
def test_the_worker_killed(
    asked: Spec,
    right: dict[str, bytes],
    watched: Reader,
    times: int,
    request: pytest.FixtureRequest,
) -> None:
    if times > 5:
        request.getfixturevalue("fresh_workers")  # as they import, too
    kill_workers(asked, right, times, random.Random(1))
    assert watched.looks and not watched.wrong


def last_begun() -> int:
    """The number of the worker that was begun last."""
    return process.started[-1].pid


def is_killed(seconds: float) -> bool:
    """Kill the worker that was begun last, unless it has ended within this time."""
    number = last_begun()
    try:
        psutil.Process(number).wait(seconds)
        return False
    except psutil.NoSuchProcess:
        return False
    except psutil.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        return True


def kill_workers(asked: Spec, right: dict[str, bytes], times: int, draw: random.Random) -> None:
    kills = died = resumed = 0
    longest = 1.3 * seconds_alone(lambda: remove(done(asked)))
    while kills < times:
        run = start(asked)
        kills += is_killed(draw.uniform(0, longest))
        await_free(run)
        now = run.status
        assert now.state in ("failed", "done")
        if now.state == "failed":
            assert now.failure and now.failure.kind == "died"
            died += 1
        else:
            assert contents(run) == right
            told = [e for e in status.read_events(run.path)[0] if e["kind"] == "log"]
            resumed += now.attempt > 1 and len(told) == STEPS["steps"]
            remove(run)
    assert died > times / 2
    assert resumed, "no step is computed twice"
    assert contents(done(asked)) == right


@pytest.mark.parametrize("times", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_who_asks_killed_while_starting(
    asked: Spec, right: dict[str, bytes], watched: Reader, times: int
) -> None:
    """As an app whose process dies: a fork of this one, killed at some moment of `start`."""
    draw = random.Random(2)
    begun = 0
    for _ in range(times):
        child = os.fork()
        if child == 0:
            start(asked)
            os._exit(0)
        if not begun:  # on a busy machine a child may need longer to write anything
            deadline = time.monotonic() + 10
            while not (watched.run_.path / status.FILE).exists() and time.monotonic() < deadline:
                time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        run = Run(watched.run_.path)
        if not run.path.exists():
            continue
        begun += run.status.state == "queued"
        if draw.random() < 0.3:
            assert finished(run).status.state in ("done", "failed")
        if draw.random() < 0.2:
            assert contents(done(asked)) == right
            remove(run)
    assert begun
    assert contents(done(asked)) == right
    assert not watched.wrong


@pytest.mark.slow
@pytest.mark.parametrize("times", [20])
def test_the_command_line_killed(
    asked: Spec, right: dict[str, bytes], watched: Reader, times: int
) -> None:
    """Whoever waits may go: the run goes on, and who asks next is answered.

    By day `test_a_run_outlives_a_killed_app_and_then_leaves_no_process`.
    """
    draw = random.Random(3)
    went_on = 0
    script = ASKER.format(settings=STEPS)
    longest = seconds_alone(lambda: warm.python("-c", script, **os.environ))
    remove(Run(watched.run_.path))
    for _ in range(times):
        with tempfile.TemporaryFile() as output:
            asker = warm.start("-c", script, output=output.fileno(), **os.environ)
            time.sleep(draw.uniform(longest / 4, longest))
            asker.kill()
            asker.join()
        run = Run(watched.run_.path)
        if run.path.exists() and run.status.under_way:
            went_on += finished(run).status.state == "done"
        if run.path.exists() and run.status.state == "done":
            assert contents(run) == right
            remove(run)
    assert went_on
    assert contents(done(asked)) == right
    assert not watched.wrong


def test_a_process_that_died_is_found_with_its_last_log_lines(asking: Asking) -> None:
    run = start(asking(mood="numb"))
    wait_until(lambda: "asleep" in status.log_lines(run.path))
    os.kill(process_of(run), signal.SIGKILL)
    await_free(run)
    now = run.status
    assert now.state == "failed" and now.failure
    assert now.failure.kind == "died" and now.failure.code == "process-died"
    assert "beginning" in now.failure.remedy, "it has no checkpoint"
    assert "asleep" in now.failure.lines
    assert status.read(run.path) == now, "it is written down"


def test_who_asks_while_a_killed_worker_is_dying_waits_for_it_and_goes_on(asking: Asking) -> None:
    """Its memory, or a child of its own, may keep the lock a while after the process is dead."""
    asked = asking(steps=6, halt=3)
    run = start(asked)
    await_halt(run)
    os.kill(last_begun(), signal.SIGKILL)
    await_free(run)
    lock = locks.take(run.path / status.LOCK)
    assert lock is not None and status.read(run.path).state == "running"  # type: ignore[union-attr]
    threading.Timer(0.2, os.close, [lock]).start()
    again = done(asked)
    assert again.status.attempt == 2
    assert len(logged(again)) == 6, "no step was computed twice"


def test_a_start_right_after_a_kill_never_returns_the_failure(asking: Asking) -> None:
    """It goes on: what it leaves is whole, and what a run leaves that nobody disturbs."""
    asked = asking(steps=6, halt=3)
    run = start(asked)
    await_halt(run)
    os.kill(process_of(run), signal.SIGKILL)
    assert not contents(run)
    again = done(asked)
    assert again.status.attempt == 2 and len(logged(again)) == 6, "no step was computed twice"
    assert contents(again) == contents(done_here(asking(steps=6)))
