"""Token store: text of any size, tokenised once into memory-mapped arrays on disk.

Text is cut into chunks. Each becomes a shard named by its content, in a folder per tokenizer; a
manifest, written last, lists the shards of one text in order. So the same text is found again under
any name, text that grew is tokenised from where it grew, and a killed writer continues where it
stopped. Several processes work in parallel and give the same bytes. Costs: memory for three chunks
of 4 MiB per process; on disk two bytes per token (four for vocabularies above 65,536) and 8 per
sentence; finding an existing store takes reading the text once.
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

from workbench.analyses.training.shards import (
    IDS,
    STARTS,
    Chunk,
    Worker,
    is_complete,
    prepare,
    work,
)
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines, read_json, require_regular, write_atomically
from workbench.models.tokenization import require_fast

# --- chunks of whole lines ------------------------------------------------------------------------
#
# A line is a paragraph; a blank line ends a document. Chunks are cut by size alone, always at the
# same lines, so that finished chunks are found again. Costs: memory for one chunk, or for one line
# if that is longer.

CHUNK = 4 << 20  # bytes of text


def chunks(lines: Iterable[str], size: int = CHUNK) -> Iterator[Chunk]:
    """The lines in chunks of about `size` bytes; no chunk starts with a document end."""
    chunk, in_document = Chunk(), False
    for raw_line in lines:
        line = raw_line.rstrip()
        if not line:
            if in_document:
                chunk.lines.append(None)
                in_document = False
            continue
        if chunk.size >= size:
            yield chunk
            chunk = Chunk()
        chunk.lines.append(line)
        chunk.size += len(line.encode("utf-8", "surrogatepass")) + 1
        in_document = True
    if in_document:
        chunk.lines.append(None)
    if chunk.lines:
        yield chunk


def lines_of(source: Path | Iterable[str]) -> Iterator[str]:
    """The lines of a file (plain, .gz, .bz2, .xz), or of an iterable."""
    if isinstance(source, Path):
        return (line for _, line in numbered_lines(source))
    return iter(source)


# --- the store: memory-mapped shards --------------------------------------------------------------

FORMAT = "workbench-tokens-1"  # changes whenever the same text would give other arrays
_TWO_BYTES = 2**16  # vocabulary sizes that fit in two bytes


@dataclass(frozen=True)
class Manifest:
    """The contents of a store: its tokenizer, shards and counts."""

    key: str
    tokenizer: str  # hash
    shards: tuple[str, ...]  # in the text's order
    tokens: int
    sentences: int
    documents: int
    text_bytes: int  # without blank lines and trailing space
    format: str = FORMAT


@dataclass(frozen=True)
class Store:
    """An open store: one long sequence of tokens, memory-mapped from its shards."""

    folder: Path
    manifest: Manifest

    @cached_property
    def _ids(self) -> list[NDArray[Any]]:
        return [_mapped(self.folder / f"{name}{IDS}") for name in self.manifest.shards]

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        """Offset of each shard in tokens, and the total.  # [shards + 1]"""
        return np.cumsum([0, *map(len, self._ids)], dtype=np.int64)

    @cached_property
    def _starts(self) -> list[NDArray[np.uint32]]:
        """Sentence starts of each shard, and whether the sentence ends a document."""
        return [_mapped(self.folder / f"{name}{STARTS}") for name in self.manifest.shards]

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """Number of sentences before each shard, and the total.  # [shards + 1]"""
        return np.cumsum([0, *map(len, self._starts)], dtype=np.int64)

    @cached_property
    def documents(self) -> NDArray[np.int64]:
        """Index of each document's first sentence.  # [documents]"""
        last = [
            np.flatnonzero(starts[:, 1]) + before
            for starts, before in zip(self._starts, self._counts[:-1], strict=True)
        ]
        ends = np.concatenate([np.zeros(0, dtype=np.int64), *last])
        return np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def read(self, first: int, last: int) -> NDArray[np.int64]:
        """The tokens from `first` to `last`, across shards.  # [last - first]"""
        if not 0 <= first <= last <= len(self):
            raise IndexError(f"tokens {first} to {last} of {len(self)}")
        shard = int(np.searchsorted(self._offsets, first, side="right")) - 1
        parts: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)]
        while first < last:
            start, end = self._offsets[shard], self._offsets[shard + 1]
            stop = min(last, int(end))
            parts.append(self._ids[shard][first - start : stop - start])
            first, shard = stop, shard + 1
        return np.concatenate(parts).astype(np.int64)

    def sentence_starts(self, first: int, last: int) -> NDArray[np.int64]:
        """Positions of sentence starts among these tokens.  # [sentences]"""
        low, high = np.searchsorted(self._offsets, [first, last], side="right") - 1
        positions = []
        for shard in range(low, min(high, len(self._ids) - 1) + 1):
            starts, offset = self._starts[shard][:, 0], int(self._offsets[shard])
            bounds = np.searchsorted(starts, [max(0, first - offset), max(0, last - offset)])
            positions.append(starts[slice(*bounds)].astype(np.int64) + offset)
        return np.concatenate([np.zeros(0, dtype=np.int64), *positions])

    def sentence(self, index: int) -> NDArray[np.int64]:
        """The tokens of one sentence, with the document end after it if any.  # [tokens]"""
        shard = int(np.searchsorted(self._counts, index, side="right")) - 1
        starts, offset = self._starts[shard], int(self._offsets[shard])
        row = index - int(self._counts[shard])
        end = starts[row + 1, 0] if row + 1 < len(starts) else len(self._ids[shard])
        return self.read(offset + int(starts[row, 0]), offset + int(end))

    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of every sentence.  # [sentences]"""
        lengths_of_shards = [
            np.diff(starts[:, 0].astype(np.int64), append=len(ids))
            for starts, ids in zip(self._starts, self._ids, strict=True)
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *lengths_of_shards])


def tokenize_text(
    source: Path | Iterable[str],
    tokenizer: PreTrainedTokenizerBase,
    home: Path,
    *,
    processes: int | None = None,
    chunk: int = CHUNK,
    progress: Callable[[int], object] | None = None,
) -> Store:
    """The store of a text file or of lines; shards already on disk are reused.

    `processes` defaults to one per core; `progress` is called with the bytes of text done.
    """
    tokenizer_json = tokenizer_json_of(tokenizer)
    vocabulary = vocabulary_of(tokenizer)
    dtype = "<u2" if vocabulary.size <= _TWO_BYTES else "<u4"
    digest = _hash([FORMAT, tokenizer_json, str(vocabulary.end), dtype])
    folder = home / f"tokens-{digest}"
    setup = (tokenizer_json, vocabulary.end, dtype)
    names, size = [], 0
    where = str(source) if isinstance(source, Path) else "text"
    for name, bytes_of_text in _shards(
        chunks(lines_of(source), chunk), folder, setup, processes or os.cpu_count() or 1
    ):
        names.append(name)
        size += bytes_of_text
        if progress:
            progress(size)
    manifest = _manifest(folder, names, digest, size)
    if not manifest.tokens:
        raise WorkbenchError(
            "the text is empty.",
            code="empty-text",
            where=where,
            remedy="Name a file with text.",
        )
    write_atomically(folder / f"{manifest.key}.json", json.dumps(asdict(manifest), indent=1) + "\n")
    return Store(folder, manifest)


def open_store(manifest: Path) -> Store:
    """Open a store by its manifest, without its text."""
    try:
        raw = read_json(manifest)
        parsed = Manifest(**{**raw, "shards": tuple(raw["shards"])})
        store = Store(manifest.parent, parsed)
        complaint = "" if parsed.format == FORMAT else f"its format is {parsed.format!r}"
        if not complaint and len(store) != parsed.tokens:
            complaint = f"its shards hold {len(store):,} tokens, not {parsed.tokens:,}"
    except (OSError, ValueError, TypeError, KeyError) as error:
        complaint = str(error)
    if complaint:
        raise WorkbenchError(
            f"the token store is damaged: {complaint}.",
            code="file-unreadable",
            where=str(manifest),
            remedy="Delete the folder and tokenise the text again.",
        )
    return store


def tokenizer_json_of(tokenizer: PreTrainedTokenizerBase) -> str:
    """The tokenizer as JSON, without the truncation and padding set by earlier calls."""
    require_fast(tokenizer)
    backend = copy.deepcopy(tokenizer.backend_tokenizer)
    backend.no_truncation()
    backend.no_padding()
    return str(backend.to_str())


def _shards(
    text_chunks: Iterator[Chunk], folder: Path, setup: tuple[str, int | None, str], processes: int
) -> Iterator[tuple[str, int]]:
    """The name of each chunk's shard once it is on disk, in order, with the bytes of its text.

    The first missing chunk is written in this process; processes start at the second.
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
        for chunk in text_chunks:
            name, future = chunk.name(), None
            if not is_complete(folder, name):
                if worker is None or processes == 1:
                    worker = worker or Worker(*setup)
                    worker.write(chunk, folder)
                else:
                    pool = pool or _pool(processes, setup)
                    future = pool.submit(work, chunk, folder)
            waiting.append((name, chunk.size, future))
            if len(waiting) > 2 * processes:
                yield first_done()
        while waiting:
            yield first_done()
    except BrokenProcessPool:
        raise WorkbenchError(
            "a tokenising process was killed, perhaps because memory ran out.",
            code="out-of-memory",
            remedy="Run it again with fewer processes; finished chunks are reused.",
        ) from None
    finally:
        if pool:
            pool.shutdown(cancel_futures=True)


def _pool(processes: int, setup: tuple[str, int | None, str]) -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, spawn, prepare, setup)


def _manifest(folder: Path, names: list[str], tokenizer: str, size: int) -> Manifest:
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
            f"the shard is damaged: {error}.",
            code="file-unreadable",
            where=str(path),
            remedy="Delete the file and tokenise the text again.",
        ) from None
    return array


def _hash(parts: Iterable[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
