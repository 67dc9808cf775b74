"""How sure a score is: sentences and seeds drawn again with replacement, a thousand times.

Rows are drawn together, so two rows of the same sentences (two layers, two models) can be compared
pair by pair. Costs a matrix product of draws by sentences by rows: milliseconds.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 1000


def resampled(
    counts: NDArray[np.generic], measure: Callable[[Floats], Floats], seed: int, draws: int = DRAWS
) -> Floats:
    """The measure of every row in every draw: of sums over drawn sentences, mean of drawn seeds.

    `counts` is [rows, seeds, sentences, numbers]; `measure` makes [...] of [..., numbers].
    -> [rows, draws]
    """
    rows, seeds, sentences, numbers = counts.shape
    random = np.random.default_rng([seed, sentences, seeds])
    often = random.multinomial(sentences, np.full(sentences, 1 / max(sentences, 1)), size=draws)
    flat = np.moveaxis(counts, 2, 0).reshape(sentences, -1).astype(np.float64)
    sums = (often.astype(np.float64) @ flat).reshape(draws, rows, seeds, numbers)
    values = measure(sums)  # [draws, rows, seeds]
    chosen = random.integers(0, seeds, size=(draws, seeds))  # the same seeds for every row
    found = np.take_along_axis(values, chosen[:, None, :], axis=2).mean(axis=2)
    return np.ascontiguousarray(found.T)


def interval(draws: Floats) -> tuple[Floats, Floats]:
    """The middle 95 % of the draws.  # [..., draws] -> [...], [...]"""
    lower, upper = np.percentile(draws, [2.5, 97.5], axis=-1)
    return lower, upper


def p_value(differences: Floats) -> Floats:
    """Two-sided: how often the difference is on the other side of nought.  # [..., draws] -> [...]

    Never nought itself: so many draws cannot tell less than one over their number.
    """
    draws = differences.shape[-1]
    beyond = np.minimum((differences <= 0).sum(-1), (differences >= 0).sum(-1))
    found: Floats = np.minimum(1.0, 2 * (beyond + 1) / (draws + 1))
    return found
