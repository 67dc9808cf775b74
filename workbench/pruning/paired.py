"""Tests of what heads do: the same texts with and without them; chosen heads against random ones.

Intervals are the middle 95 % of resamples of texts. p-values of a difference come from sign flips
of texts' differences, corrected over everything tried at once (Westfall and Young: the share of
flips in which the largest studentised difference is as large). Whether chosen heads do better than
random ones is tested against several random choices (`random_p`, `holm`). Costs two matrix products
of a thousand by texts by heads.
"""

import numpy as np

from workbench.pruning.texts import Floats

DRAWS, TURNS = 1000, 2000
SIGNIFICANT = 0.05


def intervals(differences: Floats, number: Floats, seed: int) -> tuple[Floats, Floats]:
    """Of sums over sums.  # [texts, tried], [texts] -> [tried], [tried]"""
    texts = len(number)
    if not texts:
        nothing = np.zeros(differences.shape[1])
        return nothing, nothing
    random = np.random.default_rng([seed, texts])
    often = random.multinomial(texts, np.full(texts, 1 / texts), size=DRAWS).astype(np.float64)
    whole = np.maximum(often @ number, 1e-12)[:, None]
    lower, upper = np.percentile(often @ differences / whole, (2.5, 97.5), axis=0)
    value = differences.sum(0) / max(number.sum(), 1e-12)
    return np.minimum(lower, value), np.maximum(upper, value)


def p_values(differences: Floats, seed: int) -> Floats:
    """Two-sided, corrected over all that was tried.  # [texts, tried] -> [tried]"""
    texts, tried = differences.shape
    spread = np.sqrt(np.square(differences).sum(0))
    moving = spread > 0
    found = np.ones(tried)
    if not moving.any():
        return found
    own = differences[:, moving] / spread[moving]
    size = np.abs(own.sum(0))
    random = np.random.default_rng([seed, texts, tried])
    signs = random.integers(0, 2, (TURNS, texts)) * 2.0 - 1.0
    highest = np.abs(signs @ own).max(1)  # [turns]
    above = (highest[:, None] >= size[None] * (1 - 1e-9)).sum(0)
    found[moving] = (above + 1) / (TURNS + 1)
    return found


def random_p(value: float, random: Floats) -> float:
    """One-sided p-value that a value is lower than those of random choices (t prediction interval).

    1 where there are fewer than two, or where all are equal: then nothing can be said.
    """
    from scipy.stats import t

    number = len(random)
    spread = float(random.std(ddof=1)) if number > 1 else 0.0
    if spread <= 1e-12:
        return 1.0
    below = (random.mean() - value) / (spread * np.sqrt(1 + 1 / number))
    return float(t.sf(below, number - 1))


def holm(p: Floats) -> Floats:
    """p-values corrected for their number (Holm 1979).  # [tried] -> [tried]"""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    found = np.empty(len(p))
    found[order] = np.minimum(stepped, 1)
    return found
