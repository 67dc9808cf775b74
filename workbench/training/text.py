"""Text on its way into the store: chunks of whole lines, and where sentences begin.

A line is a paragraph, a blank line ends a document. Chunks are cut by size alone, always at the
same places, so that work done on one is found again. Sentences are told by rule: after a full stop
and its kin, before white space and what is no small letter, but not after a title or an initial.
Holds one chunk, or one line where that is longer.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from workbench.lines import numbered_lines

CHUNK = 4 << 20  # bytes of text
_STOP = re.compile(r"""[.!?…]+["'”’)\]]*(?=\s)|[。！？]+[」』”’）]*""")
_TITLE = re.compile(r"(?:^|[\s\"'“‘(\[])(?:[A-Z]|Mrs?|Ms|Drs?|St|Prof|Rev|Capt|Col|Gen|Lt|Sgt)\.$")
_FIRST = re.compile(r"""[^\s"'“‘(\[]""")


@dataclass
class Chunk:
    """Whole lines; None is the end of a document."""

    lines: list[str | None] = field(default_factory=list)
    size: int = 0  # bytes

    def name(self) -> str:
        """The hash of the text, a line feed after each line and one more after documents."""
        text = "".join("\n" if line is None else f"{line}\n" for line in self.lines)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def chunks(lines: Iterable[str], size: int = CHUNK) -> Iterator[Chunk]:
    """Lines in chunks of about `size` bytes; no chunk begins with the end of a document."""
    chunk, inside = Chunk(), False
    for raw in lines:
        line = raw.rstrip()
        if not line:
            if inside:
                chunk.lines.append(None)
                inside = False
            continue
        if chunk.size >= size:
            yield chunk
            chunk = Chunk()
        chunk.lines.append(line)
        chunk.size += len(line.encode("utf-8", "surrogatepass")) + 1
        inside = True
    if inside:
        chunk.lines.append(None)
    if chunk.lines:
        yield chunk


def lines_of(source: Path | Iterable[str]) -> Iterator[str]:
    """The lines of a file (plain, .gz, .bz2, .xz), or those that are given."""
    if isinstance(source, Path):
        return (line for _, line in numbered_lines(source))
    return iter(source)


def sentence_ends(line: str) -> list[int]:
    """Where in a line a sentence ends and another follows, in characters."""
    ends = []
    for stop in _STOP.finditer(line):
        end = stop.end()
        follows = _FIRST.search(line, end)
        if follows and not follows[0].islower() and not _TITLE.search(line[max(0, end - 8) : end]):
            ends.append(end)
    return ends
