"""Indices of passages: BM25, and vectors in half precision, kept as files in Workbench's cache.

    index = bm25_index(texts)
    indices, scores = index.top(["who walks to the hill"], 5)  # [queries, 5] each

A file's name is a hash of all that it was made of. BM25 is that of `bm25s` (as in Lucene: k1 = 1.5,
b = 0.75), over words in lower case, neither stemmed nor stopped. A vector is the mean of a text's
states in one layer, minus the mean of all passages, with norm 1; more than 128 dimensions are
projected on the first 128 principal components of the first 20,000 passages. Search is exact:
every passage is scored, in blocks of a memory-mapped file. Costs: 20 µs a passage to index for
BM25, a forward pass for vectors, and 0.3 GB for a million of them. Time of a query grows with the
number of passages: see `tests/benchmarks/retrieval.py`.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import bm25s
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor

from workbench.core import machine
from workbench.core.arrays import Floats, Ints
from workbench.core.files import atomic_write, parse_json, require_regular
from workbench.corpora.encode import doc_of, encode
from workbench.engine.batch import Pieces
from workbench.engine.forward_pass import forward
from workbench.engine.model import Model, Output, not_a_number

FORMAT = "workbench-passages-1"
WORD = r"(?u)\w+"  # what BM25 counts, in lower case
WIDTH = 128  # maximum number of dimensions of a vector
AT_ONCE = 20_000  # passages whose vectors are computed together; the first ones choose projections
BLOCK = 16_384  # vectors in single precision at a time
SHARPNESS = 20.0  # of cosines, to make them the logits of a passage's probability

Embed = Callable[[Sequence[str]], Tensor]  # texts -> [texts, width], float32
OnProgress = Callable[[int, int], object]  # texts done, texts in total


class Index(Protocol):
    """Passages that are searched; scores are logits of the passages' probabilities."""

    def top(self, queries: Sequence[str], k: int) -> tuple[Ints, Floats]:
        """The best k passages of each query and their scores.  # [queries, k] each"""
        ...


def _file(texts: Sequence[str], *facts: object) -> Path:
    """The file of an index in the cache, by the content of the passages and other facts."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((FORMAT, len(texts), *facts)).encode())
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return machine.home() / "passages" / f"{digest.hexdigest()}.safetensors"


def _saved(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    with atomic_write(path) as draft:
        save_file(arrays, draft, metadata={"format": FORMAT})


def _opened(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, memory-mapped."""
    with safe_open(require_regular(path), framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


# --- BM25 -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bm25:
    """Passages by the words that they share with a query."""

    table: bm25s.BM25

    def scores(self, query: str) -> NDArray[np.float32]:
        """The score of every passage.  # [passages]"""
        words = _words([query], ids=False)[0]
        found: NDArray[np.float32] = self.table.get_scores_from_ids(
            self.table.get_tokens_ids(words)
        )
        return found

    def top(self, queries: Sequence[str], k: int) -> tuple[Ints, Floats]:
        rows = [torch.from_numpy(self.scores(query)).topk(k) for query in queries]
        return (
            np.stack([row.indices.numpy() for row in rows]),
            np.stack([row.values.double().numpy() for row in rows]),
        )


def bm25_index(texts: Sequence[str]) -> Bm25:
    """The index of some passages, from the cache if it is there."""
    table, path = bm25s.BM25(), _file(texts, "bm25", WORD)
    if not path.is_file():
        table.index(_words(texts, ids=True), show_progress=False)
        vocabulary = json.dumps(list(table.vocab_dict.items())).encode()
        names = ("data", "indices", "indptr")
        arrays = {name: np.asarray(table.scores[name]) for name in names}
        _saved(path, {**arrays, "vocabulary": np.frombuffer(vocabulary, np.uint8)})
    arrays = {name: tensor.numpy() for name, tensor in _opened(path).items()}
    table.vocab_dict = dict(parse_json(arrays.pop("vocabulary").tobytes()))
    table.scores = {**arrays, "num_docs": len(texts)}
    table.nonoccurrence_array = None
    return Bm25(table)


def _words(texts: Sequence[str], ids: bool) -> Any:
    return bm25s.tokenize(
        list(texts), token_pattern=WORD, stopwords=[], return_ids=ids, show_progress=False
    )


# --- vectors --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Vectors:
    """Passages by the cosine of their vectors with that of a query."""

    rows: Tensor  # [passages, width], float16, often memory-mapped
    embed: Embed

    def top(self, queries: Sequence[str], k: int) -> tuple[Ints, Floats]:
        wanted = self.embed(queries)  # [queries, width]
        best = torch.full((len(queries), k), -torch.inf)
        found = torch.zeros((len(queries), k), dtype=torch.int64)
        room = torch.empty(min(BLOCK, len(self.rows)), self.rows.shape[1])
        for start in range(0, len(self.rows), BLOCK):
            part = self.rows[start : start + BLOCK]
            scores = wanted @ room[: len(part)].copy_(part).T  # [queries, block]
            values, indices = scores.topk(min(k, len(part)))
            best, order = torch.cat([best, values], 1).topk(k)
            found = torch.cat([found, indices + start], 1).gather(1, order)
        return found.numpy(), SHARPNESS * best.double().numpy()


def vector_index(
    model: Model, texts: Sequence[str], layer: int, on_progress: OnProgress | None = None
) -> Vectors:
    """The index of the mean states of some passages in one layer, from the cache if it is there."""
    path = _file(texts, "vectors", model.content_hash, model.precision, layer)
    if not path.is_file():
        _saved(path, _vectors(partial_states(model, layer), texts, on_progress))
    found = _opened(path)
    mean, projection = found["mean"].clone(), found["projection"].clone()

    def embed(queries: Sequence[str]) -> Tensor:
        return _unit((mean_states(model, queries, (layer,))[0] - mean) @ projection)

    return Vectors(found["vectors"], embed)


def partial_states(model: Model, layer: int) -> Embed:
    """The function from texts to their mean states in one layer."""
    return lambda texts: mean_states(model, texts, (layer,))[0]


def _vectors(
    embed: Embed, texts: Sequence[str], on_progress: OnProgress | None
) -> dict[str, NDArray[Any]]:
    """The vectors of passages, what is subtracted from them, and their projection."""
    parts: list[Tensor] = []
    for start in range(0, len(texts), AT_ONCE):
        states = embed(texts[start : start + AT_ONCE])
        if not start:
            mean = states.mean(0)
            projection = torch.eye(states.shape[1])
            if states.shape[1] > WIDTH:
                projection = torch.linalg.svd(states - mean, full_matrices=False).Vh[:WIDTH].T
        parts.append(_unit((states - mean) @ projection).half())
        if on_progress is not None:
            on_progress(min(start + AT_ONCE, len(texts)), len(texts))
    return {
        "vectors": torch.cat(parts).numpy(),
        "mean": mean.numpy(),
        "projection": projection.contiguous().numpy(),
    }


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)


def mean_states(model: Model, texts: Sequence[str], layers: Sequence[int]) -> Tensor:
    """The mean state of each text's pieces in some layers of the stack that reads it, in float32.

    # [layers, texts, width]
    """
    means = torch.zeros(len(layers), len(texts), model.width)
    batch = encode(map(doc_of, texts))

    def use(text: Pieces, output: Output) -> None:
        hidden = output.hidden[model.stacks[0].name]
        chosen = torch.stack([mean_of(hidden[layer], text) for layer in layers])
        means[:, text.order] = chosen.cpu()

    forward(model, batch, use)
    if not bool(means.isfinite().all()):
        raise not_a_number(model.name, "some passages")
    return means


def mean_of(states: Tensor, text: Pieces) -> Tensor:
    """The mean over the pieces of each text in float32, without special ones if there are others.

    # [batch, pieces, width] -> [batch, width]
    """
    plain = text.mask & ~text.special
    read = torch.where(plain.any(1, keepdim=True), plain, text.mask)[..., None]
    return (states.float() * read).sum(1) / read.sum(1).clamp(min=1)


def probabilities(scores: Floats) -> Floats:
    """The probability of each passage among those found: p(z | x), renormalised.  # [..., k]"""
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    normalised: Floats = shares / shares.sum(-1, keepdims=True)
    return normalised
