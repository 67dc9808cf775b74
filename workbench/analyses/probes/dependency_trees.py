"""Gold trees as distances and depths, trees from predicted distances, and their agreement.

A tree is all words under one root; a text of several sentences has several trees. Spanning trees,
ranks and counts are computed for many sentences of one length at once. Costs: a tenth of a second
per probe for a thousand sentences of ten words.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.core.arrays import Floats

if TYPE_CHECKING:
    from spacy.tokens import Doc

Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]
SHORTEST, LONGEST = 5, 50  # sentence lengths over which rank correlations are averaged
NONE = -1


@dataclass(frozen=True)
class Tree:
    """Words of one text under one root, without those that the model did not read."""

    document: int
    words: Numbers  # [words], indices in the text, ascending
    rows: Numbers  # [words], indices in the corpus
    heads: Numbers  # [words], indices in `words`; NONE: a root, or the head was not read
    distances: NDArray[np.int16]  # [words, words], edges on the path between two words
    depths: NDArray[np.int16]  # [words], edges to the root
    punctuation: Truths  # [words]

    def __len__(self) -> int:
        return len(self.rows)


def is_punctuation(doc: "Doc") -> Truths:
    """Mask of punctuation, by part of speech or by relation.  # [words]"""
    return np.array([t.pos_ == "PUNCT" or t.dep_ == "punct" for t in doc], dtype=np.bool_)


def trees_of(doc: "Doc", document: int, first: int, missing: Truths) -> list[Tree]:
    """The trees of at least two words; `first` is the row of the text's first word.

    Words that the model did not read (`missing`, [words of the corpus]) are left out; distances of
    the others do not change.
    """
    heads = np.array([token.head.i for token in doc], dtype=np.int64)
    above = ancestors(heads)  # [words, words]
    depths = above.sum(1) - 1
    shared = (above.astype(np.float32) @ above.T.astype(np.float32)).astype(np.int64)
    distances = depths[:, None] + depths[None, :] - 2 * (shared - 1)
    punctuation = is_punctuation(doc)
    is_read = ~missing[first : first + len(doc)]
    trees = []
    for root in np.flatnonzero(heads == np.arange(len(heads))):
        words = np.flatnonzero(above[:, root] & is_read)
        if len(words) < 2:
            continue
        index = np.full(len(doc), NONE)
        index[words] = np.arange(len(words))
        tree_heads = np.where(words == root, NONE, index[heads[words]])
        tree_distances = distances[np.ix_(words, words)].astype(np.int16)
        trees.append(
            Tree(
                document,
                words,
                words + first,
                tree_heads,
                tree_distances,
                depths[words].astype(np.int16),
                punctuation[words],
            )
        )
    return trees


def ancestors(heads: Numbers) -> Truths:
    """Ancestors of each word, including itself; a root is its own head.  # [words, words], bool"""
    size = len(heads)
    above = np.zeros((size, size), dtype=np.bool_)
    row, at = np.arange(size), np.arange(size)
    for _ in range(size):
        if above[row, at].all():
            break
        above[row, at] = True
        at = heads[at]
    return above


def grouped(trees: Sequence[Tree], max_pairs: int) -> Iterator[tuple[Numbers, list[Tree]]]:
    """Groups of trees of one length, with a maximum of word pairs, and their indices."""
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for index, tree in enumerate(trees):
        by_length[len(tree)].append(index)
    for length, indices in sorted(by_length.items()):
        size = max(1, max_pairs // length**2)
        for start in range(0, len(indices), size):
            group = indices[start : start + size]
            yield np.array(group), [trees[index] for index in group]


def spanning(distances: Floats, mask: Truths) -> Numbers:
    """The minimum spanning tree over the words of the mask, by Prim's algorithm from the first.

    Each word's neighbour on the path to the first word, or NONE.
    [trees, words, words], [trees, words] -> [trees, words]
    """
    number, words = mask.shape
    row = np.arange(number)
    start = mask.argmax(1)
    neighbour = np.full((number, words), NONE, dtype=np.int64)
    outside = mask.copy()
    outside[row, start] = False
    nearest = distances[row, start].astype(np.float64)  # [trees, words], to the current tree
    through = np.repeat(start[:, None], words, axis=1)
    for _ in range(words - 1):
        chosen = np.where(outside, nearest, np.inf).argmin(1)
        added = outside[row, chosen]  # not in trees that are complete
        neighbour[row[added], chosen[added]] = through[row[added], chosen[added]]
        outside[row, chosen] = False
        new = distances[row, chosen]
        closer = (new < nearest) & added[:, None]
        nearest = np.where(closer, new, nearest)
        through = np.where(closer, chosen[:, None], through)
    return neighbour


def edges_right(neighbours: Numbers, heads: Numbers, mask: Truths) -> Numbers:
    """Number of gold edges that were predicted, and of gold edges, between words of the mask.

    All [trees, words] -> [trees, 2]
    """
    row = np.arange(len(heads))[:, None]
    words = np.arange(heads.shape[1])
    gold = (heads != NONE) & mask & mask[row, heads]
    has_edge = neighbours != NONE
    right = has_edge & ((heads == neighbours) | (heads[row, neighbours] == words))
    return np.stack([right.sum(1), gold.sum(1)], axis=1)


def correlated(predicted: Floats, gold: Floats) -> Floats:
    """Spearman correlation along the last axis; 0 if all values of a row are equal.

    [..., words], [..., words] -> [...]
    """
    from scipy.stats import rankdata

    first, second = (rankdata(side, axis=-1) for side in (predicted, gold))
    first = first - first.mean(-1, keepdims=True)
    second = second - second.mean(-1, keepdims=True)
    scale = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    correlation: Floats = (first * second).sum(-1) / np.where(scale > 0, scale, 1)
    return correlation


# --- counts of each tree --------------------------------------------------------------------------


def count_distances(predicted: Floats, trees: Sequence[Tree]) -> tuple[Numbers, Floats]:
    """For trees of one length: edges right and gold, and mean rank correlation over the words.

    [probes, trees, words, words] -> [probes, trees, 2], [probes, trees]
    """
    probes, number, words, _ = predicted.shape
    mask = ~np.stack([tree.punctuation for tree in trees])
    heads = np.stack([tree.heads for tree in trees])
    every = np.broadcast_to(mask, (probes, number, words)).reshape(-1, words)
    neighbours = spanning(predicted.reshape(-1, words, words), every)
    same = np.broadcast_to(heads, (probes, number, words)).reshape(-1, words)
    edges = edges_right(neighbours, same, every).reshape(probes, number, 2)
    gold = np.stack([tree.distances for tree in trees]).astype(np.float64)
    return edges, correlated(predicted, gold[None]).mean(-1)


def count_depths(predicted: Floats, trees: Sequence[Tree]) -> tuple[Numbers, Floats]:
    """For trees of one length: whether the root is right, whether it exists, and correlation.

    The predicted root is the word with the smallest depth that is not punctuation.
    [probes, trees, words] -> [probes, trees, 2], [probes, trees]
    """
    mask = ~np.stack([tree.punctuation for tree in trees])  # [trees, words]
    gold = np.stack([tree.depths for tree in trees]).astype(np.float64)
    is_root = (gold == 0) & mask
    has_root = is_root.any(1)  # [trees]
    shallowest = np.where(mask, predicted, np.inf).argmin(-1)  # [probes, trees]
    right = is_root[np.arange(len(trees)), shallowest] & has_root
    roots = np.stack([right, np.broadcast_to(has_root, right.shape)], axis=-1).astype(np.int64)
    return roots, correlated(predicted, gold[None])


def chain_distances(words: int) -> Floats:
    """Distances in a chain, where each word's head is the word before.  # [words, words]"""
    place = np.arange(words, dtype=np.float64)
    return np.abs(place[:, None] - place[None, :])


def chain_depths(words: int) -> Floats:
    """Depths in a chain, where the first word is the root.  # [words]"""
    return np.arange(words, dtype=np.float64)


# --- from counts to scores ------------------------------------------------------------------------


def by_length(values: Floats, lengths: Numbers) -> Floats:
    """Values by length, then counts by length, so that sums over trees give means by length.

    Trees outside the averaged lengths are all zeros.
    [..., trees], [trees] -> [..., trees, 2 * lengths]
    """
    averaged = averaged_lengths(lengths)
    is_length = (lengths[:, None] == averaged[None, :]).astype(np.float64)  # [trees, lengths]
    count = np.broadcast_to(is_length, (*values.shape, len(averaged)))
    return np.concatenate([values[..., None] * is_length, count], axis=-1)


def averaged_lengths(lengths: Numbers) -> Numbers:
    """The distinct lengths from SHORTEST to LONGEST."""
    distinct: Numbers = np.unique(lengths)
    return distinct[(distinct >= SHORTEST) & (distinct <= LONGEST)]


def mean_of_lengths(sums: Floats) -> Floats:
    """The mean over lengths of the mean over their trees.  # [..., 2 * lengths] -> [...]"""
    half = sums.shape[-1] // 2
    totals, counts = sums[..., :half], sums[..., half:]
    means = totals / np.maximum(counts, 1)
    mean: Floats = means.sum(-1) / np.maximum((counts > 0).sum(-1), 1)
    return mean


Measure = Callable[[Floats], Floats]
