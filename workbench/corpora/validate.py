"""Every fault of a corpus file by its line, not only the first, for whoever has to mend them.

The file is read by its own reader; only where that fails is it read again in chunks, each as a file
of its own, and what is wrong is taken out and noted until a chunk reads clean. So nothing is known
here of what a format allows. A good file costs one reading, a bad one two, and a chunk's reading
for every fault. Of formats without lines, and of text, the first fault is told.
"""

import csv
import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines, open_regular
from workbench.corpora import read

MOST = 50  # faults told
CHUNK = 500  # sentences or rows read at once, where there are faults


class Fault(NamedTuple):
    """What is wrong on which line; line 0 where it is of the whole file."""

    line: int
    what: str
    remedy: str


@dataclass
class _Piece:
    """Lines that stand or fall together: a sentence, or a row."""

    first: int  # the number of its first line
    lines: list[bytes]
    mended: set[int] = field(default_factory=set)


def faults(path: Path, most: int = MOST, **options: Any) -> list[Fault]:
    """What is wrong with a file, by line, at most so many; `options` are those of `read`."""
    first = _first(path, options)
    if first is None:
        return []
    pieces = _PIECES.get(path.suffix.lower())
    if pieces is None:
        return [first]
    found: list[Fault] = []
    header, rest = pieces(path)
    chunk: list[_Piece] = []
    for piece in rest:
        chunk.append(piece)
        if len(chunk) == CHUNK:
            found += _of_chunk(path, header, chunk, options, most - len(found))
            chunk = []
        if len(found) >= most or any(not fault.line for fault in found):
            break
    else:
        found += _of_chunk(path, header, chunk, options, most - len(found))
    return sorted(dict.fromkeys(found))[:most] or [first]


def _first(path: Path, options: dict[str, Any]) -> Fault | None:
    """The fault that the reader ends with, if any; of text, what would cost a pipeline is not."""
    try:
        for _ in numbered_lines(path) if path.suffix.lower() == ".txt" else read(path, **options):
            pass
    except WorkbenchError as error:
        return Fault(_line(error), error.what, error.remedy)
    return None


def _line(error: WorkbenchError) -> int:
    last = error.where.rpartition(":")[2]
    return int(last) if last.isdecimal() and last.isascii() else 0


def _of_chunk(
    path: Path, header: list[bytes], pieces: list[_Piece], options: dict[str, Any], most: int
) -> list[Fault]:
    found: list[Fault] = []
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / path.name
        while pieces and len(found) < most:
            places = _write(part, header, pieces)
            fault = _first(part, options)
            if fault is None:
                break
            if not 0 < fault.line <= len(places):
                found.append(Fault(0, fault.what.replace(folder, ""), fault.remedy))
                break
            place = places[fault.line - 1]
            if place is None:  # the header's own
                found.append(fault)
                break
            piece, line = place
            found.append(Fault(piece.first + line, fault.what, fault.remedy))
            if not _mend(part, piece, line):
                pieces.remove(piece)
    return found


def _write(
    part: Path, header: list[bytes], pieces: list[_Piece]
) -> list[tuple[_Piece, int] | None]:
    """Write a chunk as a file, and tell where each of its lines comes from."""
    places: list[tuple[_Piece, int] | None] = [None] * len(header)
    with part.open("wb") as file:
        file.writelines(header)
        for piece in pieces:
            file.writelines(piece.lines)
            places += [(piece, line) for line in range(len(piece.lines))]
    return places


def _mend(path: Path, piece: _Piece, line: int) -> bool:
    """Blank a word of a CoNLL-U sentence, so that what is wrong with the others shows as well."""
    row = piece.lines[line]
    number = row.split(b"\t")[0]
    before = sum(not kept.startswith(b"#") for kept in piece.lines[:line])
    in_order = number == str(before + 1).encode()
    if path.suffix.lower() != ".conllu" or line in piece.mended or not in_order:
        return False
    piece.mended.add(line)
    piece.lines[line] = number + b"\tx" + b"\t_" * 8 + b"\n"
    return True


# --- pieces ---------------------------------------------------------------------------------------


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            yield number, line if line.endswith(b"\n") else line + b"\n"


def _sentences(path: Path) -> tuple[list[bytes], Iterator[_Piece]]:
    """Sentences between empty lines; brackets, which go on from one to the next, are left out."""

    def pieces() -> Iterator[_Piece]:
        lines: list[bytes] = []
        first = 1
        for number, line in _numbered(path):
            if line.startswith(b"# global.Entity"):
                line = b"#\n"
            lines.append(line.replace(b"Entity=", b"Etc="))
            if not line.strip(b" \r\n"):
                yield _Piece(first, lines)
                lines, first = [], number + 1
        if lines:
            yield _Piece(first, [*lines, b"\n"])

    return [], pieces()


def _rows(path: Path) -> tuple[list[bytes], Iterator[_Piece]]:
    """Rows of a TSV under its header."""
    lines = _numbered(path)
    header = _header(lines)
    return header, (_Piece(number, [line]) for number, line in lines if line.strip(b"\r\n"))


def _header(lines: Iterator[tuple[int, bytes]]) -> list[bytes]:
    """The lines up to the first with anything in it."""
    header = []
    for _, line in lines:
        header.append(line)
        if line.strip():
            break
    return header


def _records(path: Path) -> tuple[list[bytes], Iterator[_Piece]]:
    """Rows of a CSV, which may run over lines; where quotes go wrong, a line is a piece."""
    lines = _numbered(path)
    parts = _divided(lines)
    header: list[bytes] = []
    for part in parts:
        header += part.lines
        if any(line.strip() for line in part.lines):
            break
    return header, parts


def _divided(lines: Iterator[tuple[int, bytes]]) -> Iterator[_Piece]:
    held: deque[tuple[int, bytes]] = deque()  # lines to be looked at once more

    def taken() -> Iterator[str]:
        while True:
            numbered = held.popleft() if held else next(lines, None)
            if numbered is None:
                return
            used.append(numbered)
            yield numbered[1].decode("utf-8", "replace")

    while True:
        used: list[tuple[int, bytes]] = []
        try:
            next(csv.reader(taken(), strict=True))
        except StopIteration:
            return
        except csv.Error:
            held.extendleft(reversed(used[1:]))
            del used[1:]
        yield _Piece(used[0][0], [line for _, line in used])


def _objects(path: Path) -> tuple[list[bytes], Iterator[_Piece]]:
    """Lines of JSON, under one made up that tells what all of them are."""
    keys: dict[str, str] = {}
    kind = ""
    for _, line in _numbered(path):
        try:
            entry = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            kind = kind or ("edges" if "targets" in entry else "table")
            if kind == "edges":
                break
            keys |= {key: "x" for key, value in entry.items() if isinstance(value, str)}
    header = {"text": "x", "targets": []} if kind == "edges" else keys
    made = [json.dumps(header).encode() + b"\n"] if header else []
    lines = ((number, line.removeprefix(b"\xef\xbb\xbf")) for number, line in _numbered(path))
    return made, (_Piece(number, [line]) for number, line in lines if line.strip())


_PIECES: dict[str, Callable[[Path], tuple[list[bytes], Iterator[_Piece]]]] = {
    ".conllu": _sentences,
    ".conll": _sentences,
    ".bio": _sentences,
    ".tsv": _rows,
    ".csv": _records,
    ".jsonl": _objects,
    ".json": _objects,
}
