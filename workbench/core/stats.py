"""All intervals and p-values: bootstrap, permutation nulls, sign flips, multiple-test corrections.

The test depends on what is independent. Scores of the same sentences are compared by resampling
sentences (`resampled`, `ratio_intervals`); two results for the same texts by flipping signs
(`sign_flip_p_values`); heads and shuffled trees by permutation (`permutation_p_values`). Every
random stream depends on the seed and the sizes only. Costs: a matrix product of draws by sentences
by rows, some milliseconds.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from workbench.core.arrays import Floats

Random = np.random.Generator

DRAWS = 1000  # bootstrap samples
FLIPS = 2000  # random sign flips in a test of many differences
SIGNIFICANT = 0.05

# --- from sums to scores: [..., numbers] -> [...] -------------------------------------------------


def rank_correlation(first: Floats, second: Floats) -> float:
    """Return Spearman's rank correlation; 0 if either has only equal values.  # [n] each"""
    from scipy.stats import spearmanr

    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(spearmanr(first, second).statistic)


def thirds(values: Floats) -> NDArray[np.intp]:
    """Return the third of each value, 0 for the smallest ones.  # [n] -> [n]"""
    bounds = np.quantile(values, (1 / 3, 2 / 3)) if len(values) else values
    return np.searchsorted(bounds, values)


def ratio(part: Floats, whole: Floats, undefined: float = 0.0) -> Floats:
    """Return part / whole; `undefined` where whole is 0.  # [...], [...] -> [...]"""
    quotient: Floats = np.full(np.broadcast_shapes(part.shape, whole.shape), undefined, np.float64)
    return np.divide(part, whole, out=quotient, where=whole > 0)


def share(sums: Floats) -> Floats:
    """Return correct / all.  # [..., 2] -> [...]"""
    return ratio(sums[..., 0], sums[..., 1])


def f1(sums: Floats) -> Floats:
    """Return F1 = 2 · correct / (predicted + gold).  # [..., 3] -> [...]"""
    return ratio(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


# --- bootstrap ------------------------------------------------------------------------------------


def bootstrap_weights(number: int, random: Random, draws: int = DRAWS) -> Floats:
    """Return how often each unit is in each bootstrap sample.  # -> [draws, number]"""
    share = np.full(number, 1 / max(number, 1))
    return random.multinomial(number, share, size=draws).astype(np.float64)


def resampled(
    counts: NDArray[np.generic], measure: Callable[[Floats], Floats], seed: int, draws: int = DRAWS
) -> Floats:
    """Return the measure of each row in each bootstrap sample of sentences and seeds.

    The counts are summed over the sampled sentences, and the measure is averaged over the sampled
    seeds. All rows use the same samples, so two of them (two layers, two models) can be compared
    sample by sample. `counts` is [rows, seeds, sentences, numbers]; `measure` maps [..., numbers]
    to [...].  # -> [rows, draws]
    """
    rows, seeds, sentences, numbers = counts.shape
    random = np.random.default_rng([seed, sentences, seeds])
    times = bootstrap_weights(sentences, random, draws)
    flat = np.moveaxis(counts, 2, 0).reshape(sentences, -1).astype(np.float64)
    values = measure((times @ flat).reshape(draws, rows, seeds, numbers))  # [draws, rows, seeds]
    chosen = random.integers(0, seeds, size=(draws, seeds))  # the same seeds for every row
    means = np.take_along_axis(values, chosen[:, None, :], axis=2).mean(axis=2)
    return np.ascontiguousarray(means.T)


def interval(draws: Floats) -> tuple[Floats, Floats]:
    """Return the bounds of the middle 95 % of the draws.  # [..., draws] -> [...], [...]"""
    lower, upper = np.percentile(draws, [2.5, 97.5], axis=-1)
    return lower, upper


def interval_around(value: Floats | float, draws: Floats) -> tuple[Floats, Floats]:
    """Return the interval of the draws of a value, which contains it; NaN draws count as it.

    # [...], [..., draws] -> [...], [...]
    """
    lower, upper = interval(np.where(np.isnan(draws), np.asarray(value)[..., None], draws))
    return np.minimum(lower, value), np.maximum(upper, value)


def p_value(differences: Floats) -> Floats:
    """Return two-sided p-values of resampled differences from zero.  # [..., draws] -> [...]

    A p-value is never 0: n draws cannot show a p-value below about 2 / n.
    """
    draws = differences.shape[-1]
    beyond = np.minimum((differences <= 0).sum(-1), (differences >= 0).sum(-1))
    p_values: Floats = np.minimum(1.0, 2 * (beyond + 1) / (draws + 1))
    return p_values


def difference(first: Floats, second: Floats) -> tuple[float, float, float]:
    """Return the interval and p-value of second - first, draw by draw.  # [draws], [draws]"""
    lower, upper = interval(second - first)
    return float(lower), float(upper), float(p_value(second - first))


def ratio_intervals(part: Floats, whole: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return bootstrap intervals over texts of ratios of sums; each contains its ratio.

    # [texts, tried], [texts] -> [tried], [tried]
    """
    texts = len(whole)
    if not texts:
        zeros = np.zeros(part.shape[1])
        return zeros, zeros
    times = bootstrap_weights(texts, np.random.default_rng([seed, texts]))
    drawn = times @ part / np.maximum(times @ whole, 1e-12)[:, None]  # [draws, tried]
    lower, upper = interval(drawn.T)
    value = part.sum(0) / max(whole.sum(), 1e-12)
    return np.minimum(lower, value), np.maximum(upper, value)


def mean_interval(values: Floats) -> tuple[float, float]:
    """Return the bootstrap interval of the mean of the values, of 200 samples.  # [n]"""
    random = np.random.default_rng(0)
    drawn = values[random.integers(0, len(values), (200, len(values)))]  # [draws, n]
    lower, upper = interval(drawn.mean(1))
    return float(lower), float(upper)


def document_weights(documents: Sequence[int], draws: int, seed: int) -> Floats:
    """Return the weight of each document in each bootstrap sample; the first row is all ones.

    In a sample with replacement each document has a weight of about Poisson(1). The weights depend
    on the seed and the index of the document only, so a corpus needs to be read only once.
    # -> [1 + draws, documents]
    """
    drawn = [np.random.default_rng([seed, index, 0]).poisson(1.0, draws) for index in documents]
    weights = np.stack(drawn, 1) if drawn else np.zeros((draws, 0))
    return np.concatenate([np.ones((1, weights.shape[1])), weights])


# --- permutation nulls ----------------------------------------------------------------------------


def word_permutations(
    masks: Sequence[NDArray[np.bool_]], documents: Sequence[int], number: int, seed: int
) -> NDArray[np.int16]:
    """Return random orders of the words in each mask, by the seed and the index of the document.

    # [documents] of [words] each -> [number, documents, words], the new position of each word
    """
    longest = max((len(mask) for mask in masks), default=0)
    orders = np.tile(np.arange(longest, dtype=np.int16), (number, len(masks), 1))
    for row, (mask, document) in enumerate(zip(masks, documents, strict=True)):
        random = np.random.default_rng([seed, document, 1])
        positions = np.flatnonzero(mask)
        drawn = random.random((number, len(positions))).argsort(1)
        orders[:, row, positions] = positions[drawn]
    return orders


def permutation_p_values(scores: Floats, null: Floats, counts: Floats) -> Floats:
    """Return p-values of shares against a permutation null, corrected for multiple tests.

    Each score is compared with the largest score of each permutation. Scores are put on one scale
    by the arcsine of their square root: its spread hardly depends on the mean, and is bounded for
    small counts. A standard score is not bounded, so a few hits of a rare relation would exceed
    everything else. scores [n] and null [permutations, n] are shares of counts [n] -> [n]
    """
    if not len(scores):
        return scores
    root = np.sqrt(np.maximum(counts, 1))

    def angle(shares: Floats) -> Floats:
        return np.arcsin(np.sqrt(np.clip(shares, 0, 1)))

    mean = angle(null.mean(0))
    highest = (2 * root * (angle(null) - mean)).max(1)  # [permutations]
    above = (highest[:, None] >= 2 * root * (angle(scores) - mean) - 1e-9).sum(0)  # a tie counts
    p_values: Floats = (above + 1) / (len(null) + 1)
    return p_values


def permutation_p_values_of_means(means: Floats, null: Floats) -> Floats:
    """Return one-sided p-values of means above a permutation null, corrected for multiple tests.

    Means and null are put on one scale by the mean and the standard deviation of both, and each
    mean is compared with the largest one of each permutation.
    # [tried], [permutations, tried] -> [tried]
    """
    both = np.concatenate([means[None], null])
    spread = both.std(0)
    varies = spread > 1e-9 * np.abs(both).max(0, initial=0.0)
    scaled = np.zeros_like(both)
    np.divide(both - both.mean(0), spread, out=scaled, where=varies)
    highest = scaled[1:].max(1, initial=-np.inf)  # [permutations]
    above = (highest[:, None] >= scaled[0] - 1e-9).sum(0)
    return np.where(varies, (above + 1) / (len(null) + 1), 1.0)


# --- sign flips and sign tests --------------------------------------------------------------------

EXACT = 13  # maximum number of units for an exact test: all sign flips of one difference
ONE_SIDED_FLIPS = 9_999  # random sign flips, where there are more units
AT_ONCE = 1000  # sign flips in memory at a time


def _signs(number: int, flips: int, random: Random) -> Iterator[Floats]:
    """Yield blocks of random signs.  # [size, number]"""
    for begin in range(0, flips, AT_ONCE):
        size = min(AT_ONCE, flips - begin)
        yield (2 * random.integers(0, 2, (size, number)) - 1).astype(np.float64)


def sign_flip_p_value(differences: Floats, seed: int) -> float:
    """Return the one-sided p-value: the share of sign flips with at least this sum.  # [units]

    All flips for up to EXACT units, random flips for more.
    """
    number, observed = len(differences), differences.sum() - 1e-9
    if number <= EXACT:
        bits = np.arange(2**number)[:, None] >> np.arange(number) & 1  # [flips, units]
        return float(((1 - 2 * bits) @ differences >= observed).mean())
    blocks = _signs(number, ONE_SIDED_FLIPS, np.random.default_rng([seed, number]))
    as_large = sum(int((signs @ differences >= observed).sum()) for signs in blocks)
    return (as_large + 1) / (ONE_SIDED_FLIPS + 1)


def sign_flip_p_values(differences: Floats, seed: int) -> Floats:
    """Return two-sided p-values, corrected for multiple tests (Westfall and Young).

    The share of sign flips of whole texts in which the largest studentised sum is as large.
    # [texts, tried] -> [tried]
    """
    texts, tried = differences.shape
    spread = np.sqrt(np.square(differences).sum(0))
    varies = spread > 0
    p_values = np.ones(tried)
    if not varies.any():
        return p_values
    studentised = differences[:, varies] / spread[varies]
    size = np.abs(studentised.sum(0))
    blocks = _signs(texts, FLIPS, np.random.default_rng([seed, texts, tried]))
    highest = np.concatenate([np.abs(signs @ studentised).max(1) for signs in blocks])  # [flips]
    above = (highest[:, None] >= size * (1 - 1e-9)).sum(0)
    p_values[varies] = (above + 1) / (FLIPS + 1)
    return p_values


def sign_test_p_values(ahead: Floats, behind: Floats) -> Floats:
    """Return p-values of being ahead of every baseline rule, corrected for multiple tests.

    Sign tests over pairs, exact for any count. A pair is a sentence or a document, so words of one
    sentence need not be independent. The p-value of a head is the largest over the rules, so the
    choice of the best rule needs no correction. Only tests that could have reached the same p-value
    are counted: with n pairs none is below 2^-n (Tarone 1990).
    ahead and behind [n, rules] -> [n]
    """
    pairs = ahead + behind
    p_values: Floats = binomial_p_values(ahead, pairs, 0.5).max(1)
    smallest = np.sort(0.5 ** pairs.max(1))  # p-value that each test could reach
    tried = np.searchsorted(smallest, p_values * (1 + 1e-9), side="right")
    return np.minimum(1.0, p_values * tried)


# --- known distributions --------------------------------------------------------------------------


def binomial_p_values(hits: Floats, counts: Floats, chance: Floats | float) -> Floats:
    """Return the probability of at least this many hits with this chance.  # [...] -> [...]"""
    from scipy.stats import binom

    p_values: Floats = binom.sf(hits - 1, counts, chance)
    return p_values


def wilson_interval(hits: int, number: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    from scipy.stats import binomtest

    bounds = binomtest(hits, number).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)


def t_interval(values: Floats) -> tuple[Floats, Floats]:
    """Return the 95 % interval of the mean of few draws, by Student's t; NaN for a single one.

    # [..., draws] -> [...], [...]
    """
    from scipy import stats

    number = values.shape[-1]
    mean = values.mean(-1)
    if number < 2:
        return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    half = stats.t.ppf(0.975, number - 1) * values.std(-1, ddof=1) / np.sqrt(number)
    return mean - half, mean + half


def prediction_p_value(value: float, random: Floats) -> float:
    """Return the one-sided p-value that a value is below random choices.  # [choices]

    From a t prediction interval; 1 for fewer than two choices, or where all are equal.
    """
    from scipy.stats import t

    number = len(random)
    spread = float(random.std(ddof=1)) if number > 1 else 0.0
    if spread <= 1e-12:
        return 1.0
    below = (random.mean() - value) / (spread * np.sqrt(1 + 1 / number))
    return float(t.sf(below, number - 1))


def p_value_beyond(value: float, random: Floats, draws: Floats) -> float:
    """Return the two-sided p-value of a value among those of random models; 1 without several.

    Where they are all equal, as of random models that always predict the same, it is the
    bootstrap's, whose `draws` are of the value.  # [models], [draws]
    """
    if len(random) < 2:
        return 1.0
    if np.ptp(random) < 1e-12:
        return float(p_value(draws - random[0]))
    sides = prediction_p_value(value, random), prediction_p_value(-value, -random)
    return min(1.0, 2 * min(sides))


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Return p-values corrected for their number (Holm 1979).  # [tried] -> [tried]"""
    raw = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    corrected = np.empty(len(raw))
    corrected[order] = np.minimum(stepped, 1)
    return corrected
