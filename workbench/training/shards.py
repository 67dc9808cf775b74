"""One chunk of text becomes one shard on disk: ids, and where sentences and documents begin.

Runs in processes of its own, which import neither torch nor transformers. A shard is two arrays
named by the hash of the chunk; the ids are written last, so where they are the shard is whole. What
looks like a special token in the text is text. Sentences are told by rule: after a full stop and
its kin, before white space and what is no small letter, but not after a title or an initial. Costs
what the tokenizer costs: a second for 1 to 2 MB of text.
"""

import hashlib
import multiprocessing
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from workbench.core.files import written_whole

IDS, STARTS = ".ids.npy", ".starts.npy"
_LINES = 256  # tokenised at a time
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


def is_whole(folder: Path, name: str) -> bool:
    """Whether a shard is there."""
    return (folder / f"{name}{IDS}").is_file()


class Worker:
    """A tokenizer with what is asked of it, made once in each process."""

    def __init__(self, tokenizer: str, end: int | None, kind: str) -> None:
        self.tokenizer = Tokenizer.from_str(tokenizer)
        self.tokenizer.encode_special_tokens = True
        self.end_of_document = [] if end is None else [end]
        self.kind = np.dtype(kind)

    def write(self, chunk: Chunk, folder: Path) -> None:
        """Tokenise a chunk and write its shard."""
        ids, starts = self.encode(chunk)
        for ending, array in ((STARTS, starts), (IDS, ids)):
            path = folder / f"{chunk.name()}{ending}"
            with written_whole(path) as draft, draft.open("wb") as file:
                np.save(file, array)

    def encode(self, chunk: Chunk) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Ids, an end after each document; where sentences begin, and 1 at the last of a document.

        # [tokens], [sentences, 2]
        """
        # A line feed stands between the paragraphs of a document, and not after the last.
        following = [*chunk.lines[1:], ""]
        texts = [
            line if line is None or after is None else f"{line}\n"
            for line, after in zip(chunk.lines, following, strict=True)
        ]
        ids: list[NDArray[Any]] = [np.zeros(0, dtype=self.kind)]
        starts: list[list[int]] = []
        place = 0
        for first in range(0, len(texts), _LINES):
            some = texts[first : first + _LINES]
            found = iter(self._tokenized([text for text in some if text is not None]))
            for text in some:
                if text is None:
                    if starts:
                        starts[-1][1] = 1
                    tokens = np.array(self.end_of_document, dtype=self.kind)
                else:
                    encoding = next(found)
                    tokens = np.array(encoding.ids, dtype=self.kind)
                    begin = _sentence_starts(text, encoding.offsets)
                    starts += [[place + start, 0] for start in begin]
                ids.append(tokens)
                place += len(tokens)
        return np.concatenate(ids), np.array(starts, dtype=np.uint32).reshape(-1, 2)

    def _tokenized(self, texts: list[str]) -> list[Encoding]:
        return self.tokenizer.encode_batch(texts, add_special_tokens=False)


def sentence_ends(line: str) -> list[int]:
    """Where in a line a sentence ends and another follows, in characters."""
    ends = []
    for stop in _STOP.finditer(line):
        end = stop.end()
        follows = _FIRST.search(line, end)
        if follows and not follows[0].islower() and not _TITLE.search(line[max(0, end - 8) : end]):
            ends.append(end)
    return ends


def _sentence_starts(line: str, offsets: list[tuple[int, int]]) -> list[int]:
    """The first token of each sentence of a line that has any."""
    if not offsets:
        return []
    ends = sentence_ends(line)
    if not ends:
        return [0]
    firsts = np.fromiter((first for first, _ in offsets), dtype=np.int64, count=len(offsets))
    found = np.searchsorted(firsts, ends)
    return [0, *sorted({int(start) for start in found if 0 < start < len(offsets)})]


_worker: Worker | None = None


def prepare(tokenizer: str, end: int | None, kind: str) -> None:
    """Make this process ready to work; it ends with the one that started it, however that ends."""
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = Worker(tokenizer, end, kind)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def work(chunk: Chunk, folder: Path) -> None:
    """`Worker.write` of a process that was prepared."""
    if _worker is None:
        raise RuntimeError("prepare this process first")
    _worker.write(chunk, folder)


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
