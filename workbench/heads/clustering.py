"""Which heads look alike: distances between all heads, clusters, and nearest kin in another model.

Two heads are as far apart as the distributions of the same words on average: the root of the
Jensen-Shannon divergence in bits, from 0 to 1. A row is what a word gives to each word, and to all
special pieces together, so models with different ones can be compared. Rows are those that
`examples` keeps, a bounded number: costs heads times heads logarithms of each of their weights,
seconds at most for 144 heads.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.experiment import HEAD
from workbench.heads.examples import Few

APART = 0.5  # of the greatest distance at which heads are joined; above it, clusters are apart
TINY = torch.finfo(torch.float32).tiny
AT_ONCE = 1 << 18  # numbers, few enough for a cache


def divergence(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> Tensor:
    """Mean Jensen-Shannon divergence of rows, in bits.

    [heads, words, columns] of each document -> [heads, other heads]
    """
    total = torch.zeros(len(ours[0]), len(theirs[0]), dtype=torch.double)
    words, is_half = 0, all(a is b for a, b in zip(ours, theirs, strict=True))
    for first, second in zip(ours, theirs, strict=True):
        own, other = _entropy(first), _entropy(second)  # [heads]
        number = max(1, AT_ONCE // max(1, first[0].numel()))
        for head, rows in enumerate(first):
            for start in range(head if is_half else 0, len(second), number):
                part = slice(start, start + number)
                total[head, part] += _entropy((rows + second[part]) / 2)
        total -= (own[:, None] + other) / 2
        words += first.shape[1]
    if is_half:
        total = total.triu() + total.triu(1).T
    return (total / max(words, 1)).clamp(min=0, max=1)


def _entropy(rows: Tensor) -> Tensor:
    """In bits, summed over rows.  # [..., words, columns] -> [...]"""
    bits = rows.clamp(min=TINY).log2_().mul_(rows)
    return -bits.sum((-1, -2), dtype=torch.double)


# --- clusters -------------------------------------------------------------------------------------

CLUSTERS = (*HEAD, "cluster", "x", "y", "nearest_stack", "nearest_kind", "nearest_layer",
            "nearest_head", "distance")  # fmt: skip
JOINED = ("left", "right", "distance", "size")
KIN = (*HEAD, "model", *(f"kin_{name}" for name in HEAD), "distance")


def clusters(found: Few) -> dict[str, pd.DataFrame]:
    """Clusters of heads on a map, the order in which they join, and each one's nearest."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    documents, keys = sorted(found.whole), found.heads
    if not documents or len(keys) < 2:
        return {
            "clusters": pd.DataFrame(columns=CLUSTERS),
            "dendrogram": pd.DataFrame(columns=JOINED),
        }
    parts = found.rows(documents)
    apart = divergence(parts, parts).sqrt().numpy()
    np.fill_diagonal(apart, 0)
    joined = linkage(squareform(apart, checks=False), "average")
    number = fcluster(joined, APART * joined[-1, 2], "distance") if joined[-1, 2] > 0 else None
    places = on_a_map(apart)
    beside = apart + np.diag(np.full(len(apart), np.inf))
    nearest = beside.argmin(1)
    rows = [
        (*key, 1 if number is None else int(number[row]), *places[row],
         *keys[nearest[row]], float(beside[row, nearest[row]]))
        for row, key in enumerate(keys)
    ]  # fmt: skip
    tree = [(int(a), int(b), float(height), int(size)) for a, b, height, size in joined]
    return {
        "clusters": pd.DataFrame(rows, columns=CLUSTERS),
        "dendrogram": pd.DataFrame(tree, columns=JOINED),
    }


def on_a_map(apart: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places in a plane that keep distances as well as a plane can.  # [n, n] -> [n, 2]

    Of each coordinate the largest number is positive, which makes them unique.
    """
    from sklearn.manifold import ClassicalMDS

    with np.errstate(invalid="ignore"):  # where a line would do, the root of less than nothing
        places = ClassicalMDS(n_components=2, metric="precomputed").fit_transform(apart)
    found: NDArray[np.float64] = np.nan_to_num(places)
    return found


def kin(found: Few, other: Few, model: str) -> pd.DataFrame:
    """Of each head the nearest in another model, by what both do with the same words."""
    documents = sorted(found.whole & other.whole)
    if not documents or not other.sites:
        return pd.DataFrame(columns=KIN)
    apart = divergence(found.rows(documents), other.rows(documents)).sqrt().numpy()
    names, best = other.heads, apart.argmin(1)
    rows = [
        (*key, model, *names[best[row]], float(apart[row, best[row]]))
        for row, key in enumerate(found.heads)
    ]
    return pd.DataFrame(rows, columns=KIN)
