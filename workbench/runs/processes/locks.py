"""Locks that the operating system frees when their holder dies in any way.

A lock is a file held with `flock`. A process that inherits the descriptor also holds the lock, so a
run under way is locked at all times. The holder has an exclusive lock; a check takes a shared lock
for a moment, and `take` waits until the check is over. On a file system without locks, taking a
lock is an error, and a check reports that the lock is held. Costs: a system call.
"""

import errno
import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.core.errors import WorkbenchError

MOMENT = 0.002  # seconds that `take` waits for a check to end
_EXITING = 0x4  # flag of a process that has begun to end
UNKNOWN = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)  # as on NFS without lockd

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def _above_standard(handle: int) -> int:
    """Return a descriptor of the same file that is not one of the standard streams.

    If a standard stream is closed, as under cron, a new file gets its number; a process that
    inherits the descriptor would then lose it to its own standard streams.
    """
    if handle > 2:
        return handle
    try:
        return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(handle)


def take(path: Path) -> int | None:
    """Take the lock, and return its descriptor; None if another process holds it.

    The caller closes the descriptor, or passes it to a process.
    """
    handle = _above_standard(os.open(path, _FLAGS, 0o644))
    taken = False
    try:
        while not _locked(handle, fcntl.LOCK_EX, path):
            if not _locked(handle, fcntl.LOCK_SH, path):
                return None
            fcntl.flock(handle, fcntl.LOCK_UN)
            time.sleep(MOMENT)
        taken = _is_still(path, handle)  # else it was removed in the meantime, with its folder
        return handle if taken else None
    finally:
        if not taken:
            os.close(handle)


@contextmanager
def unheld(path: Path) -> Iterator[bool]:
    """Yield whether the lock is free; if so, it stays free during the block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield True
        return
    try:
        try:
            is_free = _locked(handle, fcntl.LOCK_SH, path)
        except NoLocksError:
            is_free = False
        yield is_free
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock; works in a read-only folder too."""
    with unheld(path) as is_free:
        return not is_free


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Wait for the lock and hold it during the block; for short operations only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, _FLAGS, 0o644)
    try:
        _flock(handle, fcntl.LOCK_EX, path)
        yield
    finally:
        os.close(handle)


def is_dying(process: int) -> bool:
    """Return whether a process of this machine was killed; it may still hold its locks."""
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/status").read_text("utf-8", "replace")
        stat = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return Path("/proc/self").exists()  # it has just ended; or a system without /proc
    except PermissionError:
        return False  # a process of another user
    waiting = re.findall(r"^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)", status, re.MULTILINE)
    killed = any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in waiting)
    facts = stat.rpartition(")")[2].split()  # after the name, which may contain any character
    return killed or facts[0] in "ZXx" or bool(int(facts[6]) & _EXITING)


def _locked(handle: int, kind: int, path: Path) -> bool:
    try:
        _flock(handle, kind | fcntl.LOCK_NB, path)
    except BlockingIOError:
        return False
    return True


def _flock(handle: int, kind: int, path: Path) -> None:
    try:
        fcntl.flock(handle, kind)
    except OSError as error:
        if error.errno in UNKNOWN:
            raise NoLocksError(path) from None
        raise


class NoLocksError(WorkbenchError):
    """The file system does not support locks."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "this file system does not support file locks, which runs need.",
            code="no-file-locks",
            where=str(path.parent),
            remedy="Name a folder on a local disk in WORKBENCH_RUNS and in WORKBENCH_HOME, or "
            "mount this one with locks (NFS: with lockd, or version 4).",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return NoLocksError, (Path(self.where) / "lock",)


def _is_still(path: Path, handle: int) -> bool:
    try:
        current, opened = path.stat(), os.fstat(handle)
    except OSError:
        return False
    return (current.st_dev, current.st_ino) == (opened.st_dev, opened.st_ino)
