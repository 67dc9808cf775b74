"""What is removed in the app can be brought back, whole, and is never seen as a run meanwhile."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.runs.conftest import Asking, contents, done_here, process_of, wait_until
from workbench import WorkbenchError
from workbench.runs import launch
from workbench.runs.launch import cancel, move_to_bin, remove, restore_from_bin, runs_in_bin, start
from workbench.runs.run import Run, all_runs, open_run


@pytest.fixture
def run(asking: Asking) -> Run:
    return done_here(asking())


def here(run: Run) -> list[str]:
    return [found.name for found, _ in all_runs()]


def test_a_removed_run_is_no_run_and_comes_back_as_it_was(run: Run) -> None:
    before = contents(run)
    entry = move_to_bin(run)
    assert all_runs() == []
    for name in (run.name, entry, launch.BIN, f"{launch.BIN}/{entry}"):
        with pytest.raises(WorkbenchError):
            open_run(name)
    ((found, name, left),) = runs_in_bin()
    assert (found, name) == (entry, run.name) and 0 < launch.KEPT - left < 60
    assert restore_from_bin(entry).status.state == "done" and contents(run) == before
    assert runs_in_bin() == []


def test_twice_the_same(run: Run, asking: Asking) -> None:
    """Started again and removed again: both can be restored, but not over each other."""
    first = move_to_bin(run)
    with pytest.raises(WorkbenchError, match="cannot be written"):
        move_to_bin(run)
    done_here(asking())
    with pytest.raises(WorkbenchError, match="run-exists"):
        restore_from_bin(first)
    time.sleep(0.002)
    second = move_to_bin(run)
    assert [entry for entry, _, _ in runs_in_bin()] == [second, first]
    restore_from_bin(second)
    with pytest.raises(WorkbenchError, match="run-not-found"):
        restore_from_bin(second)
    assert [entry for entry, _, _ in runs_in_bin()] == [first]


def test_a_run_under_way_is_not_removed(asking: Asking) -> None:
    run = start(asking(mood="numb"))
    with pytest.raises(WorkbenchError, match="under way"):
        move_to_bin(run)
    cancel(run)
    restore_from_bin(move_to_bin(run))
    assert run.status.state == "cancelled"


def test_only_what_has_been_there_long_enough_is_cleared_away(
    run: Run, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, other = move_to_bin(run), done_here(asking(1))
    monkeypatch.setattr(launch, "KEPT", 0.001)
    assert runs_in_bin() == [], "too late, though it is still there"
    remove(other)
    assert not list((run.path.parent / launch.BIN).iterdir())
    assert [path.name for path in run.path.parent.iterdir()] == [launch.BIN]
    with pytest.raises(WorkbenchError, match="run-not-found"):
        restore_from_bin(entry)


def test_killed_in_between(run: Run) -> None:
    """At every moment it is either a run or to be brought back, whole."""
    before = contents(run)
    for number in range(0, 40, 10):
        child = os.fork()
        if not child:
            while True:
                restore_from_bin(move_to_bin(run))
        time.sleep(0.002 + number * 0.0007)
        os.kill(child, 9)
        os.waitpid(child, 0)
        kept = runs_in_bin()
        assert len(kept) + len(all_runs()) == 1
        for entry, _, _ in kept:
            restore_from_bin(entry)
        assert contents(run) == before and run.status.state == "done"


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "../x.1700000000000",
        "x.1٣00000000000",
        *(
            pytest.param(entry, marks=pytest.mark.slow)
            for entry in ("..", "x", "x.1", "x/y.1700000000000")
        ),
    ],
)
def test_an_invalid_entry_is_an_error(entry: str, run: Run) -> None:
    with pytest.raises(WorkbenchError, match="name-invalid"):
        restore_from_bin(entry)


def test_a_bin_that_is_a_link_is_not_followed(run: Run, tmp_path: Path) -> None:
    (run.path.parent / launch.BIN).symlink_to(tmp_path)
    with pytest.raises(WorkbenchError, match="links are not followed"):
        move_to_bin(run)
    with pytest.raises(WorkbenchError, match="links are not followed"):
        restore_from_bin("x.1700000000000")
    assert runs_in_bin() == [] and run.status.state == "done"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a disk, which needs root")
def test_on_a_disk_one_may_only_read(run: Run, asking: Asking, place: Path) -> None:
    entry = move_to_bin(done_here(asking(1)))
    if subprocess.run(["mount", "--bind", str(place), str(place)]).returncode:
        pytest.skip("this system does not let us mount")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
        for refused in (lambda: move_to_bin(run), lambda: restore_from_bin(entry)):
            with pytest.raises(WorkbenchError, match="cannot be written: Read-only file system"):
                refused()
        assert here(run) == [run.name] and len(runs_in_bin()) == 1
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_run_that_has_just_ended_waits_for_its_process(asking: Asking) -> None:
    run = start(asking(steps=2))
    process_of(run)
    wait_until(lambda: not run.status.under_way)
    move_to_bin(run)
    assert all_runs() == []
