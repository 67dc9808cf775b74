"""Locks that the system frees when their holder dies, however it dies.

A lock is a file held with `flock`; a process started with the descriptor goes on holding it, so
there is no moment in which a run that is under way is not locked. Its holder has it alone; who only
looks whether there is one shares it for a moment, which a taker waits out. Where the file system
knows no locks, nobody can be told apart from the dead: taking one is an error, and who only looks
is told that it is held. Costs a system call.
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

MOMENT = 0.002  # seconds a taker waits for those who only look
_EXITING = 0x4  # among a process' flags, from the moment it begins to end
UNKNOWN = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)  # as NFS without lockd says

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def _above_standard(handle: int) -> int:
    """The same file under a descriptor that is no standard stream's.

    Where one of those is closed, as under cron, a new file takes its place; and the process that is
    handed it would lose it to its own streams.
    """
    if handle > 2:
        return handle
    try:
        return fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(handle)


def take(path: Path) -> int | None:
    """Hold the lock, if nobody does; the descriptor is to be closed, or handed to a process."""
    handle = _above_standard(os.open(path, _FLAGS, 0o644))
    taken = False
    try:
        while not _locked(handle, fcntl.LOCK_EX, path):
            if not _locked(handle, fcntl.LOCK_SH, path):
                return None
            fcntl.flock(handle, fcntl.LOCK_UN)
            time.sleep(MOMENT)
        taken = _is_still(path, handle)  # else removed, with its folder, while we came to it
        return handle if taken else None
    finally:
        if not taken:
            os.close(handle)


@contextmanager
def unheld(path: Path) -> Iterator[bool]:
    """Whether nobody holds the lock; if so, nobody takes it during the block."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        yield True
        return
    try:
        try:
            nobody = _locked(handle, fcntl.LOCK_SH, path)
        except NoLocksError:
            nobody = False
        yield nobody
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock; also told where the folder is read-only."""
    with unheld(path) as nobody:
        return not nobody


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock through a block, waiting for it; for moments, not for jobs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, _FLAGS, 0o644)
    try:
        _flock(handle, fcntl.LOCK_EX, path)
        yield
    finally:
        os.close(handle)


def is_dying(process: int) -> bool:
    """Whether a process of this machine has been killed, though it may hold its locks still."""
    try:
        os.kill(process, 0)
        status = Path(f"/proc/{process}/status").read_text("utf-8", "replace")
        stat = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except ProcessLookupError:
        return True
    except FileNotFoundError:
        return Path("/proc/self").exists()  # gone just now; or a system without /proc
    except PermissionError:
        return False  # another user's
    waiting = re.findall(r"^(?:Sig|Shd)Pnd:\s*([0-9a-f]+)", status, re.MULTILINE)
    killed = any(int(mask, 16) >> (signal.SIGKILL - 1) & 1 for mask in waiting)
    facts = stat.rpartition(")")[2].split()  # after the name, which may hold anything
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
    """The file system knows no locks."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            "this file system does not support file locks, which runs need.",
            where=str(path.parent),
            remedy="Name a folder on a local disk in WORKBENCH_RUNS and in WORKBENCH_HOME, or "
            "mount this one with locks (NFS: with lockd, or version 4).",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return NoLocksError, (Path(self.where) / "lock",)


def _is_still(path: Path, handle: int) -> bool:
    try:
        there, ours = path.stat(), os.fstat(handle)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
