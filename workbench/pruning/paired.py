"""Whether a head's going makes a difference: the same texts with it and without, pair by pair.

Intervals are the middle 95 % of drawings of texts. p-values come from turning the signs of
differences text by text, and are corrected over everything tried at once: a difference counts by
its size over its spread, and its p-value is the share of turnings in which any is as large
(Westfall and Young's). Costs two matrix products of a thousand by texts by heads.
"""

import numpy as np

from workbench.pruning.texts import Floats

DRAWS, TURNS = 1000, 2000


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
