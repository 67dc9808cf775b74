"""All faults of a corpus file with their lines, not only the first, so that users can correct them.

The reader of the format reads the file. If that fails, the file is read again in chunks, each as a
file of its own: a faulty part is noted and removed until the chunk can be read. So this module
knows nothing about what a format allows. For formats without lines, and for text, only the first
fault is reported; of lines that are not UTF-8, the first. Costs: one reading of a correct file; two
readings of a faulty one, and one reading of a chunk per fault.
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
from workbench.corpora.readers.tables import QUOTED_LINES

MOST = 50  # maximum number of faults reported
CHUNK = 500  # sentences or rows per chunk of a faulty file


class Fault(NamedTuple):
    """A fault: its line (0 for the whole file), what is wrong, the remedy, and the error's code."""

    line: int
    what: str
    remedy: str
    code: str


@dataclass
class _Piece:
    """Lines that are valid or faulty together: a sentence, or a row."""

    first: int  # line number of its first line
    lines: list[bytes]
    blanked: set[int] = field(default_factory=set)


def faults(path: Path, most: int = MOST, **options: Any) -> list[Fault]:
    """At most `most` faults of a file, ordered by line; `options` are those of `read`."""
    first = _first_fault(path, options)
    if first is None:
        return []
    pieces = _PIECES.get(path.suffix.lower())
    if pieces is None or first.code == QUOTED_LINES:
        return [first]
    faults: list[Fault] = []
    header, parts = pieces(path)
    chunk: list[_Piece] = []
    for piece in parts:
        chunk.append(piece)
        if len(chunk) == CHUNK:
            faults += _faults_of_chunk(path, header, chunk, options, most - len(faults))
            chunk = []
        if len(faults) >= most or any(not fault.line for fault in faults):
            break
    else:
        faults += _faults_of_chunk(path, header, chunk, options, most - len(faults))
    found = sorted(dict.fromkeys(faults))[:most] or [first]
    encoding = [fault for fault in found if fault.code == "file-encoding"]  # all for one reason
    return [fault for fault in found if fault not in encoding[1:]]


def _first_fault(path: Path, options: dict[str, Any]) -> Fault | None:
    """The error of the reader, if any. Text is only decoded, because a pipeline would cost time."""
    try:
        for _ in numbered_lines(path) if path.suffix.lower() == ".txt" else read(path, **options):
            pass
    except WorkbenchError as error:
        return Fault(_line(error), error.what, error.remedy, error.code)
    return None


def _line(error: WorkbenchError) -> int:
    last = error.where.rpartition(":")[2]
    return int(last) if last.isdecimal() and last.isascii() else 0


def _faults_of_chunk(
    path: Path, header: list[bytes], pieces: list[_Piece], options: dict[str, Any], most: int
) -> list[Fault]:
    faults: list[Fault] = []
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / path.name
        while pieces and len(faults) < most:
            sources = _write(part, header, pieces)
            fault = _first_fault(part, options)
            if fault is None:
                break
            if not 0 < fault.line <= len(sources):
                faults.append(fault._replace(line=0, what=fault.what.replace(folder, "")))
                break
            source = sources[fault.line - 1]
            if source is None:  # a line of the header
                faults.append(fault)
                break
            piece, line = source
            faults.append(fault._replace(line=piece.first + line))
            if not _blank_word(part, piece, line):
                pieces.remove(piece)
    return faults


def _write(
    part: Path, header: list[bytes], pieces: list[_Piece]
) -> list[tuple[_Piece, int] | None]:
    """Write a chunk as a file; return the source (piece, line within it) of each of its lines."""
    sources: list[tuple[_Piece, int] | None] = [None] * len(header)
    with part.open("wb") as file:
        file.writelines(header)
        for piece in pieces:
            file.writelines(piece.lines)
            sources += [(piece, line) for line in range(len(piece.lines))]
    return sources


def _blank_word(path: Path, piece: _Piece, line: int) -> bool:
    """Blank a word of a CoNLL-U sentence, so that faults of its other words are found too."""
    row = piece.lines[line]
    word_id = row.split(b"\t")[0]
    before = sum(not earlier.startswith(b"#") for earlier in piece.lines[:line])
    in_order = word_id == str(before + 1).encode()
    if path.suffix.lower() != ".conllu" or line in piece.blanked or not in_order:
        return False
    piece.blanked.add(line)
    piece.lines[line] = word_id + b"\tx" + b"\t_" * 8 + b"\n"
    return True


# --- pieces ---------------------------------------------------------------------------------------


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            yield number, line if line.endswith(b"\n") else line + b"\n"


def _sentences(path: Path) -> tuple[list[bytes], Iterator[_Piece]]:
    """Sentences between empty lines; entity brackets, which can cross sentences, are left out."""

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
    """The lines up to and including the first that is not blank."""
    header = []
    for _, line in lines:
        header.append(line)
        if line.strip():
            break
    return header


def _records(path: Path) -> tuple[list[bytes], Iterator[_Piece]]:
    """Rows of a CSV, which may span lines; where quotes are faulty, one line is one piece."""
    lines = _numbered(path)
    parts = _csv_rows(lines)
    header: list[bytes] = []
    for part in parts:
        header += part.lines
        if any(line.strip() for line in part.lines):
            break
    return header, parts


def _csv_rows(lines: Iterator[tuple[int, bytes]]) -> Iterator[_Piece]:
    pending: deque[tuple[int, bytes]] = deque()  # lines to read again

    def next_lines() -> Iterator[str]:
        while True:
            numbered = pending.popleft() if pending else next(lines, None)
            if numbered is None:
                return
            used.append(numbered)
            yield numbered[1].decode("utf-8", "replace")

    while True:
        used: list[tuple[int, bytes]] = []
        try:
            next(csv.reader(next_lines(), strict=True))
        except StopIteration:
            return
        except csv.Error:
            pending.extendleft(reversed(used[1:]))
            del used[1:]
        yield _Piece(used[0][0], [line for _, line in used])


def _objects(path: Path) -> tuple[list[bytes], Iterator[_Piece]]:
    """Lines of JSON, after an artificial first line that decides between edges and table."""
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
    first = [json.dumps(header).encode() + b"\n"] if header else []
    lines = ((number, line.removeprefix(b"\xef\xbb\xbf")) for number, line in _numbered(path))
    return first, (_Piece(number, [line]) for number, line in lines if line.strip())


_PIECES: dict[str, Callable[[Path], tuple[list[bytes], Iterator[_Piece]]]] = {
    ".conllu": _sentences,
    ".conll": _sentences,
    ".bio": _sentences,
    ".tsv": _rows,
    ".csv": _records,
    ".jsonl": _objects,
    ".json": _objects,
}
