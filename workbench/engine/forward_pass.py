"""A forward pass over a whole corpus, in batches of documents of similar length.

Documents are sorted by length, longest first, and cut into batches with a maximum number of pieces,
padding included. On a GPU batches are filled, and the next batches are tokenised and copied while
the current one is computed. If memory is too small for the model or for the use of its output, the
batch is halved and the pass continues with smaller batches (`halving`). The output of each batch
goes to a function or to taps. Costs: one forward pass; memory does not grow with the corpus.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.errors import WorkbenchError, listed
from workbench.core.public import public
from workbench.engine.batch import Batch, Pieces
from workbench.engine.halving import Limit, in_halves
from workbench.engine.model import Model, Output
from workbench.engine.taps import Tap

ALONE = Lock()  # one pass at a time, where threads share a model: some are hooked in place
CHUNK = 512  # documents tokenised at a time, or enough for `AHEAD` batches
AHEAD = 8
BEFORE = 2  # batches prepared on the host before a GPU needs them
BYTES = 4  # bytes of text per piece; most subwords are longer
ALIKE = (
    0.75  # documents shorter than this share of a batch's longest go to the next batch; not on a
)
# GPU, where padding is cheaper than another batch
PIECES = {"cpu": 2_048, "cuda": 32_768}  # default maximum number of pieces in a batch


T = TypeVar("T")


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in consecutive chunks of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(frozen=True)
class Progress:
    """The progress of a pass, in documents."""

    done: int
    total: int


@dataclass
class Report:
    """Counts of a pass: documents, words, pieces, and what was left out."""

    documents: int = 0
    words: int = 0
    pieces: int = 0  # without padding
    padding: int = 0
    unaligned: int = 0  # words without a piece
    cut: int = 0  # words beyond the model's maximum length
    halvings: int = 0  # how often a batch was halved for lack of memory
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
    """Run every document of a batch through the model once.

    Documents are sorted by length and cut into batches; a batch that does not fit into memory is
    halved. No gradients are computed.

    Args:
        model: A `Model`.
        batch: Texts, from `wb.encode`.
        use: Called with each batch of pieces and the model's output; the pieces' `order` gives the
            documents. If memory is too small for `use`, its batch is repeated in halves, although
            taps have seen all of it. So `use` must add up its sums last, and taps used together
            with it must store what they see for it instead of adding up.
        taps: Taps that read or change attention (`Capture`, `Reduce`, `Gate`) or states (`Read`,
            `Write`).
        hidden: Whether `use` needs the hidden states.
        pieces: Maximum number of pieces in a batch, padding included (default: by device).
        progress: Called with a `Progress` after each batch.
        ahead: Called with each batch before it runs, on the host; with a GPU, by another thread.

    Returns:
        A report: number of documents, words, pieces and cut words, and seconds.

    Raises:
        WorkbenchError: One document alone does not fit into memory.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> rows = wb.Reduce(["count"])
        >>> batch = wb.encode(wb.read("primer").docs("test", limit=5))
        >>> report = wb.forward(model, batch, taps=[rows])
        >>> report.documents, rows.total[model.sites[0]].shape  # [heads, numbers]
        (5, torch.Size([4, 1]))
    """
    taps = list(taps)
    report = Report(device=str(model.device), precision=model.precision)
    limit = Limit(PIECES.get(model.device.type, PIECES["cpu"]) if pieces is None else pieces)
    if limit.pieces < 1:
        raise WorkbenchError(
            f"the maximum number of pieces in a batch is {pieces}.",
            code="setting-invalid",
            remedy="Choose 1 or more.",
        )
    started, documents = time.perf_counter(), 0

    def run(text: Pieces) -> None:
        output = model.forward(text, taps=taps, hidden=hidden)
        if hidden:
            _require_states(model, text, output)
        if use is not None:
            use(text, output)

    with torch.no_grad():
        encoded = batches_of(model, batch, limit, fills=model.device.type == "cuda")
        for text in _sent(model, _counted(encoded, report, ahead)):
            for part, _ in in_halves(run, text, limit):
                documents += len(part)
            if progress is not None:
                progress(Progress(documents, len(batch)))
    report.halvings = limit.halvings
    report.seconds = time.perf_counter() - started
    return report


def _require_states(model: Model, text: Pieces, output: Output) -> None:
    """Raise if a model of one's own returns other states than it announces."""
    if not isinstance(output, Output):
        raise WorkbenchError(
            f"forward returned a {type(output).__name__}, not an Output.",
            code="wrong-type",
            where=model.name,
            remedy="Return a workbench.engine.model.Output.",
        )
    for stack in model.stacks[:1]:  # further stacks only read targets
        states = output.hidden.get(stack.name, ())
        expected = (*text.ids.shape, model.width)
        if len(states) == stack.layers + 1 and all(
            isinstance(each, Tensor) and each.shape == expected for each in states
        ):
            continue
        kinds = [f"{type(each).__name__} {[*getattr(each, 'shape', ())]}" for each in states]
        raise WorkbenchError(
            f"forward returned {len(states)} states of the {stack.name}"
            f"{': ' if kinds else ''}{listed(dict.fromkeys(kinds))}.",
            code="shape-mismatch",
            where=model.name,
            remedy=f"hidden[{stack.name!r}] has {stack.layers + 1} tensors of shape "
            f"{[*expected]} (the embeddings, then each layer), by stacks and width.",
        )


def batches_of(model: Model, batch: Batch, limit: Limit, fills: bool) -> Iterator[Pieces]:
    """Tokenised batches, longest documents first; the next chunk is tokenised in a thread."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        min_bytes = AHEAD * BYTES * limit.pieces if fills else 0
        parts = iter(_chunks(np.diff(batch.text_offsets), min_bytes))
        waiting = [worker.submit(model.encode, batch, part) for part in islice(parts, 1)]
        while waiting:
            encoded = waiting.pop().result()
            waiting += [worker.submit(model.encode, batch, part) for part in islice(parts, 1)]
            yield from by_length(encoded, limit, fills)


def _chunks(sizes: NDArray[np.int64], min_bytes: int) -> Iterator[list[int]]:
    """Chunks of documents to tokenise, longest first, by bytes.  # sizes: [documents]"""
    order = np.argsort(-sizes, kind="stable")
    total = sizes[order].cumsum()  # cumulative bytes
    start = 0
    while start < len(order):
        done = int(total[start - 1]) if start else 0
        end = max(start + CHUNK, int(np.searchsorted(total, done + min_bytes)) + 1)
        yield order[start:end].tolist()
        start = end


def by_length(encoded: Pieces, limit: Limit, fills: bool = True) -> Iterator[Pieces]:
    """Batches of documents of similar length, longest first, within the limit, which may shrink.

    A batch that is not filled contains no document much shorter than its longest.
    """
    for rows, width in length_batches(encoded.mask.sum(1), limit, fills):
        yield encoded.take(rows).narrowed(width)


def length_batches(
    lengths: Tensor, limit: Limit, fills: bool = True
) -> Iterator[tuple[Tensor, int]]:
    """The documents of each batch and its maximum length; see `by_length`.  # [documents]"""
    order = torch.argsort(lengths, descending=True, stable=True)
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        rows = order[start : start + max(1, limit.pieces // width)]
        min_rows = max(1, limit.pieces // (4 * width))  # a batch this large takes no short ones
        similar = len(rows) if fills else int((lengths[rows] >= ALIKE * width).sum())
        rows = rows[: max(min_rows, similar)]
        yield rows, width
        start += len(rows)


def _counted(
    batches: Iterable[Pieces], report: Report, ahead: Callable[[Pieces], object] | None
) -> Iterator[Pieces]:
    """The batches, counted and passed to `ahead` while they are on the host."""
    for text in batches:
        if ahead is not None:
            ahead(text)
        n_pieces = int(text.mask.sum())
        report.documents += len(text)
        report.words += int(text.word_counts.sum())
        report.pieces += n_pieces
        report.padding += text.mask.numel() - n_pieces
        report.unaligned += len(text.unaligned)
        report.cut += sum(last - first for _, first, last in text.cut)
        yield text


def _sent(model: Model, batches: Iterator[Pieces]) -> Iterator[Pieces]:
    """Batches on the model's device; to a GPU, the next is copied while this one is used."""
    if model.device.type != "cuda":
        for text in batches:
            yield text.to(model.device)
        return
    stream = torch.cuda.Stream(model.device)  # type: ignore[no-untyped-call]
    ready: Pieces | None = None
    for text in _prepared(batches):
        with torch.cuda.stream(stream):
            copied = text.to(model.device)
        if ready is not None:
            yield ready
        now = torch.cuda.current_stream(model.device)
        now.wait_stream(stream)
        ready = copied.read_on(now)
    if ready is not None:
        yield ready


def _prepared(batches: Iterator[Pieces]) -> Iterator[Pieces]:
    """The batches, prepared by another thread while earlier ones are used."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = deque(worker.submit(next, batches, None) for _ in range(BEFORE))
        while (text := waiting.popleft().result()) is not None:
            waiting.append(worker.submit(next, batches, None))
            yield text
