"""Starts, follows and cancels runs: each has its own process, which outlives its parent.

    run = start(spec)                       read from disk if the same request is done
    for event in follow(run): ...           until it has ended
    cancel(run)

If two processes start the same run, one computes it and the other follows it. Costs: a process.
"""

import errno
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import open_for_append, unwritable
from workbench.runs import process, spec, status
from workbench.runs.process import GRACE
from workbench.runs.processes import locks
from workbench.runs.run import Run, is_whole, require_own
from workbench.runs.spec import checked, no_link, unlinked
from workbench.runs.status import CANCEL, LOCK, SCRATCH, Failure, Journal, Status
from workbench.runs.time_left import earlier

EVERY = 0.1  # seconds between checks of a run
DYING = 60.0  # seconds to wait until a killed process has freed its lock and memory
BIN = ".bin"  # folder of removed runs, in the folder of runs
KEPT = 7 * 86_400.0  # seconds that a removed run stays in the bin
_MOMENT = re.compile(r"[0-9]{13,14}")  # a time in milliseconds
_DRAFT = re.compile(r"\..+\.[a-z0-9_]{8}")  # left by a killed `atomic_write`


def start(
    run_spec: spec.Spec,
    *,
    share: bool = False,
    scheduler: str = "",
    compute: Callable[[Journal], object] | None = None,
    part_of: str = "",
    threads: Mapping[str, str] | None = None,
) -> Run:
    """Return the run of a request; start it unless it is done or under way.

    With `share`, a run that still waits for its turn on a device starts at once.
    `compute` computes it in this process, with objects that only this process has; without it, a
    new process computes it, on this machine or on a cluster. A sweep collects on this machine what
    the cluster computes. `threads` limits the threads of a new process.
    """
    run = Run(machine.runs() / run_spec.name)
    scheduler, parts_on = ("", scheduler) if run_spec.sweep else (scheduler, "")
    try:
        lock = _take(run.path)
        if lock is None and share and run.status.state == "queued":
            end([run])  # it waits for its turn, which this caller does not
            lock = _take(run.path)
        if lock is None:
            return run
        try:
            guest = compute is not None
            queued = Status(
                "queued", scheduler=scheduler, parts_on=parts_on, guest=guest, part_of=part_of
            )
            _queue(run.path, run_spec, queued)
            if compute is not None:
                compute(Journal(run.path))
            elif not scheduler:
                process.spawn(run.path, lock, share, threads)
        finally:
            os.close(lock)
        if scheduler:
            from workbench.runs.cluster import submit

            submit(run.path, run_spec, scheduler)
    except OSError as error:
        failure = _unwritable(run.path, error)
        _not_started(run.path, failure)
        raise failure from None
    except BaseException as error:
        _not_started(run.path, error)
        raise
    return run


def follow(run: Run) -> Iterator[Mapping[str, Any]]:
    """Yield the events of the current attempt of a run until it has ended."""
    offset = status.last_start(run.path)
    while True:
        now = looked(run)
        events, offset = status.read_events(run.path, offset)
        yield from events
        if not now.under_way:
            return
        time.sleep(EVERY)


def looked(run: Run) -> Status:
    """Return the status of a run; for a run on a cluster, check its job first."""
    now = run.status
    if now.under_way and now.scheduler:
        from workbench.runs.cluster import check_job

        return check_job(run.path, now)
    return now


def cancel(run: Run, grace: float = GRACE) -> Status:
    """Cancel a run, and kill it if needed; the device is free when this returns.

    The parts of a sweep are cancelled with it. A run on another machine, or inside another program,
    ends at its next step.
    """
    require_own(run, "cancelled")
    now = run.status
    if not now.under_way:
        raise WorkbenchError(
            f"the run cannot be cancelled: it is {now.state} already.",
            code="run-ended",
            where=run.name,
            remedy=f"To see it: workbench runs show {run.name}",
        )
    end([run], grace)
    with suppress(WorkbenchError):
        end(_parts(run), grace)
    return run.status


def end(runs: Sequence[Run], grace: float = GRACE) -> None:
    """Cancel these runs in parallel."""
    attempts = {}
    for run in runs:
        if (now := run.status).under_way:
            attempts[run] = now.attempt
            _request_cancel(run)
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline, signalled = time.monotonic() + grace, set[Run]()
        while held := [run for run in attempts if locks.is_held(run.path / LOCK)]:
            if time.monotonic() > deadline:
                break
            for run in held:
                now = status.read(run.path) or Status("queued", attempt=attempts[run])
                if now.attempt != attempts[run]:
                    del attempts[run]  # a new attempt has begun since
                elif run not in signalled and now.pid and now.here and not now.guest:
                    signalled.add(run)
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(now.pid, number)
            time.sleep(EVERY / 2)
    for run in attempts:
        status.ended(run.path)


def _request_cancel(run: Run) -> None:
    try:
        os.close(open_for_append(run.path / CANCEL))
    except OSError as error:
        raise _unwritable(run.path, error) from None


def _parts(run: Run) -> list[Run]:
    """Return the runs that a sweep has started, without those that others started."""
    parts = [Run(run.path.parent / part.name) for part in run.spec.parts]
    return [p for p in parts if (now := status.read(p.path)) and now.part_of == run.name]


def remove(run: Run) -> None:
    """Delete a run that is not under way; the folder is renamed first, then deleted."""
    require_own(run, "removed")
    _move(run, run.path.with_name(f".{run.name}.removed-{os.getpid()}"))
    _clear(run.path.parent)


def move_to_bin(run: Run) -> str:
    """Move a run that is not under way to the bin; return the name of its entry there.

    It stays complete for `KEPT` seconds; after that a later removal may delete it.
    """
    require_own(run, "removed")
    entry = f"{run.name}.{time.time_ns() // 1_000_000}"
    _move(run, run.path.parent / BIN / entry)
    _clear(run.path.parent)
    return entry


def restore_from_bin(entry: str) -> Run:
    """Restore a run from the bin; an error if a run of its name exists again."""
    name, _ = _removed(entry)
    run = Run(machine.runs() / name)
    try:
        no_link(no_link(run.path.parent / BIN) / entry).rename(run.path)
    except FileNotFoundError:
        raise WorkbenchError(
            "the run is no longer in the bin.",
            code="run-not-found",
            where=name,
            remedy="Start the same run again.",
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise WorkbenchError(
                "a run of this name exists again.",
                code="run-exists",
                where=name,
                remedy="Use that run, which has the same request, or remove it first.",
            ) from None
        raise _unwritable(run.path, error) from None
    return run


def runs_in_bin() -> list[tuple[str, str, float]]:
    """Return the runs in the bin, the last removed first: entry, name, seconds left."""
    entries = []
    for entry, name, removed in _entries(machine.runs()):
        left = removed + KEPT - time.time()
        if left > 0:
            entries.append((entry, name, left))
    return sorted(entries, key=lambda entry: entry[2], reverse=True)


def _move(run: Run, target: Path) -> None:
    """Move the folder of a run that is not under way."""
    try:
        lock, deadline = None, time.monotonic() + GRACE
        while not run.status.under_way and lock is None and time.monotonic() < deadline:
            if (lock := locks.take(unlinked(run.path / LOCK))) is None:
                time.sleep(EVERY)  # the run has ended, its process not yet
        if lock is None:
            raise WorkbenchError(
                "the run is under way.",
                code="run-under-way",
                where=run.name,
                remedy=f"Cancel it first: workbench runs cancel {run.name}",
            )
        try:
            no_link(target.parent).mkdir(exist_ok=True)
            run.path.rename(target)
        finally:
            os.close(lock)
    except OSError as error:
        raise _unwritable(run.path, error) from None


def _clear(runs: Path) -> None:
    """Delete removed runs, and runs that are older than `KEPT` seconds in the bin."""
    for entry, _, removed in _entries(runs):
        if removed + KEPT < time.time():
            with suppress(OSError):  # first out of the bin, so that no half-deleted run is restored
                (runs / BIN / entry).rename(runs / f".{entry}.removed-{os.getpid()}")
    for folder in runs.glob(".*.removed-*"):  # also those of a process that was killed
        shutil.rmtree(folder, ignore_errors=True)


def _entries(runs: Path) -> Iterator[tuple[str, str, float]]:
    """Yield the entries of the bin: the entry, the name of the run, and the time of removal."""
    folder = runs / BIN
    for path in folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ():
        with suppress(WorkbenchError):
            if path.is_dir() and not path.is_symlink():
                yield path.name, *_removed(path.name)


def _removed(entry: str) -> tuple[str, float]:
    """Return the name of a run and the time of its removal, from its entry in the bin."""
    name, _, moment = entry.rpartition(".")
    checked(name, "removed run")
    if not _MOMENT.fullmatch(moment):
        checked("", "removed run")
    return name, int(moment) / 1000


def _take(folder: Path) -> int | None:
    """Make the folder of a run and take its lock; None if the run is done or under way."""
    unlinked(folder / LOCK)
    deadline = time.monotonic() + DYING
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if _is_done(folder):
            shutil.rmtree(
                folder / SCRATCH, ignore_errors=True
            )  # of a run that was killed as it ended
            return None
        stored = status.read(folder)
        try:
            lock = locks.take(folder / LOCK)
        except FileNotFoundError:
            continue  # another process has just removed the folder
        except locks.NoLocksError:
            _remove_empty(folder)
            raise
        if lock is not None:
            if not _is_done(folder):
                return lock
            os.close(lock)
        elif (
            stored
            and stored.under_way
            and (_continues(stored) or time.monotonic() > deadline)
            and locks.is_held(folder / LOCK)
        ):
            return None
        time.sleep(EVERY / 10)  # it is about to begin, or ending


def _continues(now: Status) -> bool:
    """Return whether the process of a run under way continues: it was not killed."""
    if now.scheduler or (now.pid and not now.here):
        return True  # cannot be checked on this machine
    return now.pid != 0 and not locks.is_dying(now.pid)  # 0: its process is starting


def _remove_empty(folder: Path) -> None:
    """Remove a folder that has only the lock that could not be taken."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()


def _is_done(folder: Path) -> bool:
    """Return whether all results exist; an incomplete run is computed again."""
    stored = status.read(folder)
    return stored is not None and stored.state == "done" and is_whole(folder)


def _queue(folder: Path, run_spec: spec.Spec, queued: Status) -> None:
    """Write the spec of a run, and set its status to queued."""
    for parent in (folder, folder / SCRATCH):
        for path in parent.glob(".*"):
            if _DRAFT.fullmatch(path.name) and path.is_file():
                path.unlink(missing_ok=True)
    (folder / CANCEL).unlink(missing_ok=True)
    before = status.read(folder)
    spec.write(folder, run_spec)
    parts = run_spec.parts or (run_spec,)
    queued = replace(
        queued,
        experiment=run_spec.experiment,
        models=tuple(dict.fromkeys(model.name for part in parts for model in part.models)),
        corpora=tuple(dict.fromkeys(corpus.name for part in parts for corpus in part.corpora)),
        created=before.created if before and before.created else status.utc_now(),
        attempt=before.attempt + 1 if before else 1,
        device=run_spec.device,
    )
    before_it = earlier(folder, queued, run_spec)
    queued = replace(queued, expected=(before_it.seconds or 0.0) if before_it else 0.0)
    status.write(folder, queued)
    status.add_event(
        folder,
        "state",
        state="queued",
        attempt=queued.attempt,
        left_of_run=queued.expected or None,
    )


def _not_started(folder: Path, error: BaseException) -> None:
    """Store why a run was not started, so that it does not stay queued."""
    if isinstance(error, WorkbenchError):
        why = Failure.of(error)
    else:
        why = Failure(
            f"the run was not started: {error!r}.",
            remedy="Start it again. If it was not interrupted, this is a bug in Workbench.",
            code="run-not-started",
        )
    stored = status.read(folder)
    if stored is not None and stored.state == "queued":
        status.ended(folder, why)


def _unwritable(folder: Path, error: OSError) -> WorkbenchError:
    return unwritable(
        folder, error, "Work in a folder you may write to, or set WORKBENCH_RUNS to one."
    )
