"""Activations on disk: the states of every word or span in every layer, memory-mapped.

A store is a folder with one array `[layers + 1, rows, width]` and a description. Its name is the
hash of its inputs: weights, tokenizer and texts, so the same request is read from disk. It is
written to a temporary folder and renamed at the end, so a killed writer leaves no incomplete store.
The layers of a batch are pooled on the device and copied to the host together; a thread writes them
while the next batch is computed. Costs: 2 bytes per number in half precision (the default), so
10,000 sentences of 10 words through BERT-base take 2 GB on disk; in memory twice one batch's share.
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
from workbench.core.files import read_json, reason_of, require_regular, unwritable
from workbench.core.public import public
from workbench.engine.batch import Batch, Pieces, sent
from workbench.engine.forward_pass import Progress, Report, forward
from workbench.engine.model import Model, Output, not_a_number
from workbench.engine.taps import StackName
from workbench.engine.words import Pool, max_words

FORMAT = "workbench-store-2"
_KINDS: dict[str, tuple[torch.dtype, Any]] = {  # torch's type, and the type stored by numpy
    "fp16": (torch.float16, np.float16),
    "bf16": (torch.bfloat16, np.int16),
    "fp32": (torch.float32, np.float32),
}


class TooLargeError(WorkbenchError):
    """States that the requested number format cannot hold."""


@dataclass(frozen=True)
class Description:
    """What a store holds, and its inputs."""

    key: str
    stack: StackName
    layers: int  # number of blocks; the store has one more array (the embeddings)
    rows: int
    width: int
    kind: str
    model: str
    format: str = FORMAT


@dataclass(frozen=True)
class Store:
    """An open store; a layer is read when it is requested."""

    folder: Path
    description: Description
    missing: NDArray[np.bool_]  # [rows], words without a piece, whose states are zero

    def __repr__(self) -> str:
        """What it holds and where it lies."""
        about = self.description
        size = f"{about.layers + 1} layers x {about.rows} rows x {about.width}, {about.kind}"
        return f"<Store {about.model} {about.stack}: {size}; {self.folder}>"

    def layer(self, layer: int) -> Tensor:
        """The states of one layer, memory-mapped.  # [rows, width]"""
        description = self.description
        if not 0 <= layer <= description.layers:
            raise WorkbenchError(
                f"there is no layer {layer}.",
                code="layer-missing",
                where=str(self.folder),
                remedy=f"Choose a layer from 0 (the embeddings) to {description.layers}.",
            )
        try:
            path = require_regular(self.folder / "states.npy")
            array = np.load(path, mmap_mode="c")  # torch needs it writable; the file is not changed
            states = torch.from_numpy(array[layer].view())  # [rows, width]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise _unreadable(self.folder, reason_of(error)) from None
        return states.view(_KINDS[description.kind][0])


def open_store(folder: Path) -> Store:
    """Open what `word_states` wrote."""
    try:
        content = read_json(folder / "store.json")
        missing = np.load(require_regular(folder / "missing.npy"))
        description = Description(**content)
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(folder, str(error)) from None
    if description.format != FORMAT:
        raise _unreadable(folder, f"its format is {description.format!r}")
    return Store(folder, description, missing)


def _unreadable(folder: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"this activation store cannot be read: {reason}.",
        code="file-format",
        where=str(folder),
        remedy="Delete the folder; it is computed again when needed.",
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
    """Compute the states of every word or span in every layer, or read them from disk.

    A store's name is the hash of weights, tokenizer and texts; its states are memory-mapped. A
    word's state is the mean of its pieces. A word without a piece, such as one beyond the model's
    maximum length, has a state of zeros, and `missing` of its store marks it. Stores that are not
    on disk are written in one forward pass.

    Args:
        model: A `Model`.
        batch: Texts, from `wb.encode`.
        home: The folder for stores.
        stacks: `encoder`, `decoder` or both (default: all stacks).
        spans: [spans, 3]: document, first word, last word + 1. Each row is then a span, the mean of
            its words (default: each row is a word).
        kind: Number format on disk: `fp16`, `bf16` or `fp32` (default: `fp16`).
        pieces: Maximum number of pieces in a batch, padding included.
        progress: Called with a `Progress` after each batch.

    Returns:
        The store of each stack, and a report of the pass (None if all stores were on disk).

    Raises:
        WorkbenchError: A store on disk is damaged, the number format cannot hold the states, or a
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
        raise WorkbenchError(
            f"there is no number format {kind!r}.",
            code="setting-invalid",
            remedy=f"Choose {', '.join(_KINDS)}.",
        )
    _require_spans(batch, spans)
    layers = {stack.name: stack.layers for stack in model.stacks}
    rows = len(batch.words) if spans is None else len(spans)
    stores: dict[StackName, tuple[Path, Description]] = {}
    for name in layers if stacks is None else (stacks,) if isinstance(stacks, str) else stacks:
        if name not in layers:
            raise WorkbenchError(
                f"{model.name} has no {name} stack.",
                code="setting-invalid",
                remedy=f"Its stacks are {', '.join(layers)}.",
            )
        key = store_key(model, batch, name, spans, kind)
        description = Description(key, name, layers[name], rows, model.width, kind, model.name)
        stores[name] = Path(home) / f"activations-{key}", description
    missing = [store for store in stores.values() if not store[0].is_dir()]
    report = _write(model, batch, missing, spans, pieces, progress) if missing else None
    return {name: open_store(folder) for name, (folder, _) in stores.items()}, report


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
    """The hash of everything that the states depend on."""
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
    stores: Sequence[tuple[Path, Description]],
    spans: NDArray[np.int64] | None,
    pieces: int | None,
    progress: Callable[[Progress], object] | None,
) -> Report:
    home = stores[0][0].parent
    drafts: list[Path] = []
    try:
        home.mkdir(parents=True, exist_ok=True)
        writers = []
        for _, description in stores:
            drafts.append(Path(tempfile.mkdtemp(prefix=".writing-", dir=home)))
            writers.append(_Writer.into(drafts[-1], batch, spans, description))

        with _BackgroundWriter() as background:

            def pool_and_write(text: Pieces, output: Output) -> None:
                pooled = [writer.pooled(text, output) for writer in writers]
                background.do(*(partial(w.write, m) for w, m in zip(writers, pooled, strict=True)))

            report = forward(model, batch, pool_and_write, pieces=pieces, progress=progress)
        for (folder, _), draft, writer in zip(stores, drafts, writers, strict=True):
            writer.finish(draft)
            _rename_draft(draft, folder)
        return report
    except OSError as error:
        raise unwritable(home, error) from None
    finally:
        for draft in drafts:
            shutil.rmtree(draft, ignore_errors=True)


def _rename_draft(draft: Path, folder: Path) -> None:
    """Rename; if another process was faster, its store is equivalent and is kept."""
    try:
        draft.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


class _BackgroundWriter:
    """A thread that writes one batch while the next is computed; errors are raised on waiting."""

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
    """The rows of one batch in all layers, being copied to the host."""

    rows: NDArray[np.int64]  # [rows], their indices in the store
    states: Tensor  # [layers + 1, rows, width]
    broken: Tensor  # [layers + 1], whether a number of the model is none (NaN) or infinite
    overflows: Tensor  # [layers + 1], whether a number became infinite
    has_state: Tensor  # [rows], whether the row has a word with a piece
    arrived: Callable[[], object]  # waits for the copies


@dataclass
class _Writer:
    """Writes the words or spans of each batch to their rows of a store."""

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
        """The rows of one batch in every layer, in the store's precision."""
        pieces, layers = output.texts[self.about.stack], output.hidden[self.about.stack]
        device, kind = layers[0].device, _KINDS[self.about.kind][0]
        rows, positions = self._rows_of(text.order.numpy(), pieces)
        states = torch.empty(len(layers), len(rows), self.about.width, dtype=kind, device=device)
        broken, infinite, has_state = [], [], torch.ones(0)
        pools: dict[torch.device, tuple[Pool, Tensor]] = {}  # of every device with layers
        for stored, layer in zip(states, layers, strict=True):
            if layer.device not in pools:
                pools[layer.device] = (
                    Pool.of(pieces.to(layer.device)),
                    sent(positions, layer.device),
                )
            pool, chosen_rows = pools[layer.device]
            words, owned = pool(layer)  # [batch, words, width], [batch, words]
            values, has_state = (
                part.to(device) for part in self._chosen(words, owned, chosen_rows)
            )
            stored.copy_(values)
            is_sound = values.isfinite().all(1)  # [rows]
            broken.append((has_state & ~is_sound).any())
            infinite.append((is_sound & ~stored.isfinite().all(1)).any())
        return _Pooled(
            rows, *_to_host(states, torch.stack(broken), torch.stack(infinite), has_state)
        )

    def write(self, pooled: _Pooled) -> None:
        """Write a batch; raises if a number is none, or overflows the store's precision."""
        pooled.arrived()
        if pooled.broken.any():
            layer = int(pooled.broken.int().argmax())
            raise not_a_number(self.about.model, f"some texts (state of layer {layer})")
        if pooled.overflows.any():
            raise TooLargeError(
                f"layer {int(pooled.overflows.int().argmax())} has numbers too large for "
                f"{self.about.kind}.",
                code="states-overflow",
                where=self.about.model,
                remedy="Store the states as bf16 or fp32.",
            )
        states = pooled.states.view(torch.int16) if self.about.kind == "bf16" else pooled.states
        for layer, values in zip(self.states, states.numpy(), strict=True):
            layer[pooled.rows] = values
        self.missing[pooled.rows] = ~pooled.has_state.numpy()

    def _rows_of(
        self, documents: NDArray[np.int64], pieces: Pieces
    ) -> tuple[NDArray[np.int64], Tensor]:
        """The store rows of these documents, and the position of each in the batch.

        # [rows]; [rows], index into the batch's flattened words, or [3, rows] for spans: batch row,
        # first word, last word + 1
        """
        if self.spans is None:
            offsets = self.batch.word_offsets
            rows = offsets[documents][:, None] + np.arange(max_words(pieces))  # [batch, words]
            exists = rows < offsets[documents + 1][:, None]
            return rows[exists], torch.from_numpy(np.flatnonzero(exists))
        batch_row = np.full(len(self.batch), -1)
        batch_row[documents] = np.arange(len(documents))
        rows = np.flatnonzero(batch_row[self.spans[:, 0]] >= 0)
        first, last = self.spans[rows, 1:].T
        return rows, torch.from_numpy(np.stack([batch_row[self.spans[rows, 0]], first, last]))

    def _chosen(self, words: Tensor, owned: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The states of the rows, and the mask of rows with a state.  # [rows, width], [rows]"""
        if self.spans is None:
            return words.flatten(0, 1).index_select(0, positions), owned.flatten()[positions]
        row, first, last = positions  # means over word ranges, from cumulative sums
        before = torch.nn.functional.pad(words.double().cumsum(1), (0, 0, 1, 0))
        counts = torch.nn.functional.pad(owned.long().cumsum(1), (1, 0))  # [batch, words + 1]
        sums = before[row, last] - before[row, first]  # [spans, width]
        n_words = counts[row, last] - counts[row, first]  # [spans]
        return (sums / n_words.clamp(min=1)[:, None]).float(), n_words > 0


def _to_host(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Callable[[], object]]:
    """Start copies to page-locked host memory; the last value is a function that waits for them."""
    first, *_ = tensors
    if first.device.type != "cuda":
        return (*tensors, lambda: None)  # type: ignore[return-value]
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(first.device))
    return (*copies, event.synchronize)  # type: ignore[return-value]
