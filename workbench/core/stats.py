"""Every interval and p-value: bootstrap, permutation nulls, sign flips, and corrections for many.

A test is chosen by what is independent. Scores of the same sentences are compared by resampling
sentences (`resampled`, `ratio_intervals`); two answers to the same texts by flipping signs
(`sign_flip_p_values`); heads against shuffled trees by permutation (`permutation_p_values`). Every
random stream follows from the seed and the sizes alone. Costs a matrix product of draws by
sentences by rows: milliseconds.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Random = np.random.Generator

DRAWS = 1000  # of a bootstrap
FLIPS = 2000  # random sign flips of a test of many differences
SIGNIFICANT = 0.05

# --- from sums to scores: [..., numbers] -> [...] -------------------------------------------------


def ratio(part: Floats, whole: Floats, undefined: float = 0.0) -> Floats:
    """A sum over a sum; `undefined` where that is 0.  # [...], [...] -> [...]"""
    found: Floats = np.full(np.broadcast_shapes(part.shape, whole.shape), undefined, np.float64)
    return np.divide(part, whole, out=found, where=whole > 0)


def share(sums: Floats) -> Floats:
    """Right of all.  # [..., 2] -> [...]"""
    return ratio(sums[..., 0], sums[..., 1])


def f1(sums: Floats) -> Floats:
    """2 · right / (predicted + gold).  # [..., 3] -> [...]"""
    return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


# --- bootstrap ------------------------------------------------------------------------------------


def times_drawn(number: int, random: Random, draws: int = DRAWS) -> Floats:
    """How often each unit is in each draw with replacement.  # -> [draws, number]"""
    share = np.full(number, 1 / max(number, 1))
    return random.multinomial(number, share, size=draws).astype(np.float64)


def resampled(
    counts: NDArray[np.generic], measure: Callable[[Floats], Floats], seed: int, draws: int = DRAWS
) -> Floats:
    """The measure of every row in every draw: of sums over drawn sentences, mean of drawn seeds.

    Rows are drawn together, so two of them (two layers, two models) can be compared pair by pair.
    `counts` is [rows, seeds, sentences, numbers]; `measure` makes [...] of [..., numbers].
    -> [rows, draws]
    """
    rows, seeds, sentences, numbers = counts.shape
    random = np.random.default_rng([seed, sentences, seeds])
    often = times_drawn(sentences, random, draws)
    flat = np.moveaxis(counts, 2, 0).reshape(sentences, -1).astype(np.float64)
    values = measure((often @ flat).reshape(draws, rows, seeds, numbers))  # [draws, rows, seeds]
    chosen = random.integers(0, seeds, size=(draws, seeds))  # the same seeds for every row
    found = np.take_along_axis(values, chosen[:, None, :], axis=2).mean(axis=2)
    return np.ascontiguousarray(found.T)


def interval(draws: Floats) -> tuple[Floats, Floats]:
    """The middle 95 % of the draws.  # [..., draws] -> [...], [...]"""
    lower, upper = np.percentile(draws, [2.5, 97.5], axis=-1)
    return lower, upper


def p_value(differences: Floats) -> Floats:
    """Two-sided: how often a resampled difference lies beyond zero.  # [..., draws] -> [...]

    Never zero itself: so many draws cannot show less than one over their number.
    """
    draws = differences.shape[-1]
    beyond = np.minimum((differences <= 0).sum(-1), (differences >= 0).sum(-1))
    found: Floats = np.minimum(1.0, 2 * (beyond + 1) / (draws + 1))
    return found


def difference(first: Floats, second: Floats) -> tuple[float, float, float]:
    """Interval and p-value of second - first, draw by draw.  # [draws], [draws]"""
    lower, upper = interval(second - first)
    return float(lower), float(upper), float(p_value(second - first))


def ratio_intervals(part: Floats, whole: Floats, seed: int) -> tuple[Floats, Floats]:
    """Of sums over one sum, of texts drawn again; the value lies within.

    # [texts, tried], [texts] -> [tried], [tried]
    """
    texts = len(whole)
    if not texts:
        nothing = np.zeros(part.shape[1])
        return nothing, nothing
    often = times_drawn(texts, np.random.default_rng([seed, texts]))
    drawn = often @ part / np.maximum(often @ whole, 1e-12)[:, None]  # [draws, tried]
    lower, upper = interval(drawn.T)
    value = part.sum(0) / max(whole.sum(), 1e-12)
    return np.minimum(lower, value), np.maximum(upper, value)


def mean_interval(values: Floats, seed: int = 0, draws: int = 200) -> tuple[float, float]:
    """Of the mean of values drawn again.  # [n]"""
    random = np.random.default_rng(seed)
    drawn = values[random.integers(0, len(values), (draws, len(values)))]  # [draws, n]
    lower, upper = interval(drawn.mean(1))
    return float(lower), float(upper)


def document_weights(documents: Sequence[int], draws: int, seed: int) -> Floats:
    """How often each document is in each draw, one by one; the first row is the corpus.

    A draw with replacement gives each document a weight of about Poisson(1). These follow from the
    seed and the document's place alone, so sums over a corpus that is read once need no second
    look at any document.  # -> [1 + draws, documents]
    """
    drawn = [np.random.default_rng([seed, place, 0]).poisson(1.0, draws) for place in documents]
    found = np.stack(drawn, 1) if drawn else np.zeros((draws, 0))
    return np.concatenate([np.ones((1, found.shape[1])), found])


# --- permutation nulls ----------------------------------------------------------------------------


def word_permutations(
    there: Sequence[NDArray[np.bool_]], documents: Sequence[int], number: int, seed: int
) -> NDArray[np.int16]:
    """Random orders of the words that are there; each document's from its place and the seed.

    # [documents] of [words] each -> [number, documents, words], where each word goes
    """
    longest = max((len(each) for each in there), default=0)
    found = np.tile(np.arange(longest, dtype=np.int16), (number, len(there), 1))
    for row, (words, document) in enumerate(zip(there, documents, strict=True)):
        random = np.random.default_rng([seed, document, 1])
        places = np.flatnonzero(words)
        drawn = random.random((number, len(places))).argsort(1)
        found[:, row, places] = places[drawn]
    return found


def permutation_p_values(scores: Floats, null: Floats, counts: Floats) -> Floats:
    """P-values of shares against their permutation nulls, corrected for all that was tried.

    A score is held against the largest score of each permutation. Scores are put on one scale by
    the arcsine of their root, whose spread hardly depends on the mean and is bounded for small
    counts: a standard score is not, and a few hits of a rare relation would outdo everything.
    scores [n] and null [permutations, n] are shares, counts [n] of how many -> [n]
    """
    if not len(scores):
        return scores
    root = np.sqrt(np.maximum(counts, 1))

    def angle(shares: Floats) -> Floats:
        found: Floats = np.arcsin(np.sqrt(np.clip(shares, 0, 1)))
        return found

    mean = angle(null.mean(0))
    highest = (2 * root * (angle(null) - mean)).max(1)  # [permutations]
    above = (highest[:, None] >= 2 * root * (angle(scores) - mean) - 1e-9).sum(0)  # a tie counts
    found: Floats = (above + 1) / (len(null) + 1)
    return found


# --- sign flips and sign tests --------------------------------------------------------------------

EXACT = 13  # units whose sign flips are all tried, where one difference is tested
ONE_SIDED_FLIPS = 9_999  # random ones, of more units
AT_ONCE = 1000  # flips


def _signs(number: int, flips: int, random: Random) -> Iterator[Floats]:
    """Random signs, some flips at a time.  # [some, number]"""
    for begin in range(0, flips, AT_ONCE):
        some = min(AT_ONCE, flips - begin)
        yield (2 * random.integers(0, 2, (some, number)) - 1).astype(np.float64)


def sign_flip_p_value(differences: Floats, seed: int) -> float:
    """One-sided: the share of sign flips that give as large a sum.  # [units]

    Every flip of up to EXACT units; of more, random ones.
    """
    number, least = len(differences), differences.sum() - 1e-9
    if number <= EXACT:
        bits = np.arange(2**number)[:, None] >> np.arange(number) & 1  # [flips, units]
        return float(((1 - 2 * bits) @ differences >= least).mean())
    blocks = _signs(number, ONE_SIDED_FLIPS, np.random.default_rng([seed, number]))
    as_large = sum(int((signs @ differences >= least).sum()) for signs in blocks)
    return (as_large + 1) / (ONE_SIDED_FLIPS + 1)


def sign_flip_p_values(differences: Floats, seed: int) -> Floats:
    """Two-sided, corrected over all that was tried (Westfall and Young).

    The share of sign flips of whole texts in which the largest studentised sum is as large.
    # [texts, tried] -> [tried]
    """
    texts, tried = differences.shape
    spread = np.sqrt(np.square(differences).sum(0))
    moving = spread > 0
    found = np.ones(tried)
    if not moving.any():
        return found
    studentised = differences[:, moving] / spread[moving]
    size = np.abs(studentised.sum(0))
    blocks = _signs(texts, FLIPS, np.random.default_rng([seed, texts, tried]))
    highest = np.concatenate([np.abs(signs @ studentised).max(1) for signs in blocks])  # [flips]
    above = (highest[:, None] >= size * (1 - 1e-9)).sum(0)
    found[moving] = (above + 1) / (FLIPS + 1)
    return found


def sign_test_p_values(ahead: Floats, behind: Floats) -> Floats:
    """P-values of being ahead of every rule, corrected for everything that was tried.

    Sign tests over pairs (sentences or documents, so that words of one need not be independent),
    which are exact for any count. A head is as surely ahead of all rules as of the one it is least
    surely ahead of, so the choice of the best rule needs no correction. What was tried counts where
    it could have reached the same p-value: with n pairs none is below 2^-n (Tarone 1990), and so
    the least count follows from how much is tried.
    ahead and behind [n, rules] -> [n]
    """
    pairs = ahead + behind
    p_values: Floats = binomial_p_values(ahead, pairs, 0.5).max(1)
    least = np.sort(0.5 ** pairs.max(1))
    tried = np.searchsorted(least, p_values * (1 + 1e-9), side="right")
    return np.minimum(1.0, p_values * tried)


# --- known distributions --------------------------------------------------------------------------


def binomial_p_values(hits: Floats, counts: Floats, chance: Floats | float) -> Floats:
    """How probable so many hits or more are, each with this chance.  # [...] -> [...]"""
    from scipy.stats import binom

    found: Floats = binom.sf(hits - 1, counts, chance)
    return found


def wilson_interval(hits: int, number: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    from scipy.stats import binomtest

    found = binomtest(hits, number).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def prediction_p_value(value: float, random: Floats) -> float:
    """One-sided: that a value is lower than random choices (t prediction interval).  # [choices]

    1 where there are fewer than two, or where all are equal: then nothing can be said.
    """
    from scipy.stats import t

    number = len(random)
    spread = float(random.std(ddof=1)) if number > 1 else 0.0
    if spread <= 1e-12:
        return 1.0
    below = (random.mean() - value) / (spread * np.sqrt(1 + 1 / number))
    return float(t.sf(below, number - 1))


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Corrected for their number (Holm 1979).  # [tried] -> [tried]"""
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    stepped = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    found = np.empty(len(given))
    found[order] = np.minimum(stepped, 1)
    return found
