"""Encoded batches: the one form in which text crosses from corpora to models.

Everything is flat arrays with offsets, so a batch of any size is a dozen arrays, saves to one
safetensors file, and can be carried to a machine that has no spaCy. Texts stay raw: the model's own
tokenizer sees them as it would in production, and words are ranges of their characters. Costs the
bytes of the text, 9 bytes a word, and about 30 bytes an edge.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.files import parsed_json, require_regular, written_whole

FORMAT = "workbench-batch-1"


@dataclass(frozen=True)
class Edges:
    """Labelled edges of one layer; those of document d are `offsets[d]:offsets[d + 1]`."""

    names: tuple[str, ...]  # the label set, sorted
    offsets: NDArray[np.int64]  # [documents + 1]
    span1: NDArray[np.int32]  # [edges, 2], half-open over the document's words
    span2: NDArray[np.int32]  # [edges, 2], -1 where there is none
    label_offsets: NDArray[np.int64]  # [edges + 1]
    labels: NDArray[np.int32]  # [labels], indices into `names`


@dataclass(frozen=True)
class Targets:
    """What is said of whole texts: a class each (`names` given), or a score each (none)."""

    names: tuple[str, ...]
    values: NDArray[np.float64]  # [documents], index into `names` or score; NaN where unknown


@dataclass(frozen=True)
class Batch:
    """Texts, their words and their gold as flat arrays, and where in the corpus each came from.

    Example:
        >>> batch = wb.encode(wb.read("primer").docs("test", limit=1))
        >>> batch.words_of(0)[0].tolist()  # the first word's characters
        [0, 3]
    """

    text: NDArray[np.uint8]  # [bytes], UTF-8
    text_offsets: NDArray[np.int64]  # [documents + 1]
    words: NDArray[np.int32]  # [words, 2], character ranges in the document's text
    word_offsets: NDArray[np.int64]  # [documents + 1]
    segments: NDArray[np.int8]  # [words], 0, or 1 in the second text of a pair
    order: NDArray[np.int64]  # [documents], place in the corpus
    edges: Mapping[str, Edges] = field(default_factory=dict)
    targets: Mapping[str, Targets] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Its size and gold; not its numbers."""
        gold = ", ".join([*self.edges, *self.targets])
        return f"<Batch: {len(self)} texts, {len(self.words)} words{f'; {gold}' if gold else ''}>"

    def __len__(self) -> int:
        return len(self.order)

    def text_of(self, document: int) -> str:
        first, last = self.text_offsets[document : document + 2]
        return bytes(self.text[first:last]).decode("utf-8")

    def words_of(self, document: int) -> NDArray[np.int32]:
        """Character ranges of a document's words.  # [words, 2]"""
        first, last = self.word_offsets[document : document + 2]
        return self.words[first:last]


_ARRAYS = ("text", "text_offsets", "words", "word_offsets", "segments", "order")
_EDGE_ARRAYS = ("offsets", "span1", "span2", "label_offsets", "labels")


def save(batch: Batch, path: Path) -> None:
    """Write one safetensors file, whole or not at all."""
    from safetensors.numpy import save_file

    arrays = {name: getattr(batch, name) for name in _ARRAYS}
    for layer, edges in batch.edges.items():
        arrays |= {f"edges/{layer}/{name}": getattr(edges, name) for name in _EDGE_ARRAYS}
    for target, targets in batch.targets.items():
        arrays[f"targets/{target}"] = targets.values
    names = {
        "edges": {layer: edges.names for layer, edges in batch.edges.items()},
        "targets": {target: targets.names for target, targets in batch.targets.items()},
    }
    with written_whole(path) as draft:
        save_file(arrays, draft, metadata={"format": FORMAT, "names": json.dumps(names)})


def load(path: Path) -> Batch:
    """Read what `save` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(require_regular(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _not_a_batch(path, str(error)) from None
    if metadata.get("format") != FORMAT:
        raise _not_a_batch(path, f"its format is {metadata.get('format')!r}, not {FORMAT!r}")
    try:
        return _assemble(arrays, parsed_json(metadata["names"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _not_a_batch(path, f"it is incomplete ({error})") from None


def _assemble(arrays: dict[str, NDArray[Any]], names: dict[str, dict[str, list[str]]]) -> Batch:
    return Batch(
        **{name: arrays[name] for name in _ARRAYS},
        edges={
            layer: Edges(
                tuple(labels), **{name: arrays[f"edges/{layer}/{name}"] for name in _EDGE_ARRAYS}
            )
            for layer, labels in names["edges"].items()
        },
        targets={
            target: Targets(tuple(classes), arrays[f"targets/{target}"])
            for target, classes in names["targets"].items()
        },
    )


def _not_a_batch(path: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"not an encoded batch: {reason}.",
        where=str(path),
        remedy="Write it anew with workbench.corpora.encode and workbench.engine.batch.save.",
    )


# --- tokenised batches: what a model reads, and which word each of its pieces belongs to ----------
#
# A `Row` is one document in pieces (numpy, any length); `pad` lays rows side by side as the
# tensors a model takes. Padding is always on the right. A word of the corpus is in exactly one of
# three states: it owns at least one piece; it was cut off with the end of a text too long for the
# model (`cut`); or it is `unaligned`, for the tokenizer made nothing of it. A word that alone is
# longer than the model is cut and, since no shorter text would have saved it, counted as
# unaligned too. What a model reads moves to its device; what is known of each row stays on the
# host, where it is asked for: reading a number from a GPU waits for all that the GPU has to do.
# Costs 18 bytes a piece, padding included, 26 with segments.

NO_WORD = -1


@dataclass(frozen=True)
class Row:
    """One document in pieces."""

    ids: NDArray[np.int64]  # [pieces]
    words: NDArray[np.int64]  # [pieces], the word that owns each, or NO_WORD
    special: NDArray[np.bool_]  # [pieces], put there by the tokenizer: [CLS], </s>
    segments: NDArray[np.int64] | None  # [pieces], token type ids, where the model takes them
    word_count: int
    unaligned: tuple[int, ...] = ()  # words that own no piece, ascending
    cut: tuple[tuple[int, int], ...] = ()  # half-open ranges of words lost with the end of a text
    order: int = 0  # place in the corpus

    @property
    def kept(self) -> int:
        """How many words survived truncation."""
        return self.word_count - sum(last - first for first, last in self.cut)


@dataclass(frozen=True)
class Pieces:
    """A batch of documents in pieces, ready for a model.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> model.encode(wb.encode(wb.read("primer").docs("test", limit=1))).ids.shape
        torch.Size([1, 8])
    """

    ids: Tensor  # [batch, pieces], int64
    mask: Tensor  # [batch, pieces], bool: a real piece, not padding
    words: Tensor  # [batch, pieces], int64: the word that owns it; NO_WORD: special, padding, none
    special: Tensor  # [batch, pieces], bool
    segments: Tensor | None  # [batch, pieces], int64
    word_counts: Tensor  # [batch], int64, on the host
    kept: Tensor  # [batch], int64, on the host: the first `kept` words of a text; of a pair: `cut`
    order: Tensor  # [batch], int64, on the host: place in the corpus
    unaligned: tuple[tuple[int, int], ...] = ()  # (row, word) that own no piece
    cut: tuple[tuple[int, int, int], ...] = ()  # (row, first word, last word + 1) lost at an end
    unseen: Tensor | None = None  # [batch, pieces], bool: hidden from all others, without a mask

    def __repr__(self) -> str:
        """Its size; not its numbers."""
        rows, columns = self.ids.shape
        return f"<Pieces: {rows} texts of up to {columns} pieces, on {self.ids.device}>"

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def pieces(self) -> int:
        """In all rows, padding included."""
        return self.ids.numel()

    def halves(self) -> tuple["Pieces", "Pieces"]:
        """The first rows and the last, no wider than they need to be."""
        middle = len(self) // 2
        first, last = self.take(range(middle)), self.take(range(middle, len(self)))
        return first.narrowed(), last.narrowed()

    def narrowed(self, width: int | None = None) -> "Pieces":
        """The same rows without padding beyond `width`; by itself, what no row needs."""
        if width is None:
            width = max(int(self.mask.sum(1).max()), 1) if len(self) else 1
        return self._each(lambda tensor: tensor[:, :width])

    def to(self, device: torch.device | str) -> "Pieces":
        """The same batch on another device; the host does not wait for it."""
        place = torch.device(device)
        return self._each(lambda tensor: sent(tensor, place))

    def read_on(self, stream: "torch.cuda.Stream") -> "Pieces":
        """Keep the memory of a batch that was copied on another stream until this one is done."""

        def kept(tensor: Tensor) -> Tensor:
            tensor.record_stream(stream)
            return tensor

        return self._each(kept)

    def take(self, rows: Sequence[int] | Tensor) -> "Pieces":
        """These rows, in this order, as wide as before."""
        chosen = torch.as_tensor(rows, dtype=torch.int64).tolist()
        chosen = [range(len(self))[row] for row in chosen]
        index = torch.tensor(chosen, dtype=torch.int64)
        there = sent(index, self.ids.device)
        taken = self._each(lambda tensor: tensor[there])
        return replace(
            taken,
            word_counts=self.word_counts[index],
            kept=self.kept[index],
            order=self.order[index],
            unaligned=tuple(
                (new, word)
                for new, old in enumerate(chosen)
                for r, word in self.unaligned
                if r == old
            ),
            cut=tuple(
                (new, first, last)
                for new, old in enumerate(chosen)
                for r, first, last in self.cut
                if r == old
            ),
        )

    def begun(self, number: int, piece: int) -> "Pieces":
        """So many of a special piece before each text."""

        def behind(tensor: Tensor, first: int) -> Tensor:
            return torch.nn.functional.pad(tensor, (number, 0), value=first)

        return replace(
            self,
            ids=behind(self.ids, piece),
            mask=behind(self.mask, True),
            words=behind(self.words, NO_WORD),
            special=behind(self.special, True),
            segments=None if self.segments is None else behind(self.segments, 0),
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Pieces":
        """Change all that has a value for each piece."""
        return replace(
            self,
            ids=change(self.ids),
            mask=change(self.mask),
            words=change(self.words),
            special=change(self.special),
            segments=None if self.segments is None else change(self.segments),
            unseen=None if self.unseen is None else change(self.unseen),
        )


@dataclass(frozen=True)
class Flat:
    """Documents in pieces, end to end: what `lay` makes a batch of."""

    ids: NDArray[np.int64]  # [all pieces]
    words: NDArray[np.int64]  # [all pieces], each a word of its own document
    special: NDArray[np.bool_]  # [all pieces]
    segments: NDArray[np.int64] | None  # [all pieces]
    lengths: NDArray[np.int64]  # [documents], pieces
    word_counts: NDArray[np.int64]  # [documents]
    unaligned: tuple[tuple[int, int], ...]  # (document, word)
    cut: tuple[tuple[int, int, int], ...]  # (document, first word, last word + 1)


def pad(rows: Sequence[Row], pad_id: int = 0) -> Pieces:
    """Rows side by side, as wide as the longest, and at least one piece wide.

    A row without any piece (an empty text, a tokenizer that adds nothing) is all padding.
    """
    nothing = np.empty(0, dtype=np.int64)
    segments = [row.segments for row in rows if row.segments is not None]
    flat = Flat(
        ids=np.concatenate([nothing, *(row.ids for row in rows)]),
        words=np.concatenate([nothing, *(row.words for row in rows)]),
        special=np.concatenate([nothing.astype(np.bool_), *(row.special for row in rows)]),
        segments=np.concatenate(segments) if rows and len(segments) == len(rows) else None,
        lengths=np.array([len(row.ids) for row in rows], dtype=np.int64),
        word_counts=np.array([row.word_count for row in rows], dtype=np.int64),
        unaligned=tuple((place, word) for place, row in enumerate(rows) for word in row.unaligned),
        cut=tuple((place, *lost) for place, row in enumerate(rows) for lost in row.cut),
    )
    return lay(flat, np.array([row.order for row in rows], dtype=np.int64), pad_id)


def lay(flat: Flat, order: NDArray[np.int64], pad_id: int = 0) -> Pieces:
    """Documents side by side as a batch, padded as `pad` does."""
    width = max(1, int(flat.lengths.max(initial=0)))
    mask = np.arange(width) < flat.lengths[:, None]  # [batch, pieces]
    kept = flat.word_counts.copy()
    for place, first, last in flat.cut:
        kept[place] -= last - first
    return Pieces(
        ids=_filled(mask, flat.ids, pad_id),
        mask=torch.from_numpy(mask),
        words=_filled(mask, flat.words, NO_WORD),
        special=_filled(mask, flat.special, False),
        segments=None if flat.segments is None else _filled(mask, flat.segments, 0),
        word_counts=torch.from_numpy(flat.word_counts),
        kept=torch.from_numpy(kept),
        order=torch.from_numpy(order),
        unaligned=flat.unaligned,
        cut=flat.cut,
    )


def _filled(
    mask: NDArray[np.bool_], values: NDArray[np.int64] | NDArray[np.bool_], filler: int
) -> Tensor:
    """The values laid into the true cells of the mask, row by row."""
    cells = np.full(mask.shape, filler, dtype=values.dtype)  # [batch, pieces]
    cells[mask] = values
    return torch.from_numpy(cells)


# --- batches to the device ------------------------------------------------------------------------
#
# Tensors on their way to the device, without the host waiting for it.
#
# A copy from ordinary memory waits until the device has done all that was asked of it; from page-
# locked memory it does not. Costs a copy on the host.

D = TypeVar("D")


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on the device; to a GPU from pinned memory, without waiting."""
    if device.type == "cpu" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def all_sent(made: D, device: torch.device) -> D:
    """A dataclass with all tensors in it, and in what it holds, on the device."""
    found: Any = made
    if isinstance(found, Tensor):
        return sent(found, device)  # type: ignore[return-value]
    if isinstance(found, tuple):
        return tuple(all_sent(each, device) for each in found)  # type: ignore[return-value]
    if not is_dataclass(found):
        return made
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    sent_values = {name: all_sent(value, device) for name, value in values.items()}
    moved: Any = replace(found, **sent_values)  # type: ignore[type-var]
    return moved  # type: ignore[no-any-return]
