"""Static vectors as others write them: word2vec text, GloVe text, word2vec binary, plain or gzip.

One pass, the words in their order and the vectors in one growing buffer. Costs 4 bytes a number in
memory; at 300 numbers a word some 90 microseconds a word of text (three minutes for two million),
12 of binary. Of a word that comes twice the first vector is kept.
"""

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from workbench.errors import WorkbenchError
from workbench.files import open_regular, require_regular

HEADER = re.compile(rb"(\d{1,18}) (\d{1,6})\s*")  # how many words, how wide
LONGEST_WORD = 10_000  # bytes, in a binary file: more, and it is no such file
_FLOAT = 4  # bytes
_TEXT_REMEDY = "A line is a word and its numbers, between single spaces, as many in every line."

Record = tuple[str, NDArray[np.float32], str]  # word, its vector, where it stands


def read_table(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Words and their vectors; a name that ends in `.bin` or `.bin.gz` is read as binary.

    # [words], [words, width]
    """
    binary = path.name.removesuffix(".gz").endswith(".bin")
    numbers = bytearray()
    words: dict[str, None] = {}
    try:
        with _open(path) as file:
            for word, vector, where in (_binary if binary else _text)(file, path):
                if not np.isfinite(vector).all():
                    raise _not_finite(word, where)
                if word not in words:
                    words[word] = None
                    numbers += vector.tobytes()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkbenchError(
            f"cannot be read: {reason}.",
            where=str(path),
            remedy="Check the path, its permissions, and that the file was copied whole.",
        ) from None
    if not words:
        raise WorkbenchError("holds no vectors.", where=str(path), remedy=_TEXT_REMEDY)
    return list(words), np.frombuffer(numbers, dtype=np.float32).reshape(len(words), -1)


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(require_regular(path), "rb"))
    return open_regular(path)


def _not_finite(word: str, where: str) -> WorkbenchError:
    return WorkbenchError(
        f"the vector of {word!r} is not finite in 32 bits.",
        where=where,
        remedy="Take the word out, or write the file anew; is it damaged, or not word2vec's form?",
    )


def _text(file: BinaryIO, path: Path) -> Iterator[Record]:
    promised, width, found, number = -1, 0, 0, 0
    for number, raw in enumerate(file, start=1):
        where = f"{path}:{number}"
        raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        if number == 1 and (header := HEADER.fullmatch(raw)):
            promised, width = int(header[1]), int(header[2])
            continue
        line = _decoded(raw, where)
        if not line:
            continue
        width = width or line.count(" ")
        # From the right: some of GloVe's words have spaces in them.
        word, *fields = line.rsplit(" ", width)
        yield word, _numbers(word, fields, width, where), where
        found += 1
    if promised not in (-1, found):
        raise WorkbenchError(
            f"its first line promises {promised} words, and there are {found}.",
            where=f"{path}:{number}",
            remedy="Check that the file was copied whole.",
        )


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n ")
    except UnicodeDecodeError:
        raise WorkbenchError(
            "not UTF-8 text.",
            where=where,
            remedy="Let the name of a word2vec binary file end in .bin; save text as UTF-8.",
        ) from None


def _numbers(word: str, fields: list[str], width: int, where: str) -> NDArray[np.float32]:
    try:
        values = np.array([float(field) for field in fields])
    except ValueError as error:
        reason = f"not a number: {str(error).rpartition(': ')[2]}."
        raise WorkbenchError(reason, where=where, remedy=_TEXT_REMEDY) from None
    if not width or len(values) < width:
        reason = f"{len(values)} numbers after {word!r}, expected {width or 'some'}."
        raise WorkbenchError(reason, where=where, remedy=_TEXT_REMEDY)
    if " " in word and _is_number(word.rpartition(" ")[2]):
        reason = f"more than {width} numbers."
        raise WorkbenchError(reason, where=where, remedy=_TEXT_REMEDY)
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _binary(file: BinaryIO, path: Path) -> Iterator[Record]:
    """Bytes that are no UTF-8 become U+FFFD: word2vec cuts long words wherever they are long."""
    header = HEADER.fullmatch(file.readline(LONGEST_WORD))
    if not header or not int(header[2]):
        raise WorkbenchError(
            "not a word2vec binary file: it does not begin with two counts.",
            where=str(path),
            remedy="Only word2vec's own .bin is read; text needs a name that ends otherwise.",
        )
    promised, size = int(header[1]), _FLOAT * int(header[2])
    for number in range(1, promised + 1):
        where = f"{path}, word {number} of {promised}"
        word = _binary_word(file, where)
        values = file.read(size)
        if len(values) < size:
            raise _cut_off(where)
        yield word, np.frombuffer(values, dtype="<f4").astype(np.float32), where
    if file.read().strip(b"\n"):
        raise WorkbenchError(
            f"goes on after the {promised} words that its first line promises.",
            where=str(path),
            remedy="Write it anew; its first line or its width is wrong.",
        )


def _binary_word(file: BinaryIO, where: str) -> str:
    """Up to a space; some writers end the vector before with a line feed."""
    letters = bytearray()
    while (letter := file.read(1)) != b" ":
        letters += letter
        if not letter or len(letters) > LONGEST_WORD:
            raise _cut_off(where)
    word = letters.removeprefix(b"\n").decode("utf-8", "replace")
    if "\n" in word:
        raise _cut_off(where)
    return word


def _cut_off(where: str) -> WorkbenchError:
    return WorkbenchError(
        "the file is cut off or damaged here.",
        where=where,
        remedy="Check that it was copied whole, and that it is word2vec's binary form.",
    )
