"""Hierarchical softmax: a word is a path through a Huffman tree, as in word2vec.

Each inner node has a vector and decides between left and right, so the probabilities of all words
sum to 1 and a word costs as many decisions as its code has bits: few for frequent words. It takes
the place of negative samples in skip-gram and CBOW. Costs: about log2 of the words' number of dot
products per target, and building the tree once.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from workbench.analyses.training.objectives.cbow import mean_vectors, windows
from workbench.analyses.training.objectives.skipgram import WINDOW, SkipGram, WordSampler, pairs
from workbench.analyses.training.task import WordObjective
from workbench.models.bilm import Words


@dataclass(frozen=True)
class Tree:
    """The path of each word from the root: inner nodes, and where each one leads."""

    nodes: Tensor  # [words, longest]
    turns: Tensor  # [words, longest]: 1 left, -1 right, 0 beyond the end of the path


@lru_cache(maxsize=4)
def tree(counts: tuple[int, ...]) -> Tree:
    """The Huffman tree of words by their counts; words without a count have no path."""
    order = count()
    heap = [(n, next(order), word) for word, n in enumerate(counts) if n]
    heapq.heapify(heap)
    inner: list[tuple[int, int]] = []  # children of each inner node; inner nodes count from -1 down
    while len(heap) > 1:
        (one, _, left), (other, _, right) = heapq.heappop(heap), heapq.heappop(heap)
        inner.append((left, right))
        heapq.heappush(heap, (one + other, next(order), -len(inner)))
    paths: dict[int, list[tuple[int, int]]] = {}
    waiting: list[tuple[int, list[tuple[int, int]]]] = [(heap[0][2], [])] if heap else []
    while waiting:
        at, path = waiting.pop()
        if at >= 0:
            paths[at] = path
            continue
        node = -at - 1
        for child, turn in zip(inner[node], (1, -1), strict=True):
            waiting.append((child, [*path, (node, turn)]))
    longest = max(map(len, paths.values()), default=0)
    nodes = torch.zeros(len(counts), longest, dtype=torch.long)
    turns = torch.zeros(len(counts), longest, dtype=torch.long)
    for word, path in paths.items():
        if path:
            nodes[word, : len(path)], turns[word, : len(path)] = torch.tensor(path).T
    return Tree(nodes, turns)


def _with_paths(
    read: Mapping[str, Tensor], gold: Tensor, sampler: WordSampler
) -> dict[str, Tensor]:
    paths = tree(sampler.words.counts)
    return {**read, "nodes": paths.nodes[gold], "turns": paths.turns[gold]}


def _draw_pairs(tokens: Tensor, sampler: WordSampler, generator: Generator) -> dict[str, Tensor]:
    centers, contexts = pairs(tokens, sampler, WINDOW, generator)
    return _with_paths({"around": centers[:, None]}, contexts, sampler)


def _draw_windows(tokens: Tensor, sampler: WordSampler, generator: Generator) -> dict[str, Tensor]:
    around, gold = windows(tokens, sampler, WINDOW, generator)
    return _with_paths({"around": around}, gold, sampler)


def path_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The negative log-likelihood of all turns on the paths, summed over targets.  # [1]"""
    assert isinstance(net, SkipGram)
    read = mean_vectors(net, inputs["around"])  # [targets, width]
    nodes = functional.embedding(inputs["nodes"], net.context)  # [targets, longest, width]
    scores = torch.bmm(nodes, read[:, :, None])[:, :, 0] * inputs["turns"]
    return (functional.softplus(-scores) * inputs["turns"].abs()).sum()[None]


def _inner_nodes(words: Words) -> int:
    return max(1, sum(n > 0 for n in words.counts) - 1)


OF_WORDS = {
    "skip-gram-tree": WordObjective(_draw_pairs, path_losses, _inner_nodes),
    "cbow-tree": WordObjective(_draw_windows, path_losses, _inner_nodes),
}
