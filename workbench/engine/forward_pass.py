"""A forward pass over a whole corpus: batches of like length, copies ahead of need, no surprises.

Documents are sorted by length, longest first, and cut into batches of at most so many pieces,
padding included; on a GPU batches are filled, and the next ones are tokenised and copied while the
present one is computed. Where memory does not suffice, for the model or for what is made of its
output, the batch is halved and the pass goes on with smaller ones (`halving`). What comes of each
batch is handed to a function or left in taps; nothing of the corpus is held, so memory does not
grow with its length.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.engine.batch import Batch, Pieces
from workbench.engine.halving import Limit, in_halves
from workbench.engine.model import Model, Output
from workbench.engine.taps import Tap

CHUNK = 512  # documents tokenised at a time, or as many as make `AHEAD` batches
AHEAD = 8
BEFORE = 2  # batches that are ready on the host before a GPU needs them
BYTES = 4  # of text a piece; most subwords are longer
ALIKE = 0.75  # documents shorter than this share of a batch's longest wait for the next; on a GPU,
# which computes padding sooner than it begins another batch, they do not
PIECES = {"cpu": 2_048, "cuda": 32_768}  # in a batch


T = TypeVar("T")


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """So many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(frozen=True)
class Progress:
    """How far a pass has come."""

    done: int  # documents
    total: int


@dataclass
class Report:
    """What a pass did, and what it had to leave out."""

    documents: int = 0
    words: int = 0
    pieces: int = 0  # real ones
    padding: int = 0
    unaligned: int = 0  # words the tokenizer made nothing of
    cut: int = 0  # words beyond the model's length
    halvings: int = 0  # times memory did not suffice
    seconds: float = 0.0
    device: str = ""
    precision: str = ""


@public
def forward(
    model: Model,
    batch: Batch,
    use: Callable[[Pieces, Output], object] | None = None,
    *,
    taps: Iterable[Tap] = (),
    hidden: bool = True,
    pieces: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    ahead: Callable[[Pieces], object] | None = None,
) -> Report:
    """Send every document of a batch through the model once.

    Documents are sorted by length and cut into batches; where memory does not suffice, a batch is
    halved. Gradients are not kept.

    Args:
        model: A `Model`.
        batch: Texts, from `wb.encode`.
        use: Called with each batch of pieces and the model's output; the pieces' `order` says which
            documents they are. Where memory does not suffice for `use`, its batch comes again in
            halves, after the taps have seen all of it: what `use` adds up it adds last, and taps
            next to it keep what they see for it, and add up nothing.
        taps: What looks at attention, or changes it: `Capture`, `Reduce`, `Gate`.
        hidden: Whether `use` needs the hidden states.
        pieces: Maximum number of pieces in a batch, padding included (default: by device).
        progress: Called with a `Progress` after each batch.
        ahead: Called with each batch beforehand, on the host; on a GPU by another thread.

    Returns:
        A report: documents, words, pieces, what was cut off, seconds.

    Raises:
        WorkbenchError: One document alone does not fit into memory.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> rows = wb.Reduce(wb.map_statistics.count)
        >>> batch = wb.encode(wb.read("primer").docs("test", limit=5))
        >>> report = wb.forward(model, batch, taps=[rows])
        >>> report.documents, rows.total[model.sites[0]].shape  # [heads, numbers]
        (5, torch.Size([4, 1]))
    """
    taps = list(taps)
    report = Report(device=str(model.device), precision=model.precision)
    limit = Limit(PIECES.get(model.device.type, PIECES["cpu"]) if pieces is None else pieces)
    if limit.pieces < 1:
        raise WorkbenchError(f"a batch of {pieces} pieces is none.", remedy="Give 1 or more.")
    started, documents = time.perf_counter(), 0

    def run(text: Pieces) -> None:
        output = model.forward(text, taps=taps, hidden=hidden)
        if use is not None:
            use(text, output)

    with torch.no_grad():
        batches = _batches(model, batch, limit, fills=model.device.type == "cuda")
        for text in _sent(model, _counted(batches, report, ahead)):
            for part, _ in in_halves(run, text, limit):
                documents += len(part)
            if progress is not None:
                progress(Progress(documents, len(batch)))
    report.halvings = limit.halvings
    report.seconds = time.perf_counter() - started
    return report


def _batches(model: Model, batch: Batch, limit: Limit, fills: bool) -> Iterator[Pieces]:
    """Tokenised batches, longest documents first, the next chunk made while this one is used."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        least = AHEAD * BYTES * limit.pieces if fills else 0
        parts = iter(_chunks(np.diff(batch.text_offsets), least))
        waiting = [worker.submit(model.encode, batch, part) for part in islice(parts, 1)]
        while waiting:
            encoded = waiting.pop().result()
            waiting += [worker.submit(model.encode, batch, part) for part in islice(parts, 1)]
            yield from by_length(encoded, limit, fills)


def _chunks(sizes: NDArray[np.int64], least: int) -> Iterator[list[int]]:
    """Documents to tokenise at a time, longest first, of so many bytes.  # sizes: [documents]"""
    order = np.argsort(-sizes, kind="stable")
    whole = sizes[order].cumsum()  # bytes up to each
    start = 0
    while start < len(order):
        before = int(whole[start - 1]) if start else 0
        end = max(start + CHUNK, int(np.searchsorted(whole, before + least)) + 1)
        yield order[start:end].tolist()
        start = end


def by_length(encoded: Pieces, limit: Limit, fills: bool = True) -> Iterator[Pieces]:
    """Documents of like length together, the longest first, within the limit, which may sink.

    A batch that is not filled takes none that is much shorter than its longest.
    """
    for rows, width in length_batches(encoded.mask.sum(1), limit, fills):
        yield encoded.take(rows).narrowed(width)


def length_batches(
    lengths: Tensor, limit: Limit, fills: bool = True
) -> Iterator[tuple[Tensor, int]]:
    """The documents of each batch, and its longest length; see `by_length`.  # [documents]"""
    order = torch.argsort(lengths, descending=True, stable=True)
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        rows = order[start : start + max(1, limit.pieces // width)]
        worth = max(1, limit.pieces // (4 * width))  # a batch this large need take no short ones
        alike = len(rows) if fills else int((lengths[rows] >= ALIKE * width).sum())
        rows = rows[: max(worth, alike)]
        yield rows, width
        start += len(rows)


def _counted(
    batches: Iterable[Pieces], report: Report, ahead: Callable[[Pieces], object] | None
) -> Iterator[Pieces]:
    """The same batches, counted and shown while they are on the host."""
    for text in batches:
        if ahead is not None:
            ahead(text)
        real = int(text.mask.sum())
        report.documents += len(text)
        report.words += int(text.word_counts.sum())
        report.pieces += real
        report.padding += text.mask.numel() - real
        report.unaligned += len(text.unaligned)
        report.cut += sum(last - first for _, first, last in text.cut)
        yield text


def _sent(model: Model, batches: Iterator[Pieces]) -> Iterator[Pieces]:
    """Batches on the model's device; on a GPU the next is copied while this one is used."""
    if model.device.type != "cuda":
        for text in batches:
            yield text.to(model.device)
        return
    stream = torch.cuda.Stream(model.device)  # type: ignore[no-untyped-call]
    ready: Pieces | None = None
    for text in _beforehand(batches):
        with torch.cuda.stream(stream):
            copied = text.to(model.device)
        if ready is not None:
            yield ready
        now = torch.cuda.current_stream(model.device)
        now.wait_stream(stream)
        ready = copied.read_on(now)
    if ready is not None:
        yield ready


def _beforehand(batches: Iterator[Pieces]) -> Iterator[Pieces]:
    """The same batches, made by another thread while those before them are used."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = deque(worker.submit(next, batches, None) for _ in range(BEFORE))
        while (text := waiting.popleft().result()) is not None:
            waiting.append(worker.submit(next, batches, None))
            yield text
