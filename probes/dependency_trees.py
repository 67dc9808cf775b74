"""Gold trees as distances and depths, trees read from predicted distances, and how they agree.

A tree is the words that hang together under one root; a text of several sentences is several trees.
Spanning trees, ranks and counts are made of many sentences of one length at once: a thousand
sentences of ten words cost a tenth of a second a probe.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from spacy.tokens import Doc

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Truths = NDArray[np.bool_]
SHORTEST, LONGEST = 5, 50  # lengths of sentences whose rank correlations are averaged
NONE = -1


@dataclass(frozen=True)
class Tree:
    """Words of one text under one root, as far as the model read them."""

    document: int
    words: Numbers  # [words], places in the text, ascending
    rows: Numbers  # [words], places in the corpus
    heads: Numbers  # [words], places among `words`; NONE: a root, or the head was not read
    distances: NDArray[np.int16]  # [words, words], edges on the way from one to the other
    depths: NDArray[np.int16]  # [words], edges to the root
    punctuation: Truths  # [words]

    def __len__(self) -> int:
        return len(self.rows)


def is_punctuation(doc: "Doc") -> Truths:
    """By part of speech or by relation, whichever the corpus has.  # [words]"""
    return np.array([t.pos_ == "PUNCT" or t.dep_ == "punct" for t in doc], dtype=np.bool_)


def trees_of(doc: "Doc", document: int, first: int, missing: Truths) -> list[Tree]:
    """The trees of two words or more; `first` is the row of the text's first word.

    Words that the model did not read (`missing`, [words of the corpus]) are left out; the others
    stay as far from one another as they were.
    """
    heads = np.array([token.head.i for token in doc], dtype=np.int64)
    above = ancestors(heads)  # [words, words]
    depths = above.sum(1) - 1
    shared = (above.astype(np.float32) @ above.T.astype(np.float32)).astype(np.int64)
    distances = depths[:, None] + depths[None, :] - 2 * (shared - 1)
    punctuation = is_punctuation(doc)
    here = ~missing[first : first + len(doc)]
    found = []
    for root in np.flatnonzero(heads == np.arange(len(heads))):
        words = np.flatnonzero(above[:, root] & here)
        if len(words) < 2:
            continue
        place = np.full(len(doc), NONE)
        place[words] = np.arange(len(words))
        own = np.where(words == root, NONE, place[heads[words]])
        apart = distances[np.ix_(words, words)].astype(np.int16)
        found.append(
            Tree(
                document,
                words,
                words + first,
                own,
                apart,
                depths[words].astype(np.int16),
                punctuation[words],
            )
        )
    return found


def ancestors(heads: Numbers) -> Truths:
    """Which words stand above each, itself among them; a root is its own head.  # [words, words]"""
    size = len(heads)
    above = np.zeros((size, size), dtype=np.bool_)
    row, at = np.arange(size), np.arange(size)
    for _ in range(size):
        if above[row, at].all():
            break
        above[row, at] = True
        at = heads[at]
    return above


def grouped(trees: Sequence[Tree], most: int) -> Iterator[tuple[Numbers, list[Tree]]]:
    """Trees of one length, so many words squared at most; and their places in the sequence."""
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for place, tree in enumerate(trees):
        by_length[len(tree)].append(place)
    for length, places in sorted(by_length.items()):
        size = max(1, most // length**2)
        for start in range(0, len(places), size):
            chosen = places[start : start + size]
            yield np.array(chosen), [trees[place] for place in chosen]


def spanning(distances: Floats, kept: Truths) -> Numbers:
    """The tree of least total distance over the words kept, by Prim's rule, from the first of them.

    Each word's neighbour on the way to the first, or NONE.
    [trees, words, words], [trees, words] -> [trees, words]
    """
    number, words = kept.shape
    row = np.arange(number)
    start = kept.argmax(1)
    neighbour = np.full((number, words), NONE, dtype=np.int64)
    outside = kept.copy()
    outside[row, start] = False
    nearest = distances[row, start].astype(np.float64)  # [trees, words], to the tree so far
    through = np.repeat(start[:, None], words, axis=1)
    for _ in range(words - 1):
        chosen = np.where(outside, nearest, np.inf).argmin(1)
        added = outside[row, chosen]  # not where all are in already
        neighbour[row[added], chosen[added]] = through[row[added], chosen[added]]
        outside[row, chosen] = False
        new = distances[row, chosen]
        closer = (new < nearest) & added[:, None]
        nearest = np.where(closer, new, nearest)
        through = np.where(closer, chosen[:, None], through)
    return neighbour


def edges_right(neighbours: Numbers, heads: Numbers, kept: Truths) -> Numbers:
    """Gold edges that were found, and gold edges, between words that are kept.

    All [trees, words] -> [trees, 2]
    """
    row = np.arange(len(heads))[:, None]
    words = np.arange(heads.shape[1])
    gold = (heads != NONE) & kept & kept[row, heads]
    found = neighbours != NONE
    right = found & ((heads == neighbours) | (heads[row, neighbours] == words))
    return np.stack([right.sum(1), gold.sum(1)], axis=1)


def correlated(predicted: Floats, gold: Floats) -> Floats:
    """Spearman's correlation along the last axis; 0 where all of a row is equal.

    [..., words], [..., words] -> [...]
    """
    from scipy.stats import rankdata

    first, second = (rankdata(side, axis=-1) for side in (predicted, gold))
    first = first - first.mean(-1, keepdims=True)
    second = second - second.mean(-1, keepdims=True)
    scale = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    found: Floats = (first * second).sum(-1) / np.where(scale > 0, scale, 1)
    return found


# --- what is counted of each tree -----------------------------------------------------------------


def count_distances(predicted: Floats, trees: Sequence[Tree]) -> tuple[Numbers, Floats]:
    """Of trees of one length: edges right of all, and rank correlation, a mean over the words.

    [probes, trees, words, words] -> [probes, trees, 2], [probes, trees]
    """
    probes, number, words, _ = predicted.shape
    kept = ~np.stack([tree.punctuation for tree in trees])
    heads = np.stack([tree.heads for tree in trees])
    every = np.broadcast_to(kept, (probes, number, words)).reshape(-1, words)
    neighbours = spanning(predicted.reshape(-1, words, words), every)
    same = np.broadcast_to(heads, (probes, number, words)).reshape(-1, words)
    edges = edges_right(neighbours, same, every).reshape(probes, number, 2)
    gold = np.stack([tree.distances for tree in trees]).astype(np.float64)
    return edges, correlated(predicted, gold[None]).mean(-1)


def count_depths(predicted: Floats, trees: Sequence[Tree]) -> tuple[Numbers, Floats]:
    """Of trees of one length: whether the root was found, whether there is one, and correlation.

    The root is the shallowest word that is no punctuation.
    [probes, trees, words] -> [probes, trees, 2], [probes, trees]
    """
    kept = ~np.stack([tree.punctuation for tree in trees])  # [trees, words]
    gold = np.stack([tree.depths for tree in trees]).astype(np.float64)
    is_root = (gold == 0) & kept
    asked = is_root.any(1)  # [trees]
    shallowest = np.where(kept, predicted, np.inf).argmin(-1)  # [probes, trees]
    right = is_root[np.arange(len(trees)), shallowest] & asked
    roots = np.stack([right, np.broadcast_to(asked, right.shape)], axis=-1).astype(np.int64)
    return roots, correlated(predicted, gold[None])


def chain_distances(words: int) -> Floats:
    """As if each word hung on the one before it.  # [words, words]"""
    place = np.arange(words, dtype=np.float64)
    return np.abs(place[:, None] - place[None, :])


def chain_depths(words: int) -> Floats:
    """As if the first word were the root.  # [words]"""
    return np.arange(words, dtype=np.float64)


# --- from counts to scores ------------------------------------------------------------------------


def by_length(values: Floats, lengths: Numbers) -> Floats:
    """Values laid out so that their sums can be averaged by length: values, then their number.

    Trees shorter or longer than what is averaged are all zeros.
    [..., trees], [trees] -> [..., trees, 2 * lengths]
    """
    told = averaged_lengths(lengths)
    there = (lengths[:, None] == told[None, :]).astype(np.float64)  # [trees, lengths]
    number = np.broadcast_to(there, (*values.shape, len(told)))
    return np.concatenate([values[..., None] * there, number], axis=-1)


def averaged_lengths(lengths: Numbers) -> Numbers:
    """The lengths there are, of those that are averaged."""
    told: Numbers = np.unique(lengths)
    return told[(told >= SHORTEST) & (told <= LONGEST)]


def mean_of_lengths(sums: Floats) -> Floats:
    """The mean over lengths of the mean over their trees.  # [..., 2 * lengths] -> [...]"""
    half = sums.shape[-1] // 2
    totals, number = sums[..., :half], sums[..., half:]
    means = totals / np.maximum(number, 1)
    found: Floats = means.sum(-1) / np.maximum((number > 0).sum(-1), 1)
    return found


Measure = Callable[[Floats], Floats]
