"""Similar heads: distances between all heads, clusters, and the most similar heads of another
model.

The distance of two heads is the root of the mean Jensen-Shannon divergence of their attention from
the same words, in bits, from 0 to 1. A row holds the attention of one word on each word, and on all
special pieces together, so that models with different special pieces can be compared. Rows are
those of the sample in `examples`. Costs: heads times heads logarithms of each weight; at most
seconds for 144 heads.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.heads.examples import HeadSample
from workbench.experiment.definition import HEAD

APART = 0.5  # of the largest merge distance; clusters are not merged above it
TINY = torch.finfo(torch.float32).tiny
AT_ONCE = 1 << 18  # numbers that fit into a CPU cache


def divergence(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
    """Mean Jensen-Shannon divergence of rows, in bits.

    [heads, words, columns] of each document -> [heads, other heads]
    """
    total = torch.zeros(len(ours[0]), len(theirs[0]), dtype=torch.double)
    words, is_symmetric = 0, all(a is b for a, b in zip(ours, theirs, strict=True))
    for first, second in zip(ours, theirs, strict=True):
        entropies, other = _entropy(first), _entropy(second)  # [heads]
        step = max(1, AT_ONCE // max(1, first[0].numel()))
        for head, rows in enumerate(first):
            for start in range(head if is_symmetric else 0, len(second), step):
                part = slice(start, start + step)
                total[head, part] += _entropy((rows + second[part]) / 2)
        total -= (entropies[:, None] + other) / 2
        words += first.shape[1]
    if is_symmetric:
        total = total.triu() + total.triu(1).T
    return (total / max(words, 1)).clamp(min=0, max=1)


def _entropy(rows: Tensor) -> Tensor:
    """Entropy in bits, summed over rows.  # [..., words, columns] -> [...]"""
    bits = rows.clamp(min=TINY).log2_().mul_(rows)
    return -bits.sum((-1, -2), dtype=torch.double)


# --- clusters -------------------------------------------------------------------------------------

CLUSTERS = (*HEAD, "cluster", "x", "y", "nearest_stack", "nearest_kind", "nearest_layer",
            "nearest_head", "distance")  # fmt: skip
JOINED = ("left", "right", "distance", "size")
KIN = (*HEAD, "model", *(f"kin_{name}" for name in HEAD), "distance")


def clusters(sample: HeadSample) -> dict[str, pd.DataFrame]:
    """Tables `clusters` and `dendrogram`: clusters, a map, and the most similar head of each."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    documents, keys = sorted(sample.whole), sample.heads
    if not documents or len(keys) < 2:
        return {
            "clusters": pd.DataFrame(columns=CLUSTERS),
            "dendrogram": pd.DataFrame(columns=JOINED),
        }
    parts = sample.rows(documents)
    distances = divergence(parts, parts).sqrt().numpy()
    np.fill_diagonal(distances, 0)
    merges = linkage(squareform(distances, checks=False), "average")
    cluster = fcluster(merges, APART * merges[-1, 2], "distance") if merges[-1, 2] > 0 else None
    positions = on_a_map(distances)
    to_others = distances + np.diag(np.full(len(distances), np.inf))
    nearest = to_others.argmin(1)
    rows = [
        (*key, 1 if cluster is None else int(cluster[row]), *positions[row],
         *keys[nearest[row]], float(to_others[row, nearest[row]]))
        for row, key in enumerate(keys)
    ]  # fmt: skip
    tree = [(int(a), int(b), float(height), int(size)) for a, b, height, size in merges]
    return {
        "clusters": pd.DataFrame(rows, columns=CLUSTERS),
        "dendrogram": pd.DataFrame(tree, columns=JOINED),
    }


def on_a_map(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points in a plane that keep the distances as well as possible.  # [n, n] -> [n, 2]

    The largest absolute value of each coordinate is positive, so the map is unique.
    """
    from sklearn.manifold import ClassicalMDS

    with np.errstate(invalid="ignore"):  # one dimension is enough: root of a negative number
        points = ClassicalMDS(n_components=2, metric="precomputed").fit_transform(distances)
    positions: NDArray[np.float64] = np.nan_to_num(points)
    return positions


def kin(sample: HeadSample, other: HeadSample, model: str) -> pd.DataFrame:
    """The most similar head of another model for each head, on the same words."""
    documents = sorted(sample.whole & other.whole)
    if not documents or not other.sites:
        return pd.DataFrame(columns=KIN)
    distances = divergence(sample.rows(documents), other.rows(documents)).sqrt().numpy()
    names, best = other.heads, distances.argmin(1)
    rows = [
        (*key, model, *names[best[row]], float(distances[row, best[row]]))
        for row, key in enumerate(sample.heads)
    ]
    return pd.DataFrame(rows, columns=KIN)
