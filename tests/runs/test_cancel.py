"""A cancelled run ends, frees its device, and goes on from its checkpoint when asked again."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

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
from workbench import WorkbenchError
from workbench.runs import launch, status
from workbench.runs.launch import cancel, remove, start
from workbench.runs.processes import locks
from workbench.runs.run import Run
from workbench.runs.spec import Spec
from workbench.runs.subruns import in_process


def asleep(asked: Spec) -> Run:
    """A run that has begun and does not end."""
    run = start(asked)
    wait_until(lambda: "asleep" in logged(run))
    return run


@pytest.mark.parametrize("mood", ["numb", "broken off"])
def test_a_running_run_ends_at_once_and_says_so(mood: str, asking: Asking) -> None:
    run = asleep(asking(mood=mood))
    clock = time.monotonic()
    assert cancel(run).state == "cancelled" == run.status.state
    assert time.monotonic() - clock < 3 and not locks.is_held(run.path / status.LOCK)
    with pytest.raises(WorkbenchError, match=r"run-ended.\n.*runs show"):
        cancel(run)
    with pytest.raises(WorkbenchError, match="has no results"):
        _ = run.tables


def test_one_that_is_deaf_to_the_signal_is_killed(asking: Asking) -> None:
    run = asleep(asking(mood="deaf"))
    process = process_of(run)
    assert cancel(run, grace=0.3).state == "cancelled"
    wait_until(lambda: not psutil.pid_exists(process), seconds=5)


def test_a_cancelled_run_goes_on_from_its_checkpoint(asking: Asking) -> None:
    asked = asking(steps=6, halt=3)
    run = start(asked)
    await_halt(run)
    cancel(run)
    assert len(logged(run)) == 3
    again = done(asked)
    assert again.status.attempt == 2 and len(logged(again)) == 6, "each step was computed once"
    assert contents(again) == contents(done_here(asking(steps=6)))


def test_one_that_has_only_just_been_started(asking: Asking) -> None:
    """It has no number yet, or has not come to its signals: it ends all the same."""
    for pause in (0, 0.05):
        run = start(asking(mood="numb"))
        time.sleep(pause)
        assert cancel(run).state == "cancelled"
        assert not locks.is_held(run.path / status.LOCK)


def test_one_that_waits_for_its_device(asking: Asking) -> None:
    """It leaves the line; the device stays with whom it was, and then goes to the next."""
    first = asleep(asking(0, mood="numb"))
    second, third = start(asking(1)), start(asking(2))
    wait_until(lambda: logged(second) and logged(third))
    assert cancel(second).state == "cancelled"
    assert first.status.state == "running" and third.status.state == "queued"
    assert cancel(first).state == "cancelled"
    assert finished(third).status.state == "done"
    assert done(asking(1)).status.attempt == 2


def test_one_inside_this_process(asking: Asking) -> None:
    asked = asking(steps=1000, pause=0.01)
    found: list[Run] = []

    def here() -> None:
        found.append(start(asked, compute=in_process(lambda asked, told: ((), ()))))

    thread = threading.Thread(target=here)
    thread.start()
    run = Run(Path(os.environ["WORKBENCH_RUNS"]) / asked.name)
    wait_until(lambda: run.path.exists() and logged(run))
    assert cancel(run, grace=3).state == "cancelled"
    thread.join()
    assert found[0].status.state == "cancelled" and found[0].status.guest


def test_a_new_attempt_is_not_cancelled_by_an_older_request(asking: Asking) -> None:
    """Between the wish and the signal the run ended, and somebody else asked again."""
    asked = asking(mood="numb")
    run = asleep(asked)
    request_cancel = launch._request_cancel

    def late(target: Run) -> None:
        request_cancel(target)
        os.kill(process_of(target), 9)
        await_free(target)
        wait_until(lambda: start(asked).status.state == "queued")

    with pytest.MonkeyPatch.context() as between:
        between.setattr(launch, "_request_cancel", late)
        cancel(run, grace=2)
    assert run.status.under_way and run.status.attempt == 2
    cancel(run)


def test_a_run_under_way_cannot_be_removed(asking: Asking) -> None:
    run = asleep(asking(mood="numb"))
    with pytest.raises(WorkbenchError, match="under way"):
        remove(run)
    cancel(run)
    remove(run)
    assert list(run.path.parent.iterdir()) == []
