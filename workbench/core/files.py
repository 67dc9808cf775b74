"""Atomic writes, and safe reads of files that others wrote.

`atomic_write` gives a temporary path next to the target and renames it only when the block ends
without an error; a killed or failed writer leaves the old file, or none. A symbolic link stays: the
file it points to changes. `open_regular` and `parse_json` read files that anyone may have written:
they never wait for a pipe, and deeply nested JSON does not overflow the stack. Costs: one rename.
"""

import bz2
import errno
import gzip
import json
import lzma
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError

DEEPEST = 100  # maximum nesting of objects and lists in a JSON file
# Errors that the reader of an array or a table may raise for a damaged file.
DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    MemoryError,  # a header that claims more data than the file has
    zipfile.BadZipFile,
    zlib.error,
)
FULL = {errno.ENOSPC, errno.EDQUOT}  # the disk is full, or the user's quota is reached
# Messages of libraries for a full disk.
_FULL_MESSAGE = re.compile(r"No space left|os error 28\b|[Dd]isk quota exceeded")


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield a path to write to, renamed to `target` at the end; make its folder if needed."""
    real = _real(target)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{real.name[:80]}.", dir=real.parent)
        os.close(handle)
    except OSError as error:
        raise unwritable(target, error) from None
    draft, size = Path(name), 0
    try:
        try:
            yield draft
        except OSError:
            with suppress(OSError):
                size = draft.stat().st_size
            raise
        _flush_to_disk(draft)
        draft.chmod(0o666 & ~_umask())
        draft.replace(real)
    except OSError as error:
        raise unwritable(target, error, needed=size) from None
    finally:
        draft.unlink(missing_ok=True)


def write_atomically(target: Path, content: str | bytes) -> None:
    """Write a whole file, text as UTF-8, with `atomic_write`."""
    with atomic_write(target) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; a pipe, socket or device raises an OSError at once."""
    return os.fdopen(_regular(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def open_for_append(path: Path, extra_flags: int = 0) -> int:
    """Open a file for appending, and make it if needed; links and pipes raise an OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return _regular(path, flags | extra_flags)


def _regular(path: Path, flags: int) -> int:
    try:
        handle = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket, or a pipe without a reader
            raise
        raise _no_regular_file(path) from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise _no_regular_file(path)


def _no_regular_file(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file", str(path))


def require_regular(path: Path) -> Path:
    """Return the path, for a library that opens it; OSError if it is not a regular file."""
    open_regular(path).close()
    return path


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file."""
    with open_regular(path) as file:
        return file.read()


def read_json(path: Path) -> Any:
    """Return the JSON of a regular file, parsed by `parse_json`."""
    return parse_json(read_regular(path))


def parse_json(content: bytes | str) -> Any:
    """Parse JSON; ValueError if it is invalid, or nested more than DEEPEST levels deep."""
    too_deep = f"more than {DEEPEST} levels of brackets"
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError(too_deep) from None
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    if text.count("[") + text.count("{") <= DEEPEST:
        return value
    level = [value]
    for _ in range(DEEPEST):
        level = [
            part
            for whole in level
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
        if not level:
            return value
    raise ValueError(too_deep)


def reason_of(error: Exception) -> str:
    """Return why a file could not be read, in one line without its path."""
    message = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(message).splitlines()[0].rstrip(".")


def drafted(folder: Path) -> Path:
    """Return the temporary folder that is filled before it is renamed: on the same disk."""
    return folder.with_name(f".{folder.name}.draft")


def user_path(path: str | os.PathLike[str]) -> Path:
    """Return a path that a user typed, with `~` expanded; an error if it cannot be a path."""
    try:
        named = os.fspath(path)
        if not isinstance(named, str) or "\0" in named:
            raise ValueError("a path is text without null characters")
        return Path(named).expanduser()
    except (TypeError, ValueError, RuntimeError) as error:
        raise WorkbenchError(
            f"this cannot be a path: {str(error).rstrip('.')}.",
            code="path-invalid",
            where=f"{path!r:.80}",
            remedy="Name a file or a folder.",
        ) from None


def _real(target: Path) -> Path:
    """Resolve links and `..` in a path; an error unless it is a regular file or does not exist."""
    try:
        real = target.resolve()
        mode = real.lstat().st_mode if os.path.lexists(real) else stat.S_IFREG
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise unwritable(target, error) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise unwritable(target, OSError(f"it is {kind}"))
    return real


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """Return the umask of the process; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def is_full(error: BaseException) -> bool:
    """Return whether an error, also of a library, says that the disk is full."""
    return getattr(error, "errno", None) in FULL or bool(_FULL_MESSAGE.search(str(error)))


def unwritable(
    target: Path,
    error: Exception,
    remedy: str = "Name a folder you may write to, on a disk with space left.",
    needed: int = 0,
) -> WorkbenchError:
    """Return the error for a file that cannot be written; for a full disk, with its free space.

    `needed` is the known size of the file in bytes: the bytes written before the error.
    """
    reason = reason_of(error)
    if not is_full(error):
        return WorkbenchError(
            f"cannot be written: {reason}.",
            code="file-unwritable",
            where=str(target),
            remedy=remedy,
        )
    disk, free, size = _room(target)
    needs = f", and this file needs at least {_bytes(needed)}" if needed else ""
    return WorkbenchError(
        f"cannot be written: {reason}. The disk at {disk} has {_bytes(free)} free of "
        f"{_bytes(size)}{needs}.",
        code="disk-full",
        where=str(target),
        remedy=f"Free space on {disk}, or use another disk. {remedy}",
    )


def _room(target: Path) -> tuple[Path, int, int]:
    """Return the mount point of the disk of a path, its free bytes for the user, and its size.

    If the disk usage cannot be read: the folder and zeros.
    """
    folder = Path(os.path.realpath(target))  # never raises, as `resolve` may
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        usage = shutil.disk_usage(folder)
        while not folder.is_mount() and folder != folder.parent:
            folder = folder.parent
    except OSError:
        return folder, 0, 0
    return folder, usage.free, usage.total


def _bytes(number: int) -> str:
    """Return a size with its unit."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number} bytes"


# --- text files as numbered lines -----------------------------------------------------------------
#
# UTF-8 with or without a byte-order mark; plain, gzip, bzip2 or xz.
#
# Lines end only at a line feed (a carriage return before it is removed): other Unicode line breaks
# occur inside real words. One line is in memory at a time.


def _open(path: Path) -> AbstractContextManager[Iterable[bytes]]:
    return open_regular(path)


_OPEN: dict[str, Callable[[Path], AbstractContextManager[Iterable[bytes]]]] = {
    ".gz": lambda path: gzip.open(require_regular(path), "rb"),
    ".bz2": lambda path: bz2.open(require_regular(path), "rb"),
    ".xz": lambda path: lzma.open(require_regular(path), "rb"),
}
COMPRESSED = tuple(_OPEN)
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the first bytes of such a file


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without line end)."""
    number = 0
    try:
        with _OPEN.get(path.suffix, _open)(path) as file:
            for number, raw in enumerate(file, start=1):
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        is_utf_16 = number == 1 and error.object[:2] in UTF_16
        raise WorkbenchError(
            f"not UTF-8 text (byte {error.object[error.start]:#04x} at column {error.start + 1}), "
            f"probably {'UTF-16' if is_utf_16 else 'Windows-1252'}.",
            code="file-encoding",
            where=f"{path}:{number}",
            remedy="Save the file as UTF-8: in Excel as the type CSV UTF-8, in a terminal with "
            f"iconv -f {'utf-16' if is_utf_16 else 'cp1252'} -t utf-8 IN > OUT",
        ) from None
    except (lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise unreadable(path, error, number) from None


def stem(path: Path) -> str:
    """Return the name of a file without its suffixes: `dev` for `dev.conllu.gz`."""
    return (path.with_suffix("") if path.suffix in COMPRESSED else path).stem


def unreadable(path: Path, error: Exception, line: int = 0) -> WorkbenchError:
    """Return the error for a file that is missing, forbidden or truncated."""
    return WorkbenchError(
        f"cannot be read: {reason_of(error)}.",
        code="file-not-found" if isinstance(error, FileNotFoundError) else "file-unreadable",
        where=f"{path}:{line}" if line else str(path),
        remedy="Check the path, its permissions, and that the file is complete.",
    )


@contextmanager
def folder_or_temporary(folder: Path | None) -> Iterator[Path]:
    """Yield this folder; if it is None, a temporary folder that is removed at the end."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="workbench-") as made:
        yield Path(made)
