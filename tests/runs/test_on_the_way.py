"""Questions that a run asks on its way are runs of their own, and end with it."""

import os
import signal
from typing import Any

import pandas as pd
import pytest

from tests.runs.conftest import await_halt, done, done_here, finished, wait_until
from workbench.runs import launch, status
from workbench.runs.request import make_request
from workbench.runs.run import Run, all_runs
from workbench.runs.spec import Spec


def question(**settings: Any) -> Spec:
    return make_request("asks", settings=settings).spec


def parts_of(run: Run) -> list[Run]:
    return [other for other, now in all_runs() if now.part_of == run.name]


@pytest.mark.parametrize("beside", [pytest.param(False, marks=pytest.mark.slow), True])
def test_each_is_a_run_that_is_never_computed_twice(beside: bool) -> None:
    alone = done_here(make_request("steps", settings={"steps": 2}, seed=1).spec)
    run = done(question(times=2, beside=beside))
    (first,) = parts_of(run)
    assert first.spec.seed == 0, "the one of seed 1 was there before"
    sums = run.tables["sums"]
    own = sums[sums["asked"] == 1].drop(columns="asked").reset_index(drop=True)
    assert own.equals(pd.DataFrame(alone.tables["sums"]))
    before = {part.name: now.ended for part, now in all_runs() if part.name != run.name}
    larger = done(question(times=3, beside=beside))
    after = {part.name: now.ended for part, now in all_runs()}
    assert before.items() <= after.items()
    assert len(parts_of(larger)) == 1


@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_one_that_fails_is_named_and_the_others_are_kept(beside: bool) -> None:
    run = finished(launch.start(question(mood="raises", beside=beside)))
    failure = run.status.failure
    assert run.status.state == "failed" and failure
    well, raises = sorted(parts_of(run), key=lambda part: part.spec.seed)
    assert well.status.state in ("done", "cancelled" if beside else "done")
    assert raises.status.state == "failed"
    assert raises.name in failure.where and "third drawer is empty" in failure.what


def test_cancelling_ends_what_is_under_way_and_resuming_goes_on() -> None:
    asked = question(steps=40, halt=20)
    run = launch.start(asked)
    wait_until(lambda: parts_of(run) and parts_of(run)[0].status.state == "running")
    (part,) = parts_of(run)
    await_halt(part)
    assert launch.cancel(run).state == "cancelled"
    assert part.status.state == "cancelled"
    assert finished(launch.start(asked)).status.state == "done"
    steps = [e for e in status.read_events(part.path)[0] if "computed" in str(e.get("text"))]
    assert len(steps) == 40, "no step was computed twice"


def test_a_killed_run_continues_when_started_again() -> None:
    asked = question(steps=6, pause=0.03)
    run = launch.start(asked)
    wait_until(lambda: parts_of(run) and parts_of(run)[0].status.state == "running")
    os.kill(run.status.pid, signal.SIGKILL)
    wait_until(lambda: run.status.state == "failed")
    assert finished(launch.start(asked)).status.state == "done"


def test_cancelling_a_part_alone_says_which_one_is_missing() -> None:
    run = launch.start(question(steps=60, pause=0.03))
    wait_until(lambda: parts_of(run) and parts_of(run)[0].status.state == "running")
    (part,) = parts_of(run)
    (part.path / status.CANCEL).touch()
    failure = finished(run).status.failure
    assert failure and part.name in failure.where and "cancelled" in failure.what


@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_subrun_that_another_process_cancels_is_started_again(beside: bool) -> None:
    own = launch.start(
        make_request("steps", settings={"steps": 3, "halt": 1}, seed=0).spec, share=True
    )
    await_halt(own)
    run = launch.start(question(times=2 if beside else 1, steps=3, halt=1, beside=beside))
    wait_until(lambda: any("asking" in str(event) for event in status.read_events(run.path)[0]))
    launch.cancel(own)
    assert finished(run).status.state == "done"
    assert (own.status.state, own.status.part_of) == ("done", run.name)
