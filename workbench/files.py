"""Files that are there whole or not at all.

`written_whole` hands out a temporary path beside the target and moves it into place only when the
block ends without an error; a killed or failed writer leaves the old file, or none. A link is
written through: it stays, and the file it leads to changes. `open_regular` and `parsed_json` read
what others may have put there: no pipe is waited for, and no depth of brackets overflows the stack.
Costs one rename.
"""

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError

DEEPEST = 100  # levels of objects and lists in a JSON file


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path to write to, renamed onto `target` at the end; its folder is made where missing."""
    real = _real(target)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{real.name[:80]}.", dir=real.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(target, error) from None
    draft = Path(name)
    try:
        yield draft
        _flush_to_disk(draft)
        draft.chmod(0o666 & ~_umask())
        draft.replace(real)
    except OSError as error:
        raise _unwritable(target, error) from None
    finally:
        draft.unlink(missing_ok=True)


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read; a pipe, socket or device is an OSError at once, and not waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def open_to_add(path: Path, how: int = 0) -> int:
    """The descriptor of a file to add to, made where missing; no link, and no pipe to wait for."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags | how, 0o644)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def require_regular(path: Path) -> Path:
    """The path, for a library that opens it by itself; OSError where it is no regular file."""
    open_regular(path).close()
    return path


def read_regular(path: Path) -> bytes:
    """All of a regular file."""
    with open_regular(path) as file:
        return file.read()


def parsed_json(content: bytes | str) -> Any:
    """What JSON says; ValueError where it is none, or more than DEEPEST levels deep."""
    too_deep = f"more than {DEEPEST} levels of brackets"
    try:
        found = json.loads(content)
    except RecursionError:
        raise ValueError(too_deep) from None
    level = [found]
    for _ in range(DEEPEST):
        level = [
            part
            for whole in level
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
        if not level:
            return found
    raise ValueError(too_deep)


def drafted(folder: Path) -> Path:
    """Where a folder is filled before it gets its name: beside it, on the same disk."""
    return folder.with_name(f".{folder.name}.draft")


def user_path(path: str | os.PathLike[str]) -> Path:
    """A path as a user gives it, `~` and all; what can be no path is the user's error."""
    try:
        named = os.fspath(path)
        if not isinstance(named, str) or "\0" in named:
            raise ValueError("a path is text without null characters")
        return Path(named).expanduser()
    except (TypeError, ValueError, RuntimeError) as error:
        raise WorkbenchError(
            f"this can be no path: {str(error).rstrip('.')}.",
            where=f"{path!r:.80}",
            remedy="Name a file or a folder.",
        ) from None


def _real(target: Path) -> Path:
    """Where a path leads in the end, past links and `..`; only a regular file may be there."""
    try:
        real = target.resolve()
        mode = real.lstat().st_mode if os.path.lexists(real) else stat.S_IFREG
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead round in a circle
        raise _unwritable(target, error) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise _unwritable(target, OSError(f"there is {kind} in its place"))
    return real


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The process' umask; there is no way to read it but to set it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _unwritable(target: Path, error: Exception) -> WorkbenchError:
    reason = getattr(error, "strerror", None) or str(error)
    return WorkbenchError(
        f"cannot be written: {reason.rstrip('.')}.",
        where=str(target),
        remedy="Name a folder you may write to, on a disk with space left.",
    )
