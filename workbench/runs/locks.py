"""Locks that the system frees when their holder dies, however it dies.

A lock is a file held with `flock`; a process started with the descriptor goes on holding it, so
there is no moment in which a run that is under way is not locked. Costs a system call.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def take(path: Path) -> int | None:
    """Hold the lock, if nobody does; the descriptor is to be closed, or handed to a process."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    if not _is_still(path, handle):  # removed, with its folder, while we came to it
        os.close(handle)
        return None
    return handle


def is_held(path: Path) -> bool:
    """Whether some process holds the lock; also told where the folder is read-only."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock through a block, waiting for it; for moments, not for jobs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_still(path: Path, handle: int) -> bool:
    try:
        there, ours = path.stat(), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
