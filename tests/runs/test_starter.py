"""The starter forks what a new process would be, is nobody else's, and leaves nothing behind."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.runs.conftest import wait_until
from workbench.runs.processes import locks, resources, starter
from workbench.runs.processes.starter import Forked

ROOT = Path(__file__).parents[2]
PLACE, FORK = starter._place, starter.fork  # as users have them


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[starter._Place]:
    """The place of a starter of the test's own, which imports next to nothing."""
    with tempfile.TemporaryDirectory(prefix="workbench-", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv(starter.SWITCH, "60")
        monkeypatch.setattr(starter, "_PROGRAM", "tests.runs.light_starter")
        monkeypatch.setattr(starter, "_place", PLACE)
        monkeypatch.setattr(starter, "fork", FORK)
        found = PLACE()
        assert found is not None
        yield found
        if (process := running(found)) is not None:
            process.kill()
            process.wait()


def running(place: starter._Place) -> psutil.Process | None:
    """The starter that listens there."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if "tests.runs.light_starter" in process.cmdline() and place.key in process.cmdline():
                return process
    return None


def begun(place: starter._Place) -> psutil.Process:
    starter.begin()
    wait_until(place.ready.exists)
    process = running(place)
    assert process is not None
    return process


def forked(*arguments: str, output: int = 1, **options: Any) -> Forked | None:
    with Path(os.devnull).open() as nothing:
        standard = {"stdin": nothing.fileno(), "stdout": output, "stderr": 2}
        return starter.fork("tests.runs.forked", arguments, **standard, **options)


def printed(*arguments: str, **options: Any) -> Any:
    with tempfile.TemporaryFile("w+") as out:
        process = forked(*arguments, output=out.fileno(), **options)
        assert process is not None and process.wait(60) == 0
        out.seek(0)
        return json.loads(out.read())


# --- what it forks --------------------------------------------------------------------------------


def test_a_fork_finds_what_a_new_process_finds(
    place: starter._Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(place)
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "ünïcode \udcff"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    found = printed("as", "it is")
    new = subprocess.run(
        [sys.executable, "-P", "-m", "tests.runs.forked", "as", "it is"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        env=resources.environment(),
        start_new_session=True,
    )
    assert found == json.loads(new.stdout)
    assert found["arguments"] == ["as", "it is"] and found["leads its session"]


def test_its_end_is_told(place: starter._Place) -> None:
    process = begun(place)
    forks = [forked("end", "3"), forked("die", "9"), forked("end", "0")]
    assert [each and each.wait(60) for each in forks] == [3, -9, 0]
    wait_until(lambda: not process.children())  # no zombies either
    assert process.num_threads() == 1
    waits = forked("wait")
    assert waits is not None and waits.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waits.wait(0.01)
    waits.kill()
    assert waits.wait(60) == -signal.SIGKILL


def test_a_lock_is_held_by_the_fork_alone(place: starter._Place, tmp_path: Path) -> None:
    """Whatever happens to the starter, and to other forks."""
    process = begun(place)
    lock = locks.take(tmp_path / "lock")
    assert lock is not None
    one, other = forked("wait", lock=lock), forked("wait")
    assert one is not None and other is not None
    os.close(lock)
    process.kill()
    process.wait()
    wait_until(lambda: one.poll() == 1)  # nobody tells its end any more
    assert locks.is_held(tmp_path / "lock") and not locks.is_held(place.lock)
    os.kill(one.pid, signal.SIGKILL)
    wait_until(lambda: not locks.is_held(tmp_path / "lock"))
    os.kill(other.pid, signal.SIGKILL)


def test_one_that_is_not_waited_for_does_nothing(place: starter._Place, tmp_path: Path) -> None:
    """Whoever asked was killed, or gave up and started a process: never are there two."""
    process = begun(place)
    connection = starter._connected(place, 0)
    assert connection is not None
    lock = locks.take(tmp_path / "lock")
    assert lock is not None
    done = tmp_path / "done"
    request = ["tests.runs.forked", ["touch", str(done)], resources.environment()]
    text = json.dumps(request).encode()
    folder = os.open(tmp_path, os.O_RDONLY)
    files = [folder, 0, 1, 2, lock]
    socket.send_fds(connection, [struct.pack("!Q", len(text))], files)
    connection.sendall(text)
    assert int(starter._line(connection)) in [child.pid for child in process.children()]
    connection.close()
    os.close(lock)
    os.close(folder)
    wait_until(lambda: not locks.is_held(tmp_path / "lock"))
    wait_until(lambda: not process.children())
    assert not done.exists()
    assert printed()["arguments"] == [], "and it goes on"


def test_a_lower_priority_is_not_another_starter(place: starter._Place) -> None:
    """A run has a lower one, and has others forked."""
    begun(place)
    assert printed("priority") == [max(resources.PRIORITY, resources.NICE), True]


# --- whose it is ----------------------------------------------------------------------------------


def test_what_a_fork_inherits_makes_another_starter(
    place: starter._Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = starter._key()
    for name in ("TERM", "WORKBENCH_RUNS", "PWD", "OMP_NUM_THREADS", "PYTEST_CURRENT_TEST"):
        monkeypatch.setenv(name, "another")
    assert starter._key() == key, "this comes with the request"
    for name in ("HF_HOME", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "TZ", "ANYTHING"):
        with monkeypatch.context() as other:
            other.setenv(name, "/another")
            assert starter._key() != key
    umask = os.umask(0o027)
    try:
        assert starter._key() != key
    finally:
        os.umask(umask)


@pytest.mark.parametrize("folder", ["site-packages", "elsewhere"])
def test_a_package_that_is_installed_makes_another_starter(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `site-packages`, or in a folder that a `.pth` file there names."""
    site = tmp_path / "site-packages"
    installed = tmp_path / folder
    site.mkdir()
    installed.mkdir(exist_ok=True)
    (site / "mine.pth").write_text("import os\n# a comment\n../elsewhere\n/no/such/folder\n")
    monkeypatch.syspath_prepend(str(site))
    before = starter.version()
    assert starter.version() == before
    about = installed / "mine-1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("[workbench.analyses]\nmien = mien\n")
    with_package = starter.version()
    assert with_package != before
    (about / "entry_points.txt").write_text("[workbench.analyses]\nmine = mine\n")
    assert starter.version() != with_package, "an entry point was written again in its place"


@pytest.mark.parametrize("wrong", ["open", "link", "long", "off", "nonsense"])
def test_where_it_cannot_be_trusted_there_is_none(
    wrong: str, place: starter._Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wrong == "open":
        place.folder.chmod(0o755)
    elif wrong == "link":
        place.folder.rmdir()
        place.folder.symlink_to(tmp_path)
    elif wrong == "long":
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("a" * 100)))
    elif wrong == "off":
        monkeypatch.setenv(starter.SWITCH, "0")
    else:
        monkeypatch.setenv("WORLD_SIZE", "2")
    starter.begin()
    starter.await_ready()
    assert forked() is None and running(place) is None


def test_another_user_is_refused(place: starter._Place, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(place)
    monkeypatch.setattr(starter, "_user_of", lambda connection: os.getuid() + 1)
    assert forked() is None


# --- when it begins and ends ----------------------------------------------------------------------


def test_several_that_ask_at_once_have_one(place: starter._Place) -> None:
    threads = [threading.Thread(target=starter.begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    process = forked("end", "0", patience=60)
    assert process is not None and process.wait(60) == 0
    for thread in threads:
        thread.join()
    own = [each for each in psutil.Process().children() if place.key in each.cmdline()]
    assert len(own) == 1


def test_it_ends_when_it_is_not_needed_any_more(
    place: starter._Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(starter.SWITCH, "0.1")
    process = begun(place)
    busy = forked("wait")
    assert busy is not None
    time.sleep(0.25)
    assert process.is_running(), "not while one of its forks runs"
    busy.kill()
    process.wait(60)
    assert not list(place.folder.iterdir())
    assert running(place) is None


def test_it_ends_with_the_app_that_began_it(place: starter._Place, tmp_path: Path) -> None:
    """However the app ends; but not before the processes that it has forked."""
    app = os.fork()
    if app == 0:
        starter.end_with_this()
        starter.begin()
        time.sleep(600)
    wait_until(place.ready.exists)
    with (tmp_path / "out").open("w+") as out, Path(os.devnull).open() as nothing:
        waits = starter.fork(
            "tests.runs.forked", ["wait"], stdin=nothing.fileno(), stdout=out.fileno(),
            stderr=out.fileno(),
        )  # fmt: skip
    assert waits is not None
    os.kill(app, signal.SIGKILL)
    os.waitpid(app, 0)
    time.sleep(0.1)
    assert running(place) is not None and waits.poll() is None
    waits.kill()
    wait_until(lambda: running(place) is None, seconds=10)
    assert not place.ready.exists() and not place.lock.exists()


def test_it_ends_when_the_code_has_changed(place: starter._Place) -> None:
    """Before it is ready, and afterwards: whoever asks then asks elsewhere."""
    older = starter._Place(place.folder, "0123-4567")
    with pytest.MonkeyPatch.context() as before:
        before.setattr(starter, "_place", lambda: older)
        starter.begin()
        assert forked(patience=60) is None
        wait_until(lambda: not list(place.folder.iterdir()))
    process = begun(place)
    place.ready.unlink()
    process.wait(60)


def test_one_that_does_not_answer_is_not_waited_for(
    place: starter._Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = begun(place)
    monkeypatch.setattr(starter, "ANSWER", 0.1)
    process.suspend()
    assert forked("end", "0") is None
    process.resume()
    monkeypatch.setattr(starter, "ANSWER", 60.0)
    assert printed()["arguments"] == []


def test_one_with_a_thread_is_unfit_and_no_other_is_begun(
    place: starter._Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_TESTS_THREAD", "1")
    starter.begin()
    assert forked(patience=60) is None
    wait_until(place.unfit.exists)
    monkeypatch.delenv("WORKBENCH_TESTS_THREAD")
    starter.begin()
    assert running(place) is None and forked() is None


def test_one_that_was_killed_is_replaced(place: starter._Place) -> None:
    process = begun(place)
    process.kill()
    process.wait()
    assert forked() is None
    assert begun(place).pid != process.pid
    assert printed()["arguments"] == []
