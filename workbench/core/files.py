"""Files that are there whole or not at all.

`written_whole` hands out a temporary path beside the target and moves it into place only when the
block ends without an error; a killed or failed writer leaves the old file, or none. A link is
written through: it stays, and the file it leads to changes. `open_regular` and `parsed_json` read
what others may have put there: no pipe is waited for, and no depth of brackets overflows the stack.
Costs one rename.
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

DEEPEST = 100  # levels of objects and lists in a JSON file
# What the reader of an array or a table may raise for a file that is damaged, or is no file at all.
DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    MemoryError,  # a header that claims more than there is
    zipfile.BadZipFile,
    zlib.error,
)
FULL = {errno.ENOSPC, errno.EDQUOT}  # where the disk, or the user's share of it, is full
_FULL_SAID = re.compile(r"No space left|os error 28\b|[Dd]isk quota exceeded")  # by libraries


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A path to write to, renamed onto `target` at the end; its folder is made where missing."""
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


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read; a pipe, socket or device is an OSError at once, and not waited for."""
    return os.fdopen(_regular(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def open_to_add(path: Path, how: int = 0) -> int:
    """The descriptor of a file to add to, made where missing; no link, and no pipe to wait for."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return _regular(path, flags | how)


def _regular(path: Path, flags: int) -> int:
    try:
        handle = os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno != errno.ENXIO:  # of a socket, and of a pipe that nobody reads
            raise
        raise _no_regular_file(path) from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise _no_regular_file(path)


def _no_regular_file(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is no regular file", str(path))


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
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    if text.count("[") + text.count("{") <= DEEPEST:
        return found
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


def reason_of(error: Exception) -> str:
    """Why a file could not be read, in one line that does not repeat its path."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said).splitlines()[0].rstrip(".")


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
        raise unwritable(target, error) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise unwritable(target, OSError(f"there is {kind} in its place"))
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


def unwritable(
    target: Path,
    error: Exception,
    remedy: str = "Name a folder you may write to, on a disk with space left.",
    needed: int = 0,
) -> WorkbenchError:
    """The error for what cannot be written; of a full disk, which one, and how much it lacks.

    `needed` is how many bytes the file has as far as is known: of one that was being written, those
    it had by then.
    """
    reason = reason_of(error)
    if getattr(error, "errno", None) not in FULL and not _FULL_SAID.search(reason):
        return WorkbenchError(f"cannot be written: {reason}.", where=str(target), remedy=remedy)
    disk, free, size = _room(target)
    needs = f", and this file needs at least {_bytes(needed)}" if needed else ""
    return WorkbenchError(
        f"cannot be written: {reason}. The disk at {disk} has {_bytes(free)} free of "
        f"{_bytes(size)}{needs}.",
        where=str(target),
        remedy=f"Make room on {disk}, or work on another disk. {remedy}",
    )


def _room(target: Path) -> tuple[Path, int, int]:
    """Where the disk of a path is mounted, the bytes a user may still write there, and all of it.

    Where the disk cannot be asked, its folder and zeros.
    """
    place = Path(os.path.realpath(target))  # never raises, as `resolve` may
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        usage = shutil.disk_usage(place)
        while not place.is_mount() and place != place.parent:
            place = place.parent
    except OSError:
        return place, 0, 0
    return place, usage.free, usage.total


def _bytes(number: int) -> str:
    """A size for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number} bytes"


# --- text files as numbered lines -----------------------------------------------------------------
#
# Text files as numbered lines: UTF-8 with or without a byte-order mark, plain or gzip, bzip2, xz.
#
# Lines end at a line feed (a carriage return before it is dropped) and nowhere else: the other
# characters Unicode calls line breaks occur inside real words. One line is held at a time.


def _open(path: Path) -> AbstractContextManager[Iterable[bytes]]:
    return open_regular(path)


_OPEN: dict[str, Callable[[Path], AbstractContextManager[Iterable[bytes]]]] = {
    ".gz": lambda path: gzip.open(require_regular(path), "rb"),
    ".bz2": lambda path: bz2.open(require_regular(path), "rb"),
    ".xz": lambda path: lzma.open(require_regular(path), "rb"),
}
COMPRESSED = tuple(_OPEN)
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # how such a file begins


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its end)."""
    number = 0
    try:
        with _OPEN.get(path.suffix, _open)(path) as file:
            for number, raw in enumerate(file, start=1):
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise WorkbenchError(
            f"not UTF-8 text (byte {error.object[error.start]:#04x} at column {error.start + 1}).",
            where=f"{path}:{number}",
            remedy="Save the file as UTF-8, for example: "
            f"iconv -f {'utf-16' if error.object[:2] in UTF_16 else 'latin1'} -t utf-8 IN > OUT",
        ) from None
    except (lzma.LZMAError, zlib.error, EOFError, OSError) as error:
        raise unreadable(path, error, number) from None


def stem(path: Path) -> str:
    """A file's name without its endings: `dev` for `dev.conllu.gz`."""
    return (path.with_suffix("") if path.suffix in COMPRESSED else path).stem


def unreadable(path: Path, error: Exception, line: int = 0) -> WorkbenchError:
    """The error for a file that is missing, forbidden or cut off."""
    return WorkbenchError(
        f"cannot be read: {reason_of(error)}.",
        where=f"{path}:{line}" if line else str(path),
        remedy="Check the path, its permissions, and that the file was copied whole.",
    )


@contextmanager
def folder_or_temporary(folder: Path | None) -> Iterator[Path]:
    """This folder, kept as it is; where none is given, one that goes away at the end."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="workbench-") as made:
        yield Path(made)
