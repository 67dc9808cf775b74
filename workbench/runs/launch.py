"""Starting runs, following them, ending them: a process each, which outlives whoever started it.

    run = start(spec)                       answered from disk where the same question was asked
    for event in follow(run): ...           until it has ended
    cancel(run)

Of two that ask for the same run one computes and the other follows. Costs a process.
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
from workbench.core.files import open_to_add, unwritable
from workbench.runs import locks, process, spec, status
from workbench.runs.process import GRACE
from workbench.runs.run import Run, is_whole
from workbench.runs.spec import checked, no_link, unlinked
from workbench.runs.status import CANCEL, LOCK, SCRATCH, Failure, Journal, Status

EVERY = 0.1  # seconds between looks at a run
DYING = 60.0  # seconds a killed process has to free its lock, and with it its memory
BIN = ".bin"  # in the folder of runs, where no run is looked for
KEPT = 7 * 86_400.0  # seconds that a run stays in the bin
_MOMENT = re.compile(r"[0-9]{13,14}")  # of the day, in milliseconds
_DRAFT = re.compile(r"\..+\.[a-z0-9_]{8}")  # what `written_whole` leaves when it is killed


def start(
    asked: spec.Spec,
    *,
    share: bool = False,
    scheduler: str = "",
    compute: Callable[[Journal], object] | None = None,
    part_of: str = "",
    threads: Mapping[str, str] | None = None,
) -> Run:
    """The run that answers a question: done already, under way, or started here and now.

    `compute` does it in this process, with what only this process has; else a process of its own
    does, on this machine or on a cluster. A sweep gathers here what the cluster computes.
    `threads` is how many a process of its own may use.
    """
    run = Run(machine.runs() / asked.name)
    scheduler, parts_on = ("", scheduler) if asked.sweep else (scheduler, "")
    try:
        lock = _take(run.path)
        if lock is None:
            return run
        try:
            guest = compute is not None
            queued = Status(
                "queued", scheduler=scheduler, parts_on=parts_on, guest=guest, part_of=part_of
            )
            _queue(run.path, asked, queued)
            if compute is not None:
                compute(Journal(run.path))
            elif not scheduler:
                process.spawn(run.path, lock, share, threads)
        finally:
            os.close(lock)
        if scheduler:
            from workbench.runs.cluster import submit

            submit(run.path, asked, scheduler)
    except OSError as error:
        wrong = _unwritable(run.path, error)
        _not_started(run.path, wrong)
        raise wrong from None
    except BaseException as error:
        _not_started(run.path, error)
        raise
    return run


def follow(run: Run) -> Iterator[Mapping[str, Any]]:
    """The run's events of this attempt as they come, until it has ended."""
    place = status.last_start(run.path)
    while True:
        now = looked(run)
        found, place = status.read_events(run.path, place)
        yield from found
        if not now.under_way:
            return
        time.sleep(EVERY)


def looked(run: Run) -> Status:
    """How a run stands, after hearing from the cluster that has it."""
    now = run.status
    if now.under_way and now.scheduler:
        from workbench.runs.cluster import given_up

        return given_up(run.path, now)
    return now


def cancel(run: Run, grace: float = GRACE) -> Status:
    """Ask a run to end, then make it; the device is free when this returns.

    A sweep's parts end with it. What is on another machine, or inside another program, ends at its
    next step.
    """
    now = run.status
    if not now.under_way:
        raise WorkbenchError(
            f"the run is {now.state} already.",
            where=run.name,
            remedy=f"There is nothing to cancel. To see it: workbench runs show {run.name}",
        )
    end([run], grace)
    with suppress(WorkbenchError):
        end(_parts(run), grace)
    return run.status


def end(runs: Sequence[Run], grace: float = GRACE) -> None:
    """End these runs, all at the same time."""
    attempts = {}
    for run in runs:
        if (now := run.status).under_way:
            attempts[run] = now.attempt
            _ask_to_end(run)
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline, told = time.monotonic() + grace, set[Run]()
        while held := [run for run in attempts if locks.is_held(run.path / LOCK)]:
            if time.monotonic() > deadline:
                break
            for run in held:
                now = status.read(run.path) or Status("queued", attempt=attempts[run])
                if now.attempt != attempts[run]:
                    del attempts[run]  # begun anew since: another's
                elif run not in told and now.pid and now.here and not now.guest:
                    told.add(run)
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(now.pid, number)
            time.sleep(EVERY / 2)
    for run in attempts:
        status.ended(run.path)


def _ask_to_end(run: Run) -> None:
    try:
        os.close(open_to_add(run.path / CANCEL))
    except OSError as error:
        raise _unwritable(run.path, error) from None


def _parts(run: Run) -> list[Run]:
    """The runs that a sweep has started, and no other that it waits for."""
    parts = [Run(run.path.parent / part.name) for part in run.spec.parts]
    return [p for p in parts if (now := status.read(p.path)) and now.part_of == run.name]


def remove(run: Run) -> None:
    """Remove a run that is not under way; half a removal is never seen as a run."""
    _move(run, run.path.with_name(f".{run.name}.removed-{os.getpid()}"))
    _clear(run.path.parent)


def set_aside(run: Run) -> str:
    """Put a run that is not under way into the bin; the name under which it can be brought back.

    Nothing of it is lost for `KEPT` seconds; after that a later removal may clear it away.
    """
    entry = f"{run.name}.{time.time_ns() // 1_000_000}"
    _move(run, run.path.parent / BIN / entry)
    _clear(run.path.parent)
    return entry


def bring_back(entry: str) -> Run:
    """Put a run out of the bin where it was; refused where a run of its name is there again."""
    name, _ = _removed(entry)
    run = Run(machine.runs() / name)
    try:
        no_link(no_link(run.path.parent / BIN) / entry).rename(run.path)
    except FileNotFoundError:
        raise WorkbenchError(
            "it is not among the removed runs any more.",
            where=name,
            remedy="Ask the same question again.",
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise WorkbenchError(
                "there is a run of this name again.",
                where=name,
                remedy="Remove that one first; both answer the same question.",
            ) from None
        raise _unwritable(run.path, error) from None
    return run


def in_bin() -> list[tuple[str, str, float]]:
    """What can be brought back, the last removed first: its entry, its name, seconds left."""
    found = []
    for entry, name, removed in _entries(machine.runs()):
        left = removed + KEPT - time.time()
        if left > 0:
            found.append((entry, name, left))
    return sorted(found, key=lambda one: one[2], reverse=True)


def _move(run: Run, target: Path) -> None:
    """Take a run away that is not under way."""
    try:
        lock, deadline = None, time.monotonic() + GRACE
        while not run.status.under_way and lock is None and time.monotonic() < deadline:
            if (lock := locks.take(unlinked(run.path / LOCK))) is None:
                time.sleep(EVERY)  # its process has ended the run, but not yet itself
        if lock is None:
            raise WorkbenchError(
                "the run is under way.",
                where=run.name,
                remedy=f"First: workbench runs cancel {run.name}",
            )
        try:
            no_link(target.parent).mkdir(exist_ok=True)
            run.path.rename(target)
        finally:
            os.close(lock)
    except OSError as error:
        raise _unwritable(run.path, error) from None


def _clear(runs: Path) -> None:
    """Delete what was removed for good, and what has been in the bin long enough."""
    for entry, _, removed in _entries(runs):
        if removed + KEPT < time.time():
            with suppress(OSError):  # first out of the bin: half of it cannot be brought back
                (runs / BIN / entry).rename(runs / f".{entry}.removed-{os.getpid()}")
    for grave in runs.glob(".*.removed-*"):  # and those of a remover that was killed
        shutil.rmtree(grave, ignore_errors=True)


def _entries(runs: Path) -> Iterator[tuple[str, str, float]]:
    """What is in the bin: each entry, the run's name, and the time at which it was removed."""
    place = runs / BIN
    for path in place.iterdir() if place.is_dir() and not place.is_symlink() else ():
        with suppress(WorkbenchError):
            if path.is_dir() and not path.is_symlink():
                yield path.name, *_removed(path.name)


def _removed(entry: str) -> tuple[str, float]:
    """A run's name, and the time at which it was removed, out of its name in the bin."""
    name, _, moment = entry.rpartition(".")
    checked(name, "removed run")
    if not _MOMENT.fullmatch(moment):
        checked("", "removed run")
    return name, int(moment) / 1000


def _take(folder: Path) -> int | None:
    """The lock of a run's folder, which is made; None where the run is done or under way."""
    unlinked(folder / LOCK)
    deadline = time.monotonic() + DYING
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        if _is_done(folder):
            shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # of one killed as it ended
            return None
        found = status.read(folder)
        try:
            lock = locks.take(folder / LOCK)
        except FileNotFoundError:
            continue  # somebody removed the folder just now
        except locks.NoLocksError:
            _leave_nothing(folder)
            raise
        if lock is not None:
            if not _is_done(folder):
                return lock
            os.close(lock)
        elif (
            found
            and found.under_way
            and (_goes_on(found) or time.monotonic() > deadline)
            and locks.is_held(folder / LOCK)
        ):
            return None
        time.sleep(EVERY / 10)  # it is about to begin, or just ending


def _goes_on(found: Status) -> bool:
    """Whether the process of a run that is under way will go on with it: it was not killed."""
    if found.scheduler or (found.pid and not found.here):
        return True  # nobody here can tell
    return found.pid != 0 and not locks.is_dying(found.pid)  # 0: its process is just starting


def _leave_nothing(folder: Path) -> None:
    """Remove a folder that has nothing but the lock that could not be taken."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()


def _is_done(folder: Path) -> bool:
    """Whether all of the answer is there; one of which something was lost is made anew."""
    found = status.read(folder)
    return found is not None and found.state == "done" and is_whole(folder)


def _queue(folder: Path, asked: spec.Spec, queued: Status) -> None:
    """Write down what is asked, and that it waits."""
    for place in (folder, folder / SCRATCH):
        for path in place.glob(".*"):
            if _DRAFT.fullmatch(path.name) and path.is_file():
                path.unlink(missing_ok=True)
    (folder / CANCEL).unlink(missing_ok=True)
    before = status.read(folder)
    spec.write(folder, asked)
    parts = asked.parts or (asked,)
    queued = replace(
        queued,
        experiment=asked.experiment,
        models=tuple(dict.fromkeys(model.name for part in parts for model in part.models)),
        corpora=tuple(dict.fromkeys(corpus.name for part in parts for corpus in part.corpora)),
        created=before.created if before and before.created else status.utc_now(),
        attempt=before.attempt + 1 if before else 1,
        device=asked.device,
    )
    status.write(folder, queued)
    status.add_event(folder, "state", state="queued", attempt=queued.attempt)


def _not_started(folder: Path, error: BaseException) -> None:
    """Say why a run was not started, if it can be said, and leave no run that seems to wait."""
    if isinstance(error, WorkbenchError):
        why = Failure(error.what, error.where, error.remedy, "input")
    else:
        why = Failure(
            f"it was not started: {error!r}.",
            remedy="This is a bug in Workbench, or it was interrupted; ask again.",
        )
    found = status.read(folder)
    if found is not None and found.state == "queued":
        status.ended(folder, why)


def _unwritable(folder: Path, error: OSError) -> WorkbenchError:
    return unwritable(
        folder, error, "Work in a folder you may write to, or name one in WORKBENCH_RUNS."
    )
