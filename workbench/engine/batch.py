"""Encoded batches: the format in which text passes from corpora to models.

A batch is a dozen flat arrays with offsets. It is saved to one safetensors file and can be used on
a machine without spaCy. Texts stay raw: the model's tokenizer sees them as in production, and words
are character ranges. Costs: the bytes of the text, 9 bytes per word, and about 30 bytes per edge.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, parse_json, require_regular

FORMAT = "workbench-batch-1"


@dataclass(frozen=True)
class Edges:
    """Labelled edges of one layer; document d has the edges `offsets[d]:offsets[d + 1]`."""

    names: tuple[str, ...]  # the label set, sorted
    offsets: NDArray[np.int64]  # [documents + 1]
    span1: NDArray[np.int32]  # [edges, 2], half-open word ranges in the document
    span2: NDArray[np.int32]  # [edges, 2], -1 without a second span
    label_offsets: NDArray[np.int64]  # [edges + 1]
    labels: NDArray[np.int32]  # [labels], indices into `names`


@dataclass(frozen=True)
class Targets:
    """Labels of whole texts: a class per text (with `names`), or a score per text (without)."""

    names: tuple[str, ...]
    values: NDArray[np.float64]  # [documents], index into `names`, or score; NaN if unknown


@dataclass(frozen=True)
class Batch:
    """Texts, words and gold labels as flat arrays, and each text's index in the corpus.

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
    order: NDArray[np.int64]  # [documents], index in the corpus
    edges: Mapping[str, Edges] = field(default_factory=dict)
    targets: Mapping[str, Targets] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Its size and gold; not its numbers."""
        gold = ", ".join([*self.edges, *self.targets])
        return f"<Batch: {len(self)} texts, {len(self.words)} words{f'; {gold}' if gold else ''}>"

    def __len__(self) -> int:
        return len(self.order)

    def text_of(self, document: int) -> str:
        """The text of a document."""
        first, last = self.text_offsets[document : document + 2]
        return bytes(self.text[first:last]).decode("utf-8")

    def words_of(self, document: int) -> NDArray[np.int32]:
        """Character ranges of a document's words.  # [words, 2]"""
        first, last = self.word_offsets[document : document + 2]
        return self.words[first:last]


def text_of_span(batch: Batch, document: int, span: tuple[int, int]) -> str:
    """The text of a span of words, half-open."""
    ranges = batch.words_of(document)
    return batch.text_of(document)[ranges[span[0]][0] : ranges[span[1] - 1][1]]


def batch_of(texts: Sequence[str], words: Sequence[Sequence[tuple[int, int]]]) -> Batch:
    """A batch of some texts; the words of each are character ranges."""
    raw = [text.encode("utf-8") for text in texts]
    counts = [len(each) for each in words]
    return Batch(
        text=np.frombuffer(b"".join(raw), dtype=np.uint8),
        text_offsets=np.cumsum([0, *map(len, raw)], dtype=np.int64),
        words=np.array([each for own in words for each in own], dtype=np.int32).reshape(-1, 2),
        word_offsets=np.cumsum([0, *counts], dtype=np.int64),
        segments=np.zeros(sum(counts), dtype=np.int8),
        order=np.arange(len(raw), dtype=np.int64),
    )


def one_text(text: str, words: Iterable[tuple[int, int]]) -> Batch:
    """A batch of one text; `words` are character ranges."""
    return batch_of([text], [list(words)])


def of_texts(texts: Sequence[str]) -> Batch:
    """A batch of texts, whose words are what white space separates."""
    return batch_of(texts, [[word.span() for word in re.finditer(r"\S+", text)] for text in texts])


_ARRAYS = ("text", "text_offsets", "words", "word_offsets", "segments", "order")
_EDGE_ARRAYS = ("offsets", "span1", "span2", "label_offsets", "labels")


def save(batch: Batch, path: Path) -> None:
    """Write a batch to one safetensors file, atomically."""
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
    with atomic_write(path) as draft:
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
        return _assemble(arrays, parse_json(metadata["names"]))
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
        f"this file is not an encoded batch: {reason}.",
        code="file-format",
        where=str(path),
        remedy="Write it again with workbench.corpora.encode and workbench.engine.batch.save.",
    )


# --- tokenised batches: a model's input, and the word of each piece -------------------------------
#
# A `Row` is one document in pieces (numpy, any length); `pad` stacks rows into the tensors that a
# model takes. Padding is always on the right. A word of the corpus is in exactly one of three
# states: it has at least one piece; it was cut off at the end of a text too long for the model
# (`cut`); or it is `unaligned`, because the tokenizer produced no piece for it. A word that alone
# is longer than the model's maximum is cut, and also counts as unaligned. The model's inputs move
# to its device. Facts about rows stay on the host, because reading a number from a GPU waits for
# all its pending work. Costs: 18 bytes per piece, padding included; 26 with segments.

NO_WORD = -1


@dataclass(frozen=True)
class Row:
    """One document in pieces."""

    ids: NDArray[np.int64]  # [pieces]
    words: NDArray[np.int64]  # [pieces], the word of each piece, or NO_WORD
    special: NDArray[np.bool_]  # [pieces], added by the tokenizer: [CLS], </s>
    segments: NDArray[np.int64] | None  # [pieces], token type ids, if the model uses them
    word_count: int
    unaligned: tuple[int, ...] = ()  # words without a piece, ascending
    cut: tuple[tuple[int, int], ...] = ()  # half-open ranges of words cut off at the end of a text
    order: int = 0  # index in the corpus

    @property
    def kept(self) -> int:
        """Number of words that were not cut off."""
        return self.word_count - sum(last - first for first, last in self.cut)


@dataclass(frozen=True)
class Pieces:
    """A batch of documents in pieces: the input of a model.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> model.encode(wb.encode(wb.read("primer").docs("test", limit=1))).ids.shape
        torch.Size([1, 8])
    """

    ids: Tensor  # [batch, pieces], int64
    mask: Tensor  # [batch, pieces], bool: a piece, not padding
    words: Tensor  # [batch, pieces], int64: the word of the piece, or NO_WORD
    special: Tensor  # [batch, pieces], bool
    segments: Tensor | None  # [batch, pieces], int64
    word_counts: Tensor  # [batch], int64, on the host
    kept: Tensor  # [batch], int64, on the host: number of words not cut off
    order: Tensor  # [batch], int64, on the host: index in the corpus
    unaligned: tuple[tuple[int, int], ...] = ()  # (row, word) of words without a piece
    cut: tuple[tuple[int, int, int], ...] = ()  # (row, first word, last word + 1) cut off
    # [batch, pieces], or by the piece that looks [batch, pieces, pieces]; bool: hidden without mask
    unseen: Tensor | None = None

    def __repr__(self) -> str:
        """Its size; not its numbers."""
        rows, columns = self.ids.shape
        return f"<Pieces: {rows} texts of up to {columns} pieces, on {self.ids.device}>"

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def pieces(self) -> int:
        """Number of pieces in all rows, padding included."""
        return self.ids.numel()

    def halves(self) -> tuple["Pieces", "Pieces"]:
        """The first and the last half of the rows, each without unneeded padding."""
        middle = len(self) // 2
        first, last = self.take(range(middle)), self.take(range(middle, len(self)))
        return first.narrowed(), last.narrowed()

    def narrowed(self, width: int | None = None) -> "Pieces":
        """The rows cut to `width` pieces (default: the longest row)."""
        if width is None:
            width = max(int(self.mask.sum(1).max()), 1) if len(self) else 1
        return self._each(lambda tensor: tensor[:, :width])

    def columns(self, chosen: Tensor) -> "Pieces":
        """The rows with some of their pieces only, in the given order.  # [kept], indices"""
        return self._each(lambda tensor: tensor[:, chosen.to(tensor.device)])

    def to(self, device: torch.device | str) -> "Pieces":
        """The batch on another device; the host does not wait for the copy."""
        target = torch.device(device)
        return self._each(lambda tensor: sent(tensor, target))

    def read_on(self, stream: "torch.cuda.Stream") -> "Pieces":
        """Keep the memory of a batch copied on another stream until this stream is done."""

        def record(tensor: Tensor) -> Tensor:
            tensor.record_stream(stream)
            return tensor

        return self._each(record)

    def take(self, rows: Sequence[int] | Tensor) -> "Pieces":
        """The given rows, in this order, at the same width."""
        chosen = torch.as_tensor(rows, dtype=torch.int64).tolist()
        chosen = [range(len(self))[row] for row in chosen]
        index = torch.tensor(chosen, dtype=torch.int64)
        on_device = sent(index, self.ids.device)
        pieces = self._each(lambda tensor: tensor[on_device])
        return replace(
            pieces,
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

    def prefixed(self, count: int, piece: int) -> "Pieces":
        """The batch with a special piece `count` times before each text."""

        def prefix(tensor: Tensor, value: int) -> Tensor:
            return torch.nn.functional.pad(tensor, (count, 0), value=value)

        return replace(
            self,
            ids=prefix(self.ids, piece),
            mask=prefix(self.mask, True),
            words=prefix(self.words, NO_WORD),
            special=prefix(self.special, True),
            segments=None if self.segments is None else prefix(self.segments, 0),
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Pieces":
        """Apply a function to all tensors with a value per piece."""
        return replace(
            self,
            ids=change(self.ids),
            mask=change(self.mask),
            words=change(self.words),
            special=change(self.special),
            segments=None if self.segments is None else change(self.segments),
            unseen=None if self.unseen is None else change(self.unseen),
        )


def joined(texts: Sequence[Pieces]) -> Pieces:
    """The rows of several batches of the same width, in order."""
    first = texts[0]

    def of(name: str) -> Any:
        tensors = [getattr(text, name) for text in texts]
        return None if tensors[0] is None else torch.cat(tensors)

    names = ("ids", "mask", "words", "special", "segments", "word_counts", "kept", "order")
    return replace(first, **{name: of(name) for name in (*names, "unseen")})


def of_ids(
    texts: Tensor | list[list[int]],
    pad_id: int,
    n_pieces: int | None,
    longest: int | None,
    padding: Collection[int | None] = (),
) -> Pieces:
    """Texts that are given as ids of pieces, each of which counts as a word; no piece is added.

    A text that begins or ends with two pieces of `padding` was padded, and is refused.
    """
    rows = []
    for index, text in enumerate(texts):
        ids = torch.as_tensor(text)
        fits = ids.ndim == 1 and not ids.is_floating_point() and 0 < len(ids) <= (longest or 2**31)
        if not fits or ids.min() < 0 or ids.max() >= (n_pieces or 2**31):
            raise WorkbenchError(
                f"text {index} is not of ids that the model reads: {ids.tolist()!s:.60}.",
                code="setting-invalid",
                remedy=f"Write one id at least, {longest or 'any number of'} at most, from 0 to "
                f"{(n_pieces or 2**31) - 1}.",
            )
        ends = ids[:2].tolist(), ids[-2:].tolist()
        if len(ids) > 2 and any(one == two and one in padding for one, two in ends):
            raise WorkbenchError(
                f"text {index} is padded, and each id counts as a piece: {ids.tolist()!s:.60}.",
                code="setting-invalid",
                remedy="Pass a list for each text, without padding: tokenizer(texts).input_ids.",
            )
        words = np.arange(len(ids))
        rows.append(Row(np.array(ids.tolist()), words, words < 0, None, len(ids), order=index))
    return pad(rows, pad_id)


@dataclass(frozen=True)
class Flat:
    """Concatenated documents in pieces: the input of `lay`."""

    ids: NDArray[np.int64]  # [all pieces]
    words: NDArray[np.int64]  # [all pieces], the word of each piece in its document
    special: NDArray[np.bool_]  # [all pieces]
    segments: NDArray[np.int64] | None  # [all pieces]
    lengths: NDArray[np.int64]  # [documents], number of pieces
    word_counts: NDArray[np.int64]  # [documents]
    unaligned: tuple[tuple[int, int], ...]  # (document, word)
    cut: tuple[tuple[int, int, int], ...]  # (document, first word, last word + 1)


def pad(rows: Sequence[Row], pad_id: int = 0) -> Pieces:
    """Rows stacked into a batch as wide as the longest row, and at least one piece wide.

    A row without pieces (an empty text, no special pieces) is all padding.
    """
    empty = np.empty(0, dtype=np.int64)
    segments = [row.segments for row in rows if row.segments is not None]
    flat = Flat(
        ids=np.concatenate([empty, *(row.ids for row in rows)]),
        words=np.concatenate([empty, *(row.words for row in rows)]),
        special=np.concatenate([empty.astype(np.bool_), *(row.special for row in rows)]),
        segments=np.concatenate(segments) if rows and len(segments) == len(rows) else None,
        lengths=np.array([len(row.ids) for row in rows], dtype=np.int64),
        word_counts=np.array([row.word_count for row in rows], dtype=np.int64),
        unaligned=tuple((index, word) for index, row in enumerate(rows) for word in row.unaligned),
        cut=tuple((index, *cut_range) for index, row in enumerate(rows) for cut_range in row.cut),
    )
    return lay(flat, np.array([row.order for row in rows], dtype=np.int64), pad_id)


def lay(flat: Flat, order: NDArray[np.int64], pad_id: int = 0) -> Pieces:
    """Concatenated documents as a padded batch, as in `pad`."""
    width = max(1, int(flat.lengths.max(initial=0)))
    mask = np.arange(width) < flat.lengths[:, None]  # [batch, pieces]
    kept = flat.word_counts.copy()
    for index, first, last in flat.cut:
        kept[index] -= last - first
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
    """The values in the true cells of the mask, row by row."""
    cells = np.full(mask.shape, filler, dtype=values.dtype)  # [batch, pieces]
    cells[mask] = values
    return torch.from_numpy(cells)


# --- batches to the device ------------------------------------------------------------------------
#
# Tensors are copied to the device without the host waiting.
#
# A copy from ordinary memory waits until the device has finished all pending work; a copy from
# page-locked memory does not. Costs: a copy on the host.

D = TypeVar("D")


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; copied to a GPU from pinned memory, without waiting."""
    if device.type == "cpu" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def all_sent(value: D, device: torch.device) -> D:
    """The value with all tensors in it, nested dataclasses and tuples included, on the device."""
    item: Any = value
    if isinstance(item, Tensor):
        return sent(item, device)  # type: ignore[return-value]
    if isinstance(item, tuple):
        return tuple(all_sent(each, device) for each in item)  # type: ignore[return-value]
    if not is_dataclass(item):
        return value
    parts = {each.name: getattr(item, each.name) for each in fields(item)}
    moved_parts = {name: all_sent(part, device) for name, part in parts.items()}
    moved: Any = replace(item, **moved_parts)  # type: ignore[type-var]
    return moved  # type: ignore[no-any-return]
