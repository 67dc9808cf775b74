"""Activations on disk: every layer's states of every word, or span, memory-mapped.

A store is a folder with one array `[layers + 1, rows, width]` and a description, named by the hash
of what it was made from: weights, tokenizer and texts. It is written beside its place and
moved there at the end, so a killed writer leaves nothing that reads as a store, and the same
question is answered from disk. A batch's layers are pooled on the device and copied to the host
together; a thread writes them while the next batch is computed. Half precision by default: 2 bytes
a number, so 10,000 sentences of 10 words through a BERT-base take 2 GB; in memory a batch's share
of that, twice.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.files import parsed_json, read_regular, reason_of, require_regular, unwritable
from workbench.core.public import public
from workbench.engine.batch import Batch, Pieces, sent
from workbench.engine.forward_pass import Progress, Report, forward
from workbench.engine.model import Model, Output
from workbench.engine.taps import StackName
from workbench.engine.words import Pool, words_of_rows

FORMAT = "workbench-store-2"
_KINDS: dict[str, tuple[torch.dtype, Any]] = {  # what torch calls it, and what numpy keeps
    "fp16": (torch.float16, np.float16),
    "bf16": (torch.bfloat16, np.int16),
    "fp32": (torch.float32, np.float32),
}


class TooLargeError(WorkbenchError):
    """States that the kind of number asked for cannot hold."""


@dataclass(frozen=True)
class Description:
    """What a store holds and what it was made from."""

    key: str
    stack: StackName
    layers: int  # blocks; there is one more array than that
    rows: int
    width: int
    kind: str
    model: str
    format: str = FORMAT


@dataclass(frozen=True)
class Store:
    """An open store; nothing is read until a layer is asked for."""

    folder: Path
    description: Description
    missing: NDArray[np.bool_]  # [rows], words that own no piece and read as zero

    def __repr__(self) -> str:
        """What it holds and where it lies."""
        about = self.description
        size = f"{about.layers + 1} layers x {about.rows} rows x {about.width}, {about.kind}"
        return f"<Store {about.model} {about.stack}: {size}; {self.folder}>"

    def layer(self, layer: int) -> Tensor:
        """States of one layer, memory-mapped.  # [rows, width]"""
        about = self.description
        if not 0 <= layer <= about.layers:
            raise WorkbenchError(
                f"there is no layer {layer}.",
                where=str(self.folder),
                remedy=f"Layers run from 0, the embeddings, to {about.layers}.",
            )
        try:
            path = require_regular(self.folder / "states.npy")
            array = np.load(path, mmap_mode="c")  # torch wants it writable; the file stays
            kept = torch.from_numpy(array[layer].view())  # [rows, width]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise _unsound(self.folder, reason_of(error)) from None
        return kept.view(_KINDS[about.kind][0])


def open_store(folder: Path) -> Store:
    """Open what `word_states` wrote."""
    try:
        about = parsed_json(read_regular(folder / "store.json"))
        missing = np.load(require_regular(folder / "missing.npy"))
        description = Description(**about)
    except (OSError, ValueError, TypeError) as error:
        raise _unsound(folder, str(error)) from None
    if description.format != FORMAT:
        raise _unsound(folder, f"its format is {description.format!r}")
    return Store(folder, description, missing)


def _unsound(folder: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"not a sound activation store: {reason}.",
        where=str(folder),
        remedy="Delete the folder; it is made again when it is needed.",
    )


@public
def word_states(
    model: Model,
    batch: Batch,
    home: str | Path,
    stacks: Sequence[StackName] | StackName | None = None,
    *,
    spans: NDArray[np.int64] | None = None,
    kind: str = "fp16",
    pieces: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> tuple[dict[StackName, Store], Report | None]:
    """Compute the states of every word, or span, in every layer, or read them from disk.

    A store lies under a name made from weights, tokenizer and text, memory mapped. A word is the
    mean of its pieces. What is not there yet is written in one pass.

    Args:
        model: A `Model`.
        batch: Texts, from `wb.encode`.
        home: The folder of stores.
        stacks: `encoder`, `decoder` or both (default: all stacks).
        spans: [spans, 3]: document, first word, last word + 1. A row is then a span, the mean of
            its words (default: a row is a word).
        kind: Number format on disk: `fp16`, `bf16` or `fp32`.
        pieces: Maximum number of pieces in a batch, padding included.
        progress: Called with a `Progress` after each batch.

    Returns:
        The store of each stack, and what the pass did (None where all was on disk).

    Raises:
        WorkbenchError: A store on disk is damaged, its number format cannot hold the states, or a
            document does not fit into memory.

    Example:
        >>> from pathlib import Path
        >>> model = wb.load("mini:bert", device="cpu")
        >>> batch = wb.encode(wb.read("primer").docs("test", limit=2))
        >>> stores, report = wb.word_states(model, batch, Path("stores"))
        >>> stores["encoder"].layer(4).shape  # [words, width]
        torch.Size([17, 128])
    """
    if kind not in _KINDS:
        raise WorkbenchError(f"there is no kind {kind!r}.", remedy=f"Say {', '.join(_KINDS)}.")
    _require_spans(batch, spans)
    layers = {stack.name: stack.layers for stack in model.stacks}
    rows = len(batch.words) if spans is None else len(spans)
    places: dict[StackName, tuple[Path, Description]] = {}
    for name in layers if stacks is None else (stacks,) if isinstance(stacks, str) else stacks:
        if name not in layers:
            raise WorkbenchError(
                f"{model.name} has no {name} stack.", remedy=f"It has {', '.join(layers)}."
            )
        key = store_key(model, batch, name, spans, kind)
        about = Description(key, name, layers[name], rows, model.width, kind, model.name)
        places[name] = Path(home) / f"activations-{key}", about
    new = [place for place in places.values() if not place[0].is_dir()]
    report = _write(model, batch, new, spans, pieces, progress) if new else None
    return {name: open_store(folder) for name, (folder, _) in places.items()}, report


def _require_spans(batch: Batch, spans: NDArray[np.int64] | None) -> None:
    """Raise unless every span lies in its document."""
    if spans is None or not len(spans):
        return
    if spans.ndim != 2 or spans.shape[1] != 3:
        raise WorkbenchError(
            f"spans have shape {list(spans.shape)}, not [spans, 3].",
            code="wrong-type",
            remedy="Give a row for each span: document, first word, last word + 1.",
        )
    document, first, last = spans.T
    inside = (document >= 0) & (document < len(batch)) & (first >= 0) & (first < last)
    inside[inside] &= (last <= np.diff(batch.word_offsets)[np.where(inside, document, 0)])[inside]
    if not inside.all():
        wrong = int(np.argmin(inside))
        raise WorkbenchError(
            f"span {wrong}, {spans[wrong].tolist()}, does not lie in its document.",
            code="wrong-type",
            remedy="Give document, first word, last word + 1; words are counted from 0.",
        )


def store_key(
    model: Model, batch: Batch, stack: str, spans: NDArray[np.int64] | None, kind: str
) -> str:
    """The hash of everything the numbers depend on, and of nothing else."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (FORMAT, model.content_hash, model.precision, stack, kind):
        digest.update(part.encode() + b"\0")
    arrays: list[NDArray[Any]] = [batch.text, batch.text_offsets, batch.words, batch.word_offsets]
    for array in [*arrays, batch.segments, np.zeros(0) if spans is None else spans]:
        digest.update(str((array.dtype, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _write(
    model: Model,
    batch: Batch,
    places: Sequence[tuple[Path, Description]],
    spans: NDArray[np.int64] | None,
    pieces: int | None,
    progress: Callable[[Progress], object] | None,
) -> Report:
    home = places[0][0].parent
    drafts: list[Path] = []
    try:
        home.mkdir(parents=True, exist_ok=True)
        writers = []
        for _, about in places:
            drafts.append(Path(tempfile.mkdtemp(prefix=".writing-", dir=home)))
            writers.append(_Writer.into(drafts[-1], batch, spans, about))

        with _Behind() as behind:

            def take(text: Pieces, output: Output) -> None:
                made = [writer.pooled(text, output) for writer in writers]
                behind.do(*(partial(w.write, m) for w, m in zip(writers, made, strict=True)))

            report = forward(model, batch, take, pieces=pieces, progress=progress)
        for (folder, _), draft, writer in zip(places, drafts, writers, strict=True):
            writer.finish(draft)
            _into_place(draft, folder)
        return report
    except OSError as error:
        raise unwritable(home, error) from None
    finally:
        for draft in drafts:
            shutil.rmtree(draft, ignore_errors=True)


def _into_place(draft: Path, folder: Path) -> None:
    """Rename; where another process was first, its store is as good as this one."""
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


class _Behind:
    """A thread that writes one batch while the next is computed; its errors come to who waits."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1)
        self.waiting: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def do(self, *writes: Callable[[], None]) -> None:
        self._wait()
        self.waiting = [self.thread.submit(write) for write in writes]

    def _wait(self) -> None:
        for each in self.waiting:
            each.result()
        self.waiting = []

    def __exit__(self, kind: object, *_: object) -> None:
        with self.thread:
            if kind is None:
                self._wait()


@dataclass(frozen=True)
class _Pooled:
    """One batch in all layers, on its way to the host."""

    rows: NDArray[np.int64]  # [rows], where they belong
    states: Tensor  # [layers + 1, rows, width]
    overflows: Tensor  # [layers + 1], whether a number became infinite
    there: Tensor  # [rows], whether the row has a word that owns a piece
    arrived: Callable[[], object]  # waits for the copies


@dataclass
class _Writer:
    """Puts each batch's words, or spans, where they belong."""

    batch: Batch
    spans: NDArray[np.int64] | None
    about: Description
    states: "np.memmap[Any, Any]"  # [layers + 1, rows, width]
    missing: NDArray[np.bool_]  # [rows]

    @classmethod
    def into(
        cls, draft: Path, batch: Batch, spans: NDArray[np.int64] | None, about: Description
    ) -> "_Writer":
        shape = (about.layers + 1, about.rows, about.width)
        states = np.lib.format.open_memmap(
            draft / "states.npy", mode="w+", dtype=_KINDS[about.kind][1], shape=shape
        )
        return cls(batch, spans, about, states, np.ones(about.rows, dtype=np.bool_))

    def finish(self, draft: Path) -> None:
        self.states.flush()
        np.save(draft / "missing.npy", self.missing)
        (draft / "store.json").write_text(json.dumps(asdict(self.about), indent=1), "utf-8")

    def pooled(self, text: Pieces, output: Output) -> _Pooled:
        """One batch's rows of every layer, in the store's precision."""
        read, found = output.texts[self.about.stack], output.hidden[self.about.stack]
        device, kind = found[0].device, _KINDS[self.about.kind][0]
        rows, places = self._placed(text.order.numpy(), read)
        states = torch.empty(len(found), len(rows), self.about.width, dtype=kind, device=device)
        infinite, there = [], torch.ones(0)
        pools: dict[torch.device, tuple[Pool, Tensor]] = {}  # of every card that layers are on
        for own, layer in zip(states, found, strict=True):
            if layer.device not in pools:
                pools[layer.device] = Pool.of(read.to(layer.device)), sent(places, layer.device)
            pool, chosen = pools[layer.device]
            words, owned = pool(layer)  # [batch, words, width], [batch, words]
            values, there = (part.to(device) for part in self._chosen(words, owned, chosen))
            own.copy_(values)
            infinite.append(values.isfinite().all() & ~own.isfinite().all())
        return _Pooled(rows, *_to_host(states, torch.stack(infinite), there))

    def write(self, made: _Pooled) -> None:
        """A number the store's precision cannot hold is an error, not an infinity."""
        made.arrived()
        if made.overflows.any():
            raise TooLargeError(
                f"layer {int(made.overflows.int().argmax())} has numbers too large for "
                f"{self.about.kind}.",
                where=self.about.model,
                remedy="Keep them as bf16 or fp32.",
            )
        kept = made.states.view(torch.int16) if self.about.kind == "bf16" else made.states
        for layer, values in zip(self.states, kept.numpy(), strict=True):
            layer[made.rows] = values
        self.missing[made.rows] = ~made.there.numpy()

    def _placed(
        self, documents: NDArray[np.int64], read: Pieces
    ) -> tuple[NDArray[np.int64], Tensor]:
        """The rows of these documents, and what each is made of in the batch.

        # [rows]; [rows], a word of the batch laid flat, or [3, rows] of spans: row, first, last + 1
        """
        if self.spans is None:
            offsets = self.batch.word_offsets
            rows = offsets[documents][:, None] + np.arange(words_of_rows(read))  # [batch, words]
            real = rows < offsets[documents + 1][:, None]
            return rows[real], torch.from_numpy(np.flatnonzero(real))
        place = np.full(len(self.batch), -1)
        place[documents] = np.arange(len(documents))
        rows = np.flatnonzero(place[self.spans[:, 0]] >= 0)
        first, last = self.spans[rows, 1:].T
        return rows, torch.from_numpy(np.stack([place[self.spans[rows, 0]], first, last]))

    def _chosen(self, words: Tensor, owned: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """States of the rows, and which of them have any.  # [rows, width], [rows]"""
        if self.spans is None:
            return words.flatten(0, 1).index_select(0, places), owned.flatten()[places]
        row, first, last = places  # means over ranges of words, from running sums
        before = torch.nn.functional.pad(words.double().cumsum(1), (0, 0, 1, 0))
        counts = torch.nn.functional.pad(owned.long().cumsum(1), (1, 0))  # [batch, words + 1]
        sums = before[row, last] - before[row, first]  # [spans, width]
        number = counts[row, last] - counts[row, first]  # [spans]
        return (sums / number.clamp(min=1)[:, None]).float(), number > 0


def _to_host(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor, Callable[[], object]]:
    """Copies in page-locked memory, on their way; the last says when they have arrived."""
    first, *_ = tensors
    if first.device.type != "cuda":
        return (*tensors, lambda: None)  # type: ignore[return-value]
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(first.device))
    return (*copies, event.synchronize)  # type: ignore[return-value]
