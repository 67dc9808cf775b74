"""Tokenising a chunk of text into a shard on disk: token ids, and starts of sentences.

It runs in separate processes, which import neither torch nor transformers. A shard is two arrays
named by the hash of the chunk; the ids are written last, so a shard with ids is complete. Special
tokens written in the text count as text. A sentence ends after a full stop or a similar sign, if
white space and no lower-case letter follow, but not after a title or an initial. Costs: those of
the tokenizer, a second for 1 to 2 MB of text.
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

from workbench.core.files import atomic_write

IDS, STARTS = ".ids.npy", ".starts.npy"
_LINES = 256  # lines tokenised at a time
_STOP = re.compile(r"""[.!?…]+["'”’)\]]*(?=\s)|[。！？]+[」』”’）]*""")
_TITLE = re.compile(r"(?:^|[\s\"'“‘(\[])(?:[A-Z]|Mrs?|Ms|Drs?|St|Prof|Rev|Capt|Col|Gen|Lt|Sgt)\.$")
_FIRST = re.compile(r"""[^\s"'“‘(\[]""")


@dataclass
class Chunk:
    """A chunk of whole lines; None is the end of a document."""

    lines: list[str | None] = field(default_factory=list)
    size: int = 0  # bytes

    def name(self) -> str:
        """The hash of the text, with a line feed after each line and one more after documents."""
        text = "".join("\n" if line is None else f"{line}\n" for line in self.lines)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def is_complete(folder: Path, name: str) -> bool:
    """Whether a shard is complete."""
    return (folder / f"{name}{IDS}").is_file()


class Worker:
    """A tokenizer that writes shards, created once per process."""

    def __init__(self, tokenizer: str, end: int | None, dtype: str) -> None:
        self.tokenizer = Tokenizer.from_str(tokenizer)
        self.tokenizer.encode_special_tokens = True
        self.end_of_document = [] if end is None else [end]
        self.dtype = np.dtype(dtype)

    def write(self, chunk: Chunk, folder: Path) -> None:
        """Tokenise a chunk and write its shard."""
        ids, starts = self.encode(chunk)
        for ending, array in ((STARTS, starts), (IDS, ids)):
            path = folder / f"{chunk.name()}{ending}"
            with atomic_write(path) as draft, draft.open("wb") as file:
                np.save(file, array)

    def encode(self, chunk: Chunk) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Token ids with document ends; sentence starts, with 1 at the last of a document.

        # [tokens], [sentences, 2]
        """
        # A line feed stands between the paragraphs of a document, and not after the last.
        following = [*chunk.lines[1:], ""]
        texts = [
            line if line is None or after is None else f"{line}\n"
            for line, after in zip(chunk.lines, following, strict=True)
        ]
        ids: list[NDArray[Any]] = [np.zeros(0, dtype=self.dtype)]
        starts: list[list[int]] = []
        position = 0
        for first in range(0, len(texts), _LINES):
            batch = texts[first : first + _LINES]
            encodings = iter(self._tokenized([text for text in batch if text is not None]))
            for text in batch:
                if text is None:
                    if starts:
                        starts[-1][1] = 1
                    tokens = np.array(self.end_of_document, dtype=self.dtype)
                else:
                    encoding = next(encodings)
                    tokens = np.array(encoding.ids, dtype=self.dtype)
                    sentence_starts = _sentence_starts(text, encoding.offsets)
                    starts += [[position + start, 0] for start in sentence_starts]
                ids.append(tokens)
                position += len(tokens)
        return np.concatenate(ids), np.array(starts, dtype=np.uint32).reshape(-1, 2)

    def _tokenized(self, texts: list[str]) -> list[Encoding]:
        return self.tokenizer.encode_batch(texts, add_special_tokens=False)


def sentence_ends(line: str) -> list[int]:
    """Character positions in a line where a sentence ends and another follows."""
    ends = []
    for stop in _STOP.finditer(line):
        end = stop.end()
        follows = _FIRST.search(line, end)
        if follows and not follows[0].islower() and not _TITLE.search(line[max(0, end - 8) : end]):
            ends.append(end)
    return ends


def _sentence_starts(line: str, offsets: list[tuple[int, int]]) -> list[int]:
    """The index of the first token of each sentence of a line; empty for a line without tokens."""
    if not offsets:
        return []
    ends = sentence_ends(line)
    if not ends:
        return [0]
    firsts = np.fromiter((first for first, _ in offsets), dtype=np.int64, count=len(offsets))
    starts = np.searchsorted(firsts, ends)
    return [0, *sorted({int(start) for start in starts if 0 < start < len(offsets)})]


_worker: Worker | None = None


def prepare(tokenizer: str, end: int | None, dtype: str) -> None:
    """Prepare this process for `work`; it ends when its parent process ends."""
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _worker = Worker(tokenizer, end, dtype)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def work(chunk: Chunk, folder: Path) -> None:
    """Write the shard of a chunk in a prepared process."""
    if _worker is None:
        raise RuntimeError("call prepare in this process first")
    _worker.write(chunk, folder)


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
