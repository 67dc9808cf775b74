"""Racing: score all units on a few sentences, and on more only those whose answer is open.

A unit (a head) has a change of the loss on every sentence, and the exact answer is its mean over
all sentences of a corpus. The race predicts two things of that answer: which units are among the
`top`, and which are significantly different from zero. Units are scored round by round on the same
sentences, in a random order that depends on the seed; a unit for which both are decided is not
scored any more. A guess of each change is known for all sentences, such as a gradient. Sentences
with large guesses are drawn earlier (sequential Poisson sampling); what the guess and its size
predict is not sampled (regression estimator), and the part of the corpus that was seen reduces the
error. Intervals are Student's, at a level such that those of all rounds hold together: each round
has a share of the 5 % in proportion to its number of sentences, divided by the number of
comparisons (`docs/decisions/racing.md`). Costs: milliseconds a round, besides the scoring.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from workbench.core.arrays import Floats
from workbench.core.stats import SIGNIFICANT

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Score = Callable[[Integers, Integers], Floats]  # units, sentences -> changes [sentences, units]

FIRST = 100  # sentences of the first round; with fewer, skewed changes are no case for Student's t
GROWTH = 1.2  # from one round to the next
PRECISE = 1.25  # a unit leaves when its interval is at most so much wider than the exact one
REGRESSORS = 3  # number of predictions, guess, size of the guess
DOUBT = 0.1  # of a guess' spread that its residuals have at least


@dataclass(frozen=True)
class Round:
    """One round: how many sentences had been scored at its end, and which units it scored."""

    sentences: int
    units: Integers


@dataclass(frozen=True)
class Race:
    """What is known of each unit, in arrays of [units], and the rounds."""

    order: Integers  # of the sentences; each unit was scored on the first n of them
    weight: Floats  # of each sentence, in this order: how readily it was drawn
    n: Integers  # sentences that it was scored on
    value: Floats
    lower: Floats  # 95 %, over all rounds together
    upper: Floats
    p_value: Floats  # corrected over units and rounds
    top: Flags  # among the `top`; where open, by its value
    open_top: Flags
    open_effect: Flags  # not significant, but the exact answer may be
    rounds: tuple[Round, ...]

    @property
    def passes(self) -> int:
        """Number of scored pairs of a unit and a sentence."""
        return int(self.n.sum())


def sizes(total: int) -> list[int]:
    """Return the number of sentences after each round; the last one has all of them."""
    found, size = [], float(FIRST)
    while size < 0.8 * total:
        found.append(round(size))
        size *= GROWTH
    return [*found, total]


def weights(guess: Floats) -> Floats:
    """Return how readily each sentence is drawn: more if guesses are large there, at least by half.

    # guess [sentences, units] -> [sentences]
    """
    spread = guess.std(0)
    size = (np.abs(guess[:, spread > 0]) / spread[spread > 0]).sum(1)
    return 1 + size / size.mean() if size.any() else np.ones(len(guess))


def chances(weight: Floats, n: int) -> Floats:
    """Return the probability of each sentence to be among the first n; all sum to n."""
    found, certain = np.ones(len(weight)), np.zeros(len(weight), bool)
    while n < len(weight):
        rest = ~certain
        found[rest] = weight[rest] * (n - certain.sum()) / weight[rest].sum()
        if (found[rest] < 1).all():
            break
        certain |= found >= 1
        found[certain] = 1
    return found


@dataclass(frozen=True)
class Estimate:
    """Ratios of sums for some units from the first n of all sentences, with their errors."""

    value: Floats  # [units]
    exact_error: (
        Floats  # standard error of the exact answer itself, as a sample of texts  # [units]
    )
    residuals: Floats  # whose sum of squares is the variance by the race  # [n, units]
    guessed: Floats  # whose sum of squares would be, if nothing had been guessed  # [total, units]
    freedom: int  # degrees, of the residuals
    exact_freedom: int  # degrees, of the exact answer's error

    @cached_property
    def race_error(self) -> Floats:
        """Standard error with which the exact answer is known.  # [units]"""
        seen, least = (np.square(part).sum(0) for part in (self.residuals, self.guessed))
        error: Floats = np.sqrt(np.maximum(seen, DOUBT**2 * least))
        return error

    @cached_property
    def error(self) -> Floats:
        """Standard error of both together.  # [units]"""
        return np.hypot(self.race_error, self.exact_error)

    def pair_errors(self, units: Integers) -> Floats:
        """Standard errors of exact differences between units.  # [some, some]"""
        seen, least = (_pair_squares(part[:, units]) for part in (self.residuals, self.guessed))
        errors: Floats = np.sqrt(np.maximum(seen, DOUBT**2 * least))
        return errors


def _pair_squares(rows: Floats) -> Floats:
    """Sums of squares of the differences of two columns.  # [n, some] -> [some, some]"""
    products = rows.T @ rows
    own = np.diag(products)
    return np.maximum(own[:, None] + own[None] - 2 * products, 0)


def estimated(part: Floats, number: Floats, guess: Floats, weight: Floats) -> Estimate:
    """Estimate sum(part) / sum(number) over all sentences from the part of the first n.

    # part [n, units], number, weight [total], guess of part [total, units]
    """
    n = len(part)
    chance, predictions = chances(weight, n), max(number.sum(), 1e-12)
    drawn = chance[:n, None]  # each stands for 1 / drawn sentences
    spread = guess.std(0)
    scaled = np.divide(guess, spread, out=np.zeros_like(guess), where=spread > 0)
    counts = np.broadcast_to(number[:, None], guess.shape)
    known = np.stack([counts.T, scaled.T, np.abs(scaled.T)], 1)  # [units, 3, total]
    seen = known[:, :, :n] / chance[:n]
    gram = seen @ known[:, :, :n].swapaxes(1, 2)
    moments = seen @ part.T[..., None]  # [units, 3, 1]
    slopes = np.linalg.pinv(gram, hermitian=True) @ moments
    fitted = (slopes.swapaxes(1, 2) @ known)[:, 0].T  # [total, units]
    missed = (part - fitted[:n]) / drawn  # [n, units]
    value = (fitted.sum(0) + missed.sum(0)) / predictions
    own = np.square(part - value * number[:n, None]) / drawn
    freedom = max(int((drawn < 1).sum()) - REGRESSORS, 1)
    centre = ((1 - drawn) * missed).sum(0) / max(float((1 - drawn).sum()), 1e-12)
    correction = (freedom + REGRESSORS) / freedom / predictions**2
    unseen = np.maximum(1 / chance - 1, 0)[:, None]
    return Estimate(
        value,
        np.sqrt(own.sum(0) * n / max(n - 1, 1)) / predictions,
        np.sqrt((1 - drawn) * correction) * (missed - centre),
        np.sqrt(unseen) * (fitted - value * counts) / predictions,
        freedom,
        max(n - REGRESSORS, 1),
    )


def quantile(share: float, freedom: int) -> float:
    """Return half the width, in standard errors, of an interval with this share of the 5 %."""
    from scipy.special import stdtrit  # what `scipy.stats.t.isf` calls, which costs much more

    return -float(stdtrit(freedom, SIGNIFICANT * share / 2))


def intervals(estimate: Estimate, share: float) -> tuple[Floats, Floats, Floats]:
    """Return bounds of 95 % intervals and two-sided p-values, of one round with its share.

    P-values are corrected for the other rounds, and not yet for the number of units.
    # -> [units], [units], [units]
    """
    from scipy.special import stdtr

    value, error = estimate.value, estimate.error
    wide = quantile(share, estimate.exact_freedom) * error
    size = np.where(value == 0, 0.0, np.inf)  # without an error, any change is significant
    np.divide(np.abs(value), error, out=size, where=error > 0)
    p_values = np.minimum(1, 2 * stdtr(estimate.exact_freedom, -size) / share)
    return value - wide, value + wide, p_values


def shares(all_sizes: list[int]) -> Floats:
    """Return the share of the error that each round may spend.  # [rounds]"""
    return np.array(all_sizes, np.float64) / max(sum(all_sizes), 1)


def race(
    score: Score,
    number: Floats,
    guess: Floats,
    top: int,
    tie: float,
    seed: int,
    most: int | None = None,
) -> Race:
    """Race units until it is decided which are among the `top`, and which are not zero.

    Args:
        score: The changes of some units on some sentences, as sums over each sentence.
        number: Predictions of each sentence; values are sums of changes divided by their sum.
        guess: A guess of each change (zeros: none).  # [sentences, units]
        top: Number of units whose membership is decided, by the largest values.
        tie: Units whose values differ by less are equal, and a value that is less is zero.
        seed: The order of the sentences depends on it.
        most: Maximum number of rounds (default: until all is decided).
    """
    total, units = guess.shape
    weight = weights(guess)
    order = np.argsort(np.random.default_rng([seed, total, 7]).random(total) / weight)
    number, guess, weight = number[order], guess[order], weight[order]
    all_sizes = sizes(total)
    share, rank_share = shares(all_sizes), shares(all_sizes[:-1])  # the last round knows the rank
    changes, n = np.zeros((total, units)), np.zeros(units, np.int64)
    value, lower, upper, p_value = (np.zeros(units) for _ in range(4))
    is_top, p_value[:] = np.full(units, units <= top), 1.0
    open_top, open_effect, precise = ~is_top, np.ones(units, bool), np.zeros(units, bool)
    done: list[Round] = []
    for index, size in enumerate(all_sizes[:most]):
        racing = np.flatnonzero(open_top | (open_effect & ~precise))
        if not len(racing):
            break
        before = done[-1].sentences if done else 0
        changes[before:size, racing] = score(racing, order[before:size])
        done.append(Round(size, racing))
        found = estimated(changes[:size, racing], number, guess[:, racing], weight)
        n[racing], value[racing] = size, found.value
        lower[racing], upper[racing], corrected = intervals(found, share[index])
        zero = np.maximum(np.abs(lower[racing]), np.abs(upper[racing])) < tie
        corrected = np.where(zero, 1.0, np.minimum(1, units * corrected))
        p_value[racing] = np.minimum(p_value[racing], corrected)
        wide = quantile(share[index] / units, found.freedom) * found.race_error
        needed = quantile(share[-1] / units, total) * found.exact_error  # by the exact answer
        decided = zero | (p_value[racing] < SIGNIFICANT) | (np.abs(found.value) + wide <= needed)
        open_effect[racing] &= ~decided & (size < total)
        precise[racing] = found.error <= PRECISE * found.exact_error
        if open_top.any():
            rivals, places = np.flatnonzero(open_top), top - int(is_top.sum())
            pairs = places * (len(rivals) - places)  # that may still be wrong
            far = quantile(2 * rank_share[index] / pairs if size < total else 1.0, found.freedom)
            inside, outside = _members(found, np.searchsorted(racing, rivals), places, far, tie)
            is_top[rivals[inside]] = True
            open_top[rivals[inside | outside]] = False
    likely = sorted(np.flatnonzero(open_top), key=lambda unit: (-value[unit], unit))
    is_top[likely[: top - int(is_top.sum())]] = True
    return Race(
        order, weight, n, value, lower, upper, p_value, is_top, open_top, open_effect, tuple(done)
    )  # fmt: skip


def along(changes: Floats, number: Floats, found: Race) -> tuple[Floats, Floats, Floats, Floats]:
    """Return values, 95 % intervals and p-values of other changes, where the race ended.

    Such as the accuracy, of a race by the loss. P-values are corrected over units and rounds.
    # changes [sentences, units], number [sentences] -> [units] each
    """
    number, all_sizes = number[found.order], sizes(len(number))
    columns = np.zeros((4, len(found.n)))
    for size, share in zip(all_sizes, shares(all_sizes), strict=True):
        units = np.flatnonzero(found.n == size)
        part = changes[np.ix_(found.order[:size], units)]
        estimate = estimated(part, number, np.zeros((len(number), len(units))), found.weight)
        lower, upper, p_values = intervals(estimate, share)
        corrected = np.minimum(1, len(found.n) * p_values)
        columns[:, units] = estimate.value, lower, upper, corrected
    value, lower, upper, p_values = columns
    return value, lower, upper, p_values


def _members(
    found: Estimate, rivals: Integers, places: int, far: float, tie: float
) -> tuple[Flags, Flags]:
    """Which rivals have one of the places for sure, and which have none.  # [rivals], [rivals]"""
    value, index = found.value[rivals], np.arange(len(rivals))
    differences = value[:, None] - value[None]  # [rivals, rivals]
    ahead = (differences > 0) | ((differences == 0) & (index[:, None] < index[None]))
    surely = ahead & (differences - far * found.pair_errors(rivals) > -tie)
    return surely.sum(1) >= len(rivals) - places, surely.sum(0) >= places
