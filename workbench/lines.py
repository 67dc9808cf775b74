"""Text files as numbered lines: UTF-8 with or without a byte-order mark, plain or gzip, bzip2, xz.

Lines end at a line feed (a carriage return before it is dropped) and nowhere else: the other
characters Unicode calls line breaks occur inside real words. One line is held at a time.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.files import open_regular, reason_of, require_regular


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
