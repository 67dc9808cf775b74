"""Texts, trees and models for checks, made without spaCy, a network or a corpus.

Costs milliseconds, except for models of a requested size.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.models import headed, zoo
from workbench import load
from workbench.analyses.probes.dependency_trees import Tree, ancestors
from workbench.engine.batch import Batch, Edges
from workbench.models.huggingface import HuggingFace

WORDS = "the cat saw a small bird near old trees and then ran home".split()
RELATIONS = ("amod", "nsubj", "obj")
FAMILIES = {  # the head that each predicts with
    "bert": "BertForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "albert": "AlbertForMaskedLM",
    "xlnet": "XLNetLMHeadModel",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "modernbert": "ModernBertForMaskedLM",
}


def batch_of(documents: int, longest: int = 12, shortest: int = 2, seed: int = 0) -> Batch:
    """So many texts of `shortest` to `longest` words, each with a random tree."""
    random = np.random.default_rng(seed)
    sizes = random.integers(shortest, longest + 1, documents)
    texts, ranges, rows = [], [], []
    for size in sizes:
        chosen = [WORDS[place] for place in random.integers(0, len(WORDS), size)]
        texts.append(" ".join(chosen).encode())
        ends = np.cumsum([len(word) + 1 for word in chosen]) - 1
        ranges.append(np.stack([ends - [len(word) for word in chosen], ends], 1))
        rows.append(np.stack([np.arange(1, size), heads_of(size, random)[1:]], 1))
    arcs = np.concatenate(rows)  # [edges, 2], dependent and head
    spans = [np.stack([side, side + 1], 1).astype(np.int32) for side in arcs.T]
    edges = Edges(
        RELATIONS,
        _offsets([len(own) for own in rows]),
        spans[0],
        spans[1],
        np.arange(len(arcs) + 1, dtype=np.int64),
        random.integers(0, len(RELATIONS), len(arcs)).astype(np.int32),
    )
    return Batch(
        text=np.frombuffer(b"".join(texts), dtype=np.uint8),
        text_offsets=_offsets([len(text) for text in texts]),
        words=np.concatenate(ranges).astype(np.int32),
        word_offsets=_offsets(sizes.tolist()),
        segments=np.zeros(int(sizes.sum()), dtype=np.int8),
        order=np.arange(documents, dtype=np.int64),
        edges={"dependencies": edges},
    )


def doubled(batch: Batch) -> Batch:
    """Every text twice, without its trees: as long as before, and twice as much."""

    def twice(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate([offsets, offsets[1:] + offsets[-1]])

    return Batch(
        text=np.tile(batch.text, 2),
        text_offsets=twice(batch.text_offsets),
        words=np.tile(batch.words, (2, 1)),
        word_offsets=twice(batch.word_offsets),
        segments=np.tile(batch.segments, 2),
        order=np.arange(2 * len(batch), dtype=np.int64),
    )


def heads_of(words: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A random tree: the first word is its own head, each other one has an earlier one."""
    drawn = (random.random(words) * np.arange(words)).astype(np.int64)
    return np.maximum(drawn, 0)


def trees_of(number: int, shortest: int, longest: int, seed: int) -> list[Tree]:
    """Random trees, whose words stand in a corpus end to end."""
    random, found, first = np.random.default_rng(seed), [], 0
    for document in range(number):
        words = int(random.integers(shortest, longest + 1))
        heads = heads_of(words, random)
        above = ancestors(heads)
        depths = above.sum(1) - 1
        shared = above.astype(np.int64) @ above.T.astype(np.int64)
        distances = depths[:, None] + depths[None, :] - 2 * (shared - 1)
        heads[0] = -1
        found.append(
            Tree(
                document,
                np.arange(words),
                np.arange(first, first + words),
                heads,
                distances.astype(np.int16),
                depths.astype(np.int16),
                np.zeros(words, dtype=np.bool_),
            )
        )
        first += words
    return found


def saved(name: str, folder: Path) -> Path:
    """The folder of a tiny random model of this family, with the head that it predicts with."""
    bare = zoo.make(name, folder / f"{name}-bare")
    return headed.saved(bare, FAMILIES[name], folder / name)


def opened(folder: Path, device: Any = "cpu", precision: str = "fp32") -> HuggingFace:
    model = load(folder, str(device), precision)
    assert isinstance(model, HuggingFace)
    return model


def _offsets(sizes: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
