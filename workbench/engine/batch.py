"""Encoded batches: the one form in which text crosses from corpora to models.

Everything is flat arrays with offsets, so a batch of any size is a dozen arrays, saves to one
safetensors file, and can be carried to a machine that has no spaCy. Texts stay raw: the model's own
tokenizer sees them as it would in production, and words are ranges of their characters. Costs the
bytes of the text, 9 bytes a word, and about 30 bytes an edge.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.errors import WorkbenchError
from workbench.files import parsed_json, require_regular, written_whole

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
    """Texts, their words, their gold, and where in the corpus each came from."""

    text: NDArray[np.uint8]  # [bytes], UTF-8
    text_offsets: NDArray[np.int64]  # [documents + 1]
    words: NDArray[np.int32]  # [words, 2], character ranges in the document's text
    word_offsets: NDArray[np.int64]  # [documents + 1]
    segments: NDArray[np.int8]  # [words], 0, or 1 in the second text of a pair
    order: NDArray[np.int64]  # [documents], place in the corpus
    edges: Mapping[str, Edges] = field(default_factory=dict)
    targets: Mapping[str, Targets] = field(default_factory=dict)

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
