"""Count vectors: positive pointwise mutual information of words, and its truncated SVD.

    PPMI(w, c) = max(0, log(n(w, c) n / (n(w) n'(c))))

n(w, c) counts how often c is in the window of w, near words more than far ones: a word at distance
d counts (window + 1 - d) / window, which is how often word2vec's random windows have it. n'(c) is
n(c)^0.75, scaled to the same sum, which keeps rare contexts down. A word's vector is its row of
U S^0.5 (Levy, Goldberg and Dagan 2015). There are no steps and nothing is drawn. Costs: a pass over
the text per distance, and the SVD of a sparse matrix of words by words.
"""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds
from torch import Tensor

from workbench.analyses.training.objectives.skipgram import POWER, WINDOW
from workbench.analyses.training.task import WordObjective
from workbench.models.bilm import Words

EIGENVALUE_POWER = 0.5


def counts_of(texts: Iterable[Tensor], known: Tensor, window: int) -> csr_matrix:
    """How often each word is in the window of each other, near ones more; marks are left out.

    # [batch, length] each, [words] bool -> [words, words]
    """
    n = len(known)
    total = csr_matrix((n, n), dtype=np.float64)
    for tokens in texts:
        kept = known[tokens]  # [batch, length]
        row, words = kept.nonzero()[:, 0], tokens[kept]
        for distance in range(1, min(window, len(words) - 1) + 1):
            near = row[distance:] == row[:-distance]
            one, other = words[:-distance][near].numpy(), words[distance:][near].numpy()
            weight = np.full(len(one), (window + 1 - distance) / window)
            part = csr_matrix((weight, (one, other)), shape=(n, n))
            total = total + part + part.T
    return total


def ppmi(counts: csr_matrix, power: float = POWER) -> csr_matrix:
    """Positive pointwise mutual information.  # [words, words]"""
    found = counts.tocoo()
    of_word = np.asarray(counts.sum(1)).ravel()
    of_context = np.asarray(counts.sum(0)).ravel() ** power
    share = of_context / max(of_context.sum(), 1e-300)
    values = np.log(found.data / (of_word[found.row] * share[found.col]))
    positive = values > 0
    cells = (found.row[positive], found.col[positive])
    return csr_matrix((values[positive], cells), shape=counts.shape)


def truncated(matrix: csr_matrix, width: int) -> NDArray[np.float64]:
    """Rows of U S^0.5 of the largest singular values; zeros beyond the rank.  # [words, width]"""
    n = matrix.shape[0]
    table = np.zeros((n, width))
    k = min(width, n - 1)
    if not matrix.nnz or k < 1:
        return table
    u, s, _ = svds(matrix, k=k, v0=np.ones(n) / n**0.5)
    order = np.argsort(-s)
    u, s = u[:, order], s[order]
    u *= np.sign(u[np.abs(u).argmax(0), np.arange(k)])  # the sign of a singular vector is arbitrary
    table[:, :k] = u * np.maximum(s, 0) ** EIGENVALUE_POWER
    return table


def _fitted(texts: Iterable[Tensor], words: Words, width: int) -> Tensor:
    known = torch.tensor(words.counts) > 0
    table = truncated(ppmi(counts_of(texts, known, WINDOW)), width)
    return torch.from_numpy(table).float()


OF_WORDS = {"ppmi": WordObjective(fitted=_fitted)}
