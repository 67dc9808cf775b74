"""Starting runs, following them, ending them: a process each, which outlives whoever started it.

    run = start(spec)                       answered from disk where the same question was asked
    for event in follow(run): ...           until it has ended
    cancel(run)

Of two that ask for the same run one computes and the other follows. Costs a process.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench import places
from workbench.errors import WorkbenchError
from workbench.runs import events, locks, spec, status
from workbench.runs.execute import Open, execute
from workbench.runs.journal import CANCEL
from workbench.runs.run import Run
from workbench.runs.status import LOCK, LOG, Failure, Status

EVERY = 0.1  # seconds between looks at a run
GRACE = 10.0  # seconds a cancelled process has to end by itself
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_started: list[subprocess.Popen[bytes]] = []  # kept only so that the system's records are cleared


def start(
    asked: spec.Spec, *, share: bool = False, scheduler: str = "", opened: Open | None = None
) -> Run:
    """The run that answers a question: done already, under way, or started here and now.

    `opened` computes it in this process, for what only this process has; else a process of its own
    does, on this machine or on a cluster. A sweep gathers here what the cluster computes.
    """
    run = Run(places.runs() / asked.name)
    scheduler, parts_on = ("", scheduler) if asked.sweep else (scheduler, "")
    lock = _take(run.path)
    if lock is None:
        return run
    try:
        if (status.read(run.path) or Status("failed")).state == "done":
            return run
        queued = Status("queued", scheduler=scheduler, parts_on=parts_on, guest=opened is not None)
        _queue(run.path, asked, queued)
        if opened is not None:
            execute(run.path, opened=opened)
        elif not scheduler:
            _spawn(run.path, lock, share)
    except BaseException as error:
        _not_started(run.path, error)
        raise
    finally:
        os.close(lock)
    if scheduler:
        from workbench.runs.cluster import submit

        try:
            submit(run.path, asked, scheduler)
        except BaseException as error:
            _not_started(run.path, error)
            raise
    return run


def follow(run: Run) -> Iterator[Mapping[str, Any]]:
    """The run's events of this attempt as they come, until it has ended."""
    place = _last_start(run.path)
    while True:
        standing = run.status
        found, place = events.read(run.path, place)
        yield from found
        if not standing.under_way:
            return
        if standing.scheduler:
            from workbench.runs.cluster import given_up

            given_up(run.path, standing)
        time.sleep(EVERY)


def cancel(run: Run, grace: float = GRACE) -> Status:
    """Ask a run to end, then make it; the device is free when this returns."""
    now = run.status
    if not now.under_way:
        raise WorkbenchError(f"the run is {now.state} already.", where=run.name)
    try:
        (run.path / CANCEL).touch()
    except OSError as error:
        raise _unwritable(run.path, error) from None
    if not _ends(run, signal.SIGTERM, grace):
        _ends(run, signal.SIGKILL, grace)
    lock = locks.take(run.path / LOCK)
    if lock is None:
        return run.status  # on another machine, or a guest: it ends at its next step
    try:
        found = status.read(run.path) or now
        if found.under_way or (found.failure and found.failure.kind == "died"):
            status.write(
                run.path, replace(found, state="cancelled", ended=events.now(), failure=None)
            )
            events.add(run.path, "state", state="cancelled")
    finally:
        os.close(lock)
    return run.status


def remove(run: Run) -> None:
    """Remove a run that is not under way; half a removal is never seen as a run."""
    now = run.status
    lock = None if now.under_way else _lock_of(run)
    if lock is None:
        raise WorkbenchError(
            "the run is under way.",
            where=run.name,
            remedy=f"First: workbench runs cancel {run.name}",
        )
    try:
        grave = run.path.with_name(f".{run.name}.removed-{os.getpid()}")
        run.path.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)
    except OSError as error:
        raise _unwritable(run.path, error) from None
    finally:
        os.close(lock)


def _lock_of(run: Run) -> int | None:
    try:
        return locks.take(run.path / LOCK)
    except OSError as error:
        raise _unwritable(run.path, error) from None


def _take(folder: Path) -> int | None:
    """The lock of a run's folder, which is made; None where the run is done or under way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            if (found := status.read(folder)) and found.state == "done":
                return None
            lock = locks.take(folder / LOCK)
            if lock is not None:
                return lock
            if locks.is_held(folder / LOCK):
                return None
            folder.mkdir(parents=True, exist_ok=True)  # somebody removed it just now
    except OSError as error:
        raise _unwritable(folder, error) from None


def _queue(folder: Path, asked: spec.Spec, queued: Status) -> None:
    """Write down what is asked, and that it waits."""
    for draft in folder.glob(".*.*"):
        draft.unlink(missing_ok=True)  # of a writer that was killed
    (folder / CANCEL).unlink(missing_ok=True)
    before = status.read(folder)
    spec.write(folder, asked)
    parts = asked.parts or (asked,)
    queued = replace(
        queued,
        experiment=asked.experiment,
        models=tuple(dict.fromkeys(model.name for part in parts for model in part.models)),
        corpora=tuple(dict.fromkeys(corpus.name for part in parts for corpus in part.corpora)),
        created=before.created if before and before.created else events.now(),
        attempt=before.attempt + 1 if before else 1,
        device=asked.device,
    )
    status.write(folder, queued)
    events.add(folder, "state", state="queued", attempt=queued.attempt)


def _spawn(folder: Path, lock: int, share: bool) -> None:
    """Start the run's process; it inherits the lock, so there is no moment without one."""
    command = worker_command(folder, lock, share)
    with (folder / LOG).open("wb") as log:
        _started.append(
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=worker_environment(),
                pass_fds=[lock],
                start_new_session=True,
            )
        )
    _clear_started()


def worker_command(folder: Path, lock: int, share: bool) -> list[str]:
    """How a run's process is started, here or on a cluster's machine."""
    command = [sys.executable, "-P", "-m", "workbench.runs.worker", str(folder)]
    return [*command, "--lock", str(lock), *(["--share"] if share else [])]


def worker_environment(threads: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a run's process finds around it; `threads` replaces how many it may use."""
    found = {**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false"}
    if threads is not None:
        for name in _THREADS:
            found.pop(name, None)
        found |= threads
    return found


def own_threads() -> dict[str, str]:
    """How many threads this process was told to use."""
    return {name: os.environ[name] for name in _THREADS if name in os.environ}


def _not_started(folder: Path, error: BaseException) -> None:
    """Say why a run was not started, if it can be said, and leave no run that seems to wait."""
    found = status.read(folder)
    if found is None or found.state != "queued":
        return
    known = isinstance(error, WorkbenchError)
    what = error.what if isinstance(error, WorkbenchError) else f"it was not started: {error!r}."
    failure = Failure(what, remedy=getattr(error, "remedy", ""), kind="input" if known else "bug")
    with suppress(OSError, WorkbenchError):
        status.write(folder, replace(found, state="failed", ended=events.now(), failure=failure))


def _last_start(folder: Path) -> int:
    """Where in the events the present attempt begins."""
    start = place = 0
    with suppress(OSError), (folder / events.FILE).open("rb") as file:
        for line in file:
            if b'"state": "queued"' in line:
                start = place
            place += len(line)
    return start


def _ends(run: Run, number: signal.Signals, seconds: float) -> bool:
    """Whether the run's process, once it is told, lets go of its lock within so many seconds."""
    deadline, told = time.monotonic() + seconds, False
    while locks.is_held(run.path / LOCK):
        if time.monotonic() > deadline:
            return False
        now = status.read(run.path)
        if not told and now and now.pid and now.here and not now.guest:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(now.pid, number)
            told = True
        time.sleep(EVERY / 2)
        _clear_started()
    return True


def _clear_started() -> None:
    _started[:] = [process for process in _started if process.poll() is None]


def _unwritable(folder: Path, error: OSError) -> WorkbenchError:
    return WorkbenchError(
        f"cannot be written: {error.strerror or error}.",
        where=str(folder),
        remedy="Work in a folder you may write to, or name one in WORKBENCH_RUNS.",
    )
