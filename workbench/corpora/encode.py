"""Encodes `Doc`s as one batch: raw text, words as character ranges, gold as flat arrays.

Costs: one pass over the Docs; see `workbench.engine.batch` for the format and its size.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.corpora.layers import Edge, edges, mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.engine.batch import Batch, Edges, Targets
    from workbench.engine.model import Model


@public
def encode(
    docs: "Iterable[Doc]", layers: Sequence[str] | str = (), targets: Sequence[str] | str = ()
) -> "Batch":
    """Encode Docs as one batch of flat arrays: texts, words and gold.

    A batch needs neither spaCy nor the corpus, so it can be moved to another machine.

    Args:
        docs: A corpus, or Docs.
        layers: Layers to include as labelled edges, such as `dependencies`.
        targets: Labels of whole texts to include, such as `sentiment`.

    Returns:
        A `Batch`; `model.encode(batch)` splits it into pieces.

    Raises:
        WorkbenchError: A layer is missing, or a label is a word in some texts and a number in
            others.

    Example:
        >>> batch = wb.encode(wb.read("primer").docs("test", limit=2), "dependencies")
        >>> len(batch), batch.text_of(0)
        (2, 'Ben walks to the hill.')
    """
    from workbench.engine.batch import Batch

    layers = (layers,) if isinstance(layers, str) else layers
    targets = (targets,) if isinstance(targets, str) else targets
    texts: list[bytes] = []
    words: list[tuple[int, int]] = []
    word_counts: list[int] = []
    segments: list[int] = []
    gold: dict[str, list[list[Edge]]] = {layer: [] for layer in layers}
    labels: dict[str, list[str | float | None]] = {target: [] for target in targets}
    for doc in docs:
        texts.append(doc.text.encode("utf-8"))
        words.extend((token.idx, token.idx + len(token)) for token in doc)
        word_counts.append(len(doc))
        second = len(doc)
        if len(parts := mentions(doc, "segments")) > 1:
            second = parts[1].start
        segments.extend(int(i >= second) for i in range(len(doc)))
        for layer in layers:
            gold[layer].append(edges(doc, layer))
        for target in targets:
            labels[target].append(doc._.labels.get(target))
    return Batch(
        text=np.frombuffer(b"".join(texts), dtype=np.uint8),
        text_offsets=_offsets([len(text) for text in texts]),
        words=np.array(words, dtype=np.int32).reshape(-1, 2),
        word_offsets=_offsets(word_counts),
        segments=np.array(segments, dtype=np.int8),
        order=np.arange(len(texts), dtype=np.int64),
        edges={layer: _edges(by_document) for layer, by_document in gold.items()},
        targets={target: _targets(target, values) for target, values in labels.items()},
    )


def doc_of(text: "str | Doc") -> "Doc":
    """A Doc unchanged; a text split into words by rules."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WorkbenchError(
            f"the text has a character that is not Unicode text: {text!a:.40}.",
            code="text-encoding",
            remedy="Remove lone surrogates, such as \\ud800.",
        ) from None
    from workbench.corpora.readers.text import tokenizer

    return tokenizer(None, "en")(text)


def _offsets(counts: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _edges(by_document: list[list[Edge]]) -> "Edges":
    from workbench.engine.batch import Edges

    flat = [edge for edges in by_document for edge in edges]
    names = tuple(sorted({label for edge in flat for label in edge.labels}))
    index = {name: i for i, name in enumerate(names)}
    return Edges(
        names=names,
        offsets=_offsets([len(edges) for edges in by_document]),
        span1=np.array([edge.span1 for edge in flat], dtype=np.int32).reshape(-1, 2),
        span2=np.array([edge.span2 or (-1, -1) for edge in flat], dtype=np.int32).reshape(-1, 2),
        label_offsets=_offsets([len(edge.labels) for edge in flat]),
        labels=np.array([index[label] for e in flat for label in e.labels], dtype=np.int32),
    )


def _targets(name: str, values: list[str | float | None]) -> "Targets":
    """Classes if the values are names, scores if they are numbers; a mix is an error."""
    from workbench.engine.batch import Targets

    known = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in known):
        names = tuple(sorted({str(value) for value in known}))
        index = {label: float(i) for i, label in enumerate(names)}
        numbers = [math.nan if value is None else index[str(value)] for value in values]
        return Targets(names, np.array(numbers, dtype=np.float64))
    if any(isinstance(value, str) for value in known):
        raise WorkbenchError(
            f"label {name!r} is a word in some texts and a number in others.",
            code="label-mixed",
            remedy="Use only words or only numbers for this label.",
        )
    numbers = [math.nan if value is None else float(value) for value in values]
    return Targets((), np.array(numbers, dtype=np.float64))


def content_key(model: "Model", doc: "Doc", target: "Doc | None" = None) -> str:
    """A hash of the content: weights, tokenizer, text, precision, device; and the model's name."""
    digest = hashlib.blake2b(digest_size=12)
    for part in (model.content_hash, model.precision, str(model.device), model.name):
        digest.update(part.encode() + b"\0")
    for text in (doc, target):
        if text is not None:
            ranges = [(token.idx, len(token)) for token in text]
            segments = [(s.start, s.end) for s in text.spans.get("segments", ())]
            digest.update(repr((text.text, ranges, segments)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
