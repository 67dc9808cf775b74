"""A file system without locks: an error that says so, at once; what is finished can be read."""

import errno
import fcntl
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.runs.conftest import Asking, done_here
from workbench import WorkbenchError
from workbench.runs import launch, status
from workbench.runs.processes import device_queue, locks
from workbench.runs.run import all_runs


@pytest.fixture(params=["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(handle: int, kind: int) -> None:
        number = getattr(errno, request.param)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)


def test_nothing_is_started_and_nothing_left(asking: Asking, place: Path, no_locks: None) -> None:
    with pytest.raises(WorkbenchError, match="file locks"):
        launch.start(asking())
    assert list(place.iterdir()) == [] and all_runs() == []


def test_a_run_under_way_is_shown_as_it_says(asking: Asking, place: Path, no_locks: None) -> None:
    """It may be running on another machine: it is neither called dead nor waited for."""
    folder = place / asking().name
    folder.mkdir(parents=True)
    (folder / status.LOCK).touch()
    status.write(folder, status.Status("running", "steps"))
    began = time.monotonic()
    assert [now.state for _, now in all_runs()] == ["running"]
    assert time.monotonic() - began < 5
    shutil.rmtree(folder)


def test_a_finished_run_is_answered(asking: Asking) -> None:
    run = done_here(asking())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", _refused)
        assert launch.start(asking()).status.state == "done" and len(run.tables) == 2
        with pytest.raises(WorkbenchError, match="file locks"):
            launch.remove(run)
    assert run.status.state == "done"


def test_a_place_in_the_queue_needs_locks(place: Path, no_locks: None) -> None:
    with (
        pytest.raises(WorkbenchError, match="WORKBENCH_HOME"),
        device_queue.turn("cpu", lambda n: None),
    ):
        pass


def test_the_error_survives_the_way_between_processes() -> None:
    import pickle

    error = locks.NoLocksError(Path("/runs/x/lock"))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def _refused(handle: int, kind: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
