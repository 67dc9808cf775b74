"""A forward pass over a whole corpus: batches of like length, copies ahead of need, no surprises.

Documents are sorted by length, longest first, and cut into batches of at most so many pieces,
padding included; on a GPU the next batch is tokenised and copied while the present one is computed.
Where memory does not suffice, the batch is halved and the pass goes on with smaller ones. What
comes of each batch is handed to a function or left in taps; nothing of the corpus is held, so
memory does not grow with its length.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from workbench.engine.batch import Batch
from workbench.engine.model import Model, Output
from workbench.engine.pieces import Pieces
from workbench.engine.taps import Tap
from workbench.errors import WorkbenchError

CHUNK = 512  # documents tokenised at a time
ALIKE = 0.75  # documents shorter than this share of a batch's longest wait for the next
PIECES = {"cpu": 2_048, "cuda": 32_768}  # in a batch


@dataclass(frozen=True)
class Progress:
    """How far a pass has come."""

    done: int  # documents
    total: int
    seconds_left: float


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


@dataclass
class Limit:
    """The most pieces in a batch; it sinks where memory does not suffice."""

    pieces: int
    halvings: int = 0

    def halve(self, failed: int) -> None:
        """A batch of so many pieces was too large."""
        self.halvings += 1
        self.pieces = max(1, min(self.pieces, failed // 2))


def run_over(
    model: Model,
    batch: Batch,
    use: Callable[[Pieces, Output], object] | None = None,
    *,
    taps: Iterable[Tap] = (),
    hidden: bool = True,
    logits: bool = False,
    pieces: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Report:
    """Send every document through the model once; `use` sees each batch, `order` says which it is.

    `pieces` is the most in a batch, padding included; gradients are not kept.
    """
    taps = list(taps)
    report = Report(device=str(model.device), precision=model.precision)
    limit = Limit(PIECES.get(model.device.type, PIECES["cpu"]) if pieces is None else pieces)
    if limit.pieces < 1:
        raise WorkbenchError(f"a batch of {pieces} pieces is none.", remedy="Give 1 or more.")
    sizes = np.diff(batch.text_offsets)  # bytes, [documents]
    started, done = time.perf_counter(), 0
    with torch.no_grad():
        for text in _ahead(model, _batches(model, batch, limit)):
            for part, output in _forward(model, text, taps, hidden, logits, limit):
                if use is not None:
                    use(part, output)
            _count(report, text)
            done += int(sizes[text.order.cpu().numpy()].sum())
            if progress is not None:
                elapsed = time.perf_counter() - started
                left = elapsed * (int(sizes.sum()) - done) / max(done, 1)
                progress(Progress(report.documents, len(batch), left))
    report.halvings = limit.halvings
    report.seconds = time.perf_counter() - started
    return report


def _batches(model: Model, batch: Batch, limit: Limit) -> Iterator[Pieces]:
    """Tokenised batches, longest documents first, the next chunk made while this one is used."""
    by_length = np.argsort(-np.diff(batch.text_offsets), kind="stable")
    chunks = [by_length[i : i + CHUNK].tolist() for i in range(0, len(by_length), CHUNK)]
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = [worker.submit(model.encode, batch, chunk) for chunk in chunks[:1]]
        for following in [*chunks[1:], None] if chunks else ():
            encoded = waiting.pop().result()
            if following is not None:
                waiting.append(worker.submit(model.encode, batch, following))
            yield from _cut(encoded, limit)


def _cut(encoded: Pieces, limit: Limit) -> Iterator[Pieces]:
    """One chunk as batches within the limit, which may sink while they are used."""
    lengths = encoded.mask.sum(1)  # [documents]
    order = torch.argsort(lengths, descending=True, stable=True)
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        rows = order[start : start + max(1, limit.pieces // width)]
        worth = max(1, limit.pieces // (4 * width))  # a batch this large need take no short ones
        alike = int((lengths[rows] >= ALIKE * width).sum())
        rows = rows[: max(worth, alike)]
        yield narrowed(encoded.take(rows), width)
        start += len(rows)


def narrowed(text: Pieces, width: int) -> Pieces:
    """The same rows with padding beyond `width` taken off."""
    return replace(
        text,
        ids=text.ids[:, :width],
        mask=text.mask[:, :width],
        words=text.words[:, :width],
        special=text.special[:, :width],
        segments=None if text.segments is None else text.segments[:, :width],
        unseen=None if text.unseen is None else text.unseen[:, :width],
    )


def _ahead(model: Model, batches: Iterable[Pieces]) -> Iterator[Pieces]:
    """Batches on the model's device; on a GPU the next is copied while the present one is used."""
    if model.device.type != "cuda":
        for text in batches:
            yield text.to(model.device)
        return
    stream = torch.cuda.Stream(model.device)  # type: ignore[no-untyped-call]
    ready: Pieces | None = None
    for text in batches:
        pinned = text.pin()
        with torch.cuda.stream(stream):
            copied = pinned.to(model.device)
        if ready is not None:
            yield ready
        now = torch.cuda.current_stream(model.device)
        now.wait_stream(stream)
        ready = copied.read_on(now)
    if ready is not None:
        yield ready


def _forward(
    model: Model,
    text: Pieces,
    taps: Sequence[Tap],
    hidden: bool,
    logits: bool,
    limit: Limit,
) -> Iterator[tuple[Pieces, Output]]:
    """Run a batch; where memory does not suffice, run its halves."""
    try:
        output = model.forward(text, taps=taps, hidden=hidden, logits=logits)
    except torch.OutOfMemoryError:
        output = None
    if output is not None:
        yield text, output
        return
    if len(text) == 1:
        raise WorkbenchError(
            f"one document of {text.ids.shape[1]} pieces does not fit into memory.",
            remedy="Use a smaller model or a lower precision, close other programs, or read the "
            "corpus by sentences.",
        )
    limit.halve(text.mask.numel())
    if model.device.type == "cuda":
        torch.cuda.empty_cache()
    middle = len(text) // 2
    for rows in (range(middle), range(middle, len(text))):
        part = text.take(list(rows))
        width = max(int(part.mask.sum(1).max()), 1)
        yield from _forward(model, narrowed(part, width), taps, hidden, logits, limit)


def _count(report: Report, text: Pieces) -> None:
    real = int(text.mask.sum())
    report.documents += len(text)
    report.words += int(text.word_counts.sum())
    report.pieces += real
    report.padding += text.mask.numel() - real
    report.unaligned += len(text.unaligned)
    report.cut += sum(last - first for _, first, last in text.cut)
