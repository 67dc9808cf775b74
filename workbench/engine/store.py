"""Activations on disk: every layer's states of every word, or span, memory-mapped.

A store is a folder with one array `[layers + 1, rows, width]` and a description, named by the hash
of what it was made from: weights, tokenizer, texts, pooling. It is written beside its place and
moved there at the end, so a killed writer leaves nothing that reads as a store, and the same
question is answered from disk. Half precision by default: 2 bytes a number, so 10,000 sentences of
10 words through a BERT-base take 2 GB.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.engine.batch import Batch
from workbench.engine.model import Model, Output
from workbench.engine.passes import Progress, Report, run_over
from workbench.engine.pieces import Pieces
from workbench.engine.taps import StackName
from workbench.errors import WorkbenchError
from workbench.files import parsed_json, read_regular, require_regular, unwritable

Pooling = Literal["mean", "first", "last"]
FORMAT = "workbench-store-1"
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
    pooling: Pooling
    kind: str
    model: str
    format: str = FORMAT


@dataclass(frozen=True)
class Store:
    """An open store; nothing is read until a layer is asked for."""

    folder: Path
    description: Description
    missing: NDArray[np.bool_]  # [rows], words that own no piece and read as zero

    def layer(self, layer: int) -> Tensor:
        """States of one layer, memory-mapped.  # [rows, width]"""
        about = self.description
        if not 0 <= layer <= about.layers:
            raise WorkbenchError(
                f"there is no layer {layer}.",
                where=str(self.folder),
                remedy=f"Layers run from 0, the embeddings, to {about.layers}.",
            )
        array = np.load(
            self.folder / "states.npy", mmap_mode="c"
        )  # torch wants it writable; the file stays
        kept = torch.from_numpy(array[layer].view())  # [rows, width]
        return kept.view(_KINDS[about.kind][0])


def open_store(folder: Path) -> Store:
    """Open what `pooled` wrote."""
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


def pooled(
    model: Model,
    batch: Batch,
    home: Path,
    *,
    stack: StackName | None = None,
    spans: NDArray[np.int64] | None = None,
    pooling: Pooling = "mean",
    kind: str = "fp16",
    pieces: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> tuple[Store, Report | None]:
    """Every layer's states of every word of a batch, from disk where they are already there.

    With `spans` ([spans, 3]: document, first word, last word + 1) a row is a span, the mean of its
    words. `pooling` says how a word comes from its pieces. The report is None for a store found.
    """
    chosen = stack or model.stacks[-1].name
    stores, report = _stored(model, batch, home, [chosen], spans, pooling, kind, pieces, progress)
    return stores[chosen], report


def pooled_stacks(
    model: Model,
    batch: Batch,
    home: Path,
    *,
    pooling: Pooling = "mean",
    kind: str = "fp16",
    pieces: int | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> tuple[dict[StackName, Store], Report | None]:
    """Every layer's states of every word in every stack, from one pass; see `pooled`."""
    names = [stack.name for stack in model.stacks]
    return _stored(model, batch, home, names, None, pooling, kind, pieces, progress)


def _stored(
    model: Model,
    batch: Batch,
    home: Path,
    stacks: Sequence[StackName],
    spans: NDArray[np.int64] | None,
    pooling: Pooling,
    kind: str,
    pieces: int | None,
    progress: Callable[[Progress], object] | None,
) -> tuple[dict[StackName, Store], Report | None]:
    """A store for each stack; those that are not there yet are written in one pass."""
    if kind not in _KINDS:
        raise WorkbenchError(f"there is no kind {kind!r}.", remedy=f"Say {', '.join(_KINDS)}.")
    rows = len(batch.words) if spans is None else len(spans)
    places: dict[StackName, tuple[Path, Description]] = {}
    for name in stacks:
        layers = next((s.layers for s in model.stacks if s.name == name), None)
        if layers is None:
            names = ", ".join(s.name for s in model.stacks)
            raise WorkbenchError(f"{model.name} has no {name} stack.", remedy=f"It has {names}.")
        key = store_key(model, batch, name, spans, pooling, kind)
        about = Description(key, name, layers, rows, model.width, pooling, kind, model.name)
        places[name] = home / f"activations-{key}", about
    new = [place for place in places.values() if not place[0].is_dir()]
    report = _write(model, batch, new, spans, pieces, progress) if new else None
    return {name: open_store(folder) for name, (folder, _) in places.items()}, report


def store_key(
    model: Model,
    batch: Batch,
    stack: str,
    spans: NDArray[np.int64] | None,
    pooling: str,
    kind: str,
) -> str:
    """The hash of everything the numbers depend on, and of nothing else."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (FORMAT, model.content_hash, model.precision, stack, pooling, kind):
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

        def take(text: Pieces, output: Output) -> None:
            for writer in writers:
                writer.take(text, output)

        report = run_over(model, batch, take, pieces=pieces, progress=progress)
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

    def take(self, text: Pieces, output: Output) -> None:
        read = output.texts[self.about.stack]
        documents = text.order.cpu().numpy()  # [batch]
        for layer, found in enumerate(output.hidden[self.about.stack]):
            words, owned = by_word(found, read, self.about.pooling)  # [batch, words, width]
            if self.spans is None:
                rows, values, there = self._words(documents, words, owned)
            else:
                rows, values, there = self._spans(documents, words, owned, self.spans)
            self.states[layer, rows] = self._kept(values, layer)
            self.missing[rows] = ~there.cpu().numpy()

    def _words(
        self, documents: NDArray[np.int64], words: Tensor, owned: Tensor
    ) -> tuple[NDArray[np.int64], Tensor, Tensor]:
        starts, ends = self.batch.word_offsets[documents], self.batch.word_offsets[documents + 1]
        rows = starts[:, None] + np.arange(words.shape[1])  # [batch, words]
        real = rows < ends[:, None]
        chosen = torch.from_numpy(real).to(words.device)
        return rows[real], words[chosen], owned[chosen]

    def _spans(
        self,
        documents: NDArray[np.int64],
        words: Tensor,
        owned: Tensor,
        spans: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], Tensor, Tensor]:
        """Means over ranges of words, from running sums; a span of no owned word is missing."""
        place = np.full(len(self.batch), -1)
        place[documents] = np.arange(len(documents))
        rows = np.flatnonzero(place[spans[:, 0]] >= 0)
        row = torch.from_numpy(place[spans[rows, 0]]).to(words.device)  # [spans]
        first, last = torch.from_numpy(spans[rows, 1:].T.copy()).to(words.device)
        before = torch.nn.functional.pad(words.double().cumsum(1), (0, 0, 1, 0))
        counts = torch.nn.functional.pad(owned.long().cumsum(1), (1, 0))  # [batch, words + 1]
        sums = before[row, last] - before[row, first]  # [spans, width]
        number = counts[row, last] - counts[row, first]  # [spans]
        return rows, (sums / number.clamp(min=1)[:, None]).float(), number > 0

    def _kept(self, values: Tensor, layer: int) -> NDArray[Any]:
        """In the store's precision; a number it cannot hold is an error, not an infinity."""
        kept = values.to(_KINDS[self.about.kind][0]).cpu()
        if not bool(kept.isfinite().all()) and bool(values.isfinite().all()):
            raise TooLargeError(
                f"layer {layer} has numbers too large for {self.about.kind}.",
                where=self.about.model,
                remedy="Keep them as bf16 or fp32.",
            )
        return (kept.view(torch.int16) if self.about.kind == "bf16" else kept).numpy()


def by_word(states: Tensor, text: Pieces, pooling: Pooling) -> tuple[Tensor, Tensor]:
    """States of words from those of their pieces, and which words own any piece.

    The same bytes each time, on a GPU too: there `scatter_add_` adds in any order, so means are
    products.  # [batch, pieces, width] -> [batch, words, width], [batch, words]
    """
    batch, length, width = states.shape
    words = int(text.word_counts.max()) if len(text) else 0
    owned = text.words >= 0  # [batch, pieces]
    index = torch.where(owned, text.words, words)  # what no word owns goes to one place beyond
    counts = torch.zeros(batch, words + 1, device=states.device)
    counts.scatter_add_(1, index, torch.ones_like(index, dtype=counts.dtype))
    if pooling == "mean" and states.device.type != "cpu":
        found = _averaged(states, index, counts)
    elif pooling == "mean":
        sums = torch.zeros(batch, words + 1, width, device=states.device, dtype=torch.float32)
        sums.scatter_add_(1, index[..., None].expand(-1, -1, width), states.float())
        found = sums / counts.clamp(min=1)[..., None]
    else:
        place = torch.arange(length, device=states.device).expand(batch, length)
        worst = length if pooling == "first" else -1
        chosen = torch.full((batch, words + 1), worst, device=states.device)
        reduce = "amin" if pooling == "first" else "amax"
        chosen.scatter_reduce_(1, index, place, reduce)
        chosen = chosen.clamp(0, length - 1)
        found = states.gather(1, chosen[..., None].expand(-1, -1, width)).float()
    there = counts[:, :words] > 0
    return found[:, :words] * there[..., None], there


def _averaged(states: Tensor, index: Tensor, counts: Tensor) -> Tensor:
    """Means over the pieces of each word, as one product in float32.

    [batch, pieces, width], [batch, pieces], [batch, words + 1] -> [batch, words + 1, width]
    """
    words = torch.arange(counts.shape[1], device=states.device)
    shares = (index[:, None] == words[:, None]) / counts.clamp(min=1)[..., None]
    return shares @ states.float()  # [batch, words + 1, pieces] @ [batch, pieces, width]
