"""Text of any size, tokenised once into arrays on disk that are mapped, not read.

Text is cut into chunks, and each becomes a shard named by its content, beside others of the same
tokenizer; a manifest, written last, lists those of one text in order. So the same text is found
again under any name, text that grew is tokenised from where it grew, and a killed writer goes on
where it was. Several processes work at once and the result is the same bytes. Holds three chunks of
4 MiB a process. Two bytes a token on disk (four where there are more than 65,536 kinds), and 8 a
sentence; finding a store that is there costs reading the text once.
"""

import copy
import hashlib
import json
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    numbered_lines,
    parsed_json,
    read_regular,
    require_regular,
    written_whole,
)
from workbench.models.tokenization import require_fast
from workbench.training.shards import IDS, STARTS, Chunk, Worker, is_whole, prepare, work
from workbench.training.vocabulary import vocabulary_of

# --- text on its way into the store: chunks of whole lines ----------------------------------------
#
# A line is a paragraph, a blank line ends a document. Chunks are cut by size alone, always at the
# same places, so that work done on one is found again. Holds one chunk, or one line where that is
# longer.

CHUNK = 4 << 20  # bytes of text


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


# --- the store: memory-mapped shards --------------------------------------------------------------

FORMAT = "workbench-tokens-1"  # another one, whenever the same text would give other arrays
_FEW = 2**16  # kinds of tokens that two bytes can tell apart


@dataclass(frozen=True)
class Manifest:
    """What a store holds and what it was made from."""

    key: str
    tokenizer: str  # hash
    shards: tuple[str, ...]  # in the text's order
    tokens: int
    sentences: int
    documents: int
    text_bytes: int  # without blank lines and the space at the end of lines
    format: str = FORMAT


@dataclass(frozen=True)
class Store:
    """An open store: one long row of tokens, mapped from its shards."""

    folder: Path
    manifest: Manifest

    @cached_property
    def _ids(self) -> list[NDArray[Any]]:
        return [_mapped(self.folder / f"{name}{IDS}") for name in self.manifest.shards]

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Where each shard begins, and where all end.  # [shards + 1]"""
        return np.cumsum([0, *map(len, self._ids)], dtype=np.int64)

    @cached_property
    def _starts(self) -> list[NDArray[np.uint32]]:
        """Of each shard, where sentences begin, and whether a document ends with them."""
        return [_mapped(self.folder / f"{name}{STARTS}") for name in self.manifest.shards]

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """How many sentences there are before each shard, and in all.  # [shards + 1]"""
        return np.cumsum([0, *map(len, self._starts)], dtype=np.int64)

    @cached_property
    def documents(self) -> NDArray[np.int64]:
        """The number of each document's first sentence.  # [documents]"""
        last = [
            np.flatnonzero(starts[:, 1]) + before
            for starts, before in zip(self._starts, self._counts[:-1], strict=True)
        ]
        ends = np.concatenate([np.zeros(0, dtype=np.int64), *last])
        return np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends

    def __len__(self) -> int:
        return int(self._places[-1])

    def read(self, first: int, last: int) -> NDArray[np.int64]:
        """Tokens in a row, across shards.  # [last - first]"""
        if not 0 <= first <= last <= len(self):
            raise IndexError(f"tokens {first} to {last} of {len(self)}")
        at = int(np.searchsorted(self._places, first, side="right")) - 1
        parts: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)]
        while first < last:
            start, end = self._places[at], self._places[at + 1]
            stop = min(last, int(end))
            parts.append(self._ids[at][first - start : stop - start])
            first, at = stop, at + 1
        return np.concatenate(parts).astype(np.int64)

    def sentence_starts(self, first: int, last: int) -> NDArray[np.int64]:
        """Where sentences begin among these tokens.  # [sentences]"""
        low, high = np.searchsorted(self._places, [first, last], side="right") - 1
        found = []
        for shard in range(low, min(high, len(self._ids) - 1) + 1):
            starts, place = self._starts[shard][:, 0], int(self._places[shard])
            some = np.searchsorted(starts, [max(0, first - place), max(0, last - place)])
            found.append(starts[slice(*some)].astype(np.int64) + place)
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def sentence(self, number: int) -> NDArray[np.int64]:
        """The tokens of one sentence, what ends a document after it included.  # [tokens]"""
        shard = int(np.searchsorted(self._counts, number, side="right")) - 1
        starts, place = self._starts[shard], int(self._places[shard])
        row = number - int(self._counts[shard])
        end = starts[row + 1, 0] if row + 1 < len(starts) else len(self._ids[shard])
        return self.read(place + int(starts[row, 0]), place + int(end))

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every sentence.  # [sentences]"""
        found = [
            np.diff(starts[:, 0].astype(np.int64), append=len(ids))
            for starts, ids in zip(self._starts, self._ids, strict=True)
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def tokenize_text(
    source: Path | Iterable[str],
    tokenizer: PreTrainedTokenizerBase,
    home: Path,
    *,
    processes: int | None = None,
    chunk: int = CHUNK,
    progress: Callable[[int], object] | None = None,
) -> Store:
    """The store of a text file, or of lines, from disk where it is already there.

    `processes` is one for each core unless told; `progress` is called with the bytes of text done.
    """
    described = tokenizer_text(tokenizer)
    vocabulary = vocabulary_of(tokenizer)
    kind = "<u2" if vocabulary.size <= _FEW else "<u4"
    digest = _hash([FORMAT, described, str(vocabulary.end), kind])
    folder = home / f"tokens-{digest}"
    setup = (described, vocabulary.end, kind)
    names, size = [], 0
    where = str(source) if isinstance(source, Path) else "text"
    for name, bytes_of_text in _shards(
        chunks(lines_of(source), chunk), folder, setup, processes or os.cpu_count() or 1
    ):
        names.append(name)
        size += bytes_of_text
        if progress:
            progress(size)
    manifest = _described(folder, names, digest, size)
    if not manifest.tokens:
        raise WorkbenchError("there is no text.", where=where, remedy="Give a file with words.")
    with written_whole(folder / f"{manifest.key}.json") as draft:
        draft.write_text(json.dumps(asdict(manifest), indent=1) + "\n", "utf-8")
    return Store(folder, manifest)


def open_store(manifest: Path) -> Store:
    """Open a store by its manifest, without the text it was made from."""
    try:
        raw = parsed_json(read_regular(manifest))
        read = Manifest(**{**raw, "shards": tuple(raw["shards"])})
        store = Store(manifest.parent, read)
        complaint = "" if read.format == FORMAT else f"its format is {read.format!r}"
        if not complaint and len(store) != read.tokens:
            complaint = f"its shards hold {len(store):,} tokens, not {read.tokens:,}"
    except (OSError, ValueError, TypeError, KeyError) as error:
        complaint = str(error)
    if complaint:
        raise WorkbenchError(
            f"not a sound store of tokens: {complaint}.",
            where=str(manifest),
            remedy="Delete the folder, and tokenise the text again.",
        )
    return store


def tokenizer_text(tokenizer: PreTrainedTokenizerBase) -> str:
    """All that decides how text is cut, whatever lengths the tokenizer was last asked for."""
    require_fast(tokenizer)
    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    backend.no_truncation()
    backend.no_padding()
    return str(backend.to_str())


def _shards(
    parts: Iterator[Chunk], folder: Path, setup: tuple[str, int | None, str], processes: int
) -> Iterator[tuple[str, int]]:
    """The name of each chunk's shard once it is on disk, in order, and the bytes of its text.

    Processes are started only where a second chunk is missing; the first is done here.
    """
    pool: ProcessPoolExecutor | None = None
    worker: Worker | None = None
    waiting: deque[tuple[str, int, Future[None] | None]] = deque()

    def first_done() -> tuple[str, int]:
        name, size, future = waiting.popleft()
        if future:
            future.result()
        return name, size

    try:
        for part in parts:
            name, future = part.name(), None
            if not is_whole(folder, name):
                if worker is None or processes == 1:
                    worker = worker or Worker(*setup)
                    worker.write(part, folder)
                else:
                    pool = pool or _pool(processes, setup)
                    future = pool.submit(work, part, folder)
            waiting.append((name, part.size, future))
            if len(waiting) > 2 * processes:
                yield first_done()
        while waiting:
            yield first_done()
    except BrokenProcessPool:
        raise WorkbenchError(
            "a process that tokenised text was ended from outside, perhaps for want of memory.",
            remedy="Run it again, with fewer processes; what is done is kept.",
        ) from None
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)


def _pool(processes: int, setup: tuple[str, int | None, str]) -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, spawn, prepare, setup)


def _described(folder: Path, names: list[str], tokenizer: str, size: int) -> Manifest:
    tokens = sentences = documents = 0
    for name in names:
        starts = _mapped(folder / f"{name}{STARTS}")
        tokens += len(_mapped(folder / f"{name}{IDS}"))
        sentences += len(starts)
        documents += int(starts[:, 1].sum())
    key = _hash([tokenizer, *names])
    return Manifest(key, tokenizer, tuple(names), tokens, sentences, documents, size)


def _mapped(path: Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(require_regular(path), mmap_mode="r")
    except (OSError, ValueError) as error:
        raise WorkbenchError(
            f"not a sound shard: {error}.",
            where=str(path),
            remedy="Delete the file, and tokenise the text again.",
        ) from None
    return array


def _hash(parts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
