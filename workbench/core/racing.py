"""Racing: score all units on a few sentences, and on more only those whose answer is open.

A unit (a head) has a change of the loss on every sentence, and the exact answer is its mean over
all sentences of a corpus. The race predicts two things of that answer: which units are among the
`top`, and which are significantly different from zero. Units are scored round by round on the same
sentences, in a random order that depends on the seed; a unit for which both are decided is not
scored any more. A guess of each change that is known for all sentences, such as a gradient, is
subtracted where it correlates (regression estimator of survey sampling), and the part of the corpus
that was seen reduces the error (finite population correction). Intervals are Student's, at a level
such that those of all rounds hold together: each round has a share of the 5 % in proportion to its
number of sentences, divided by the number of comparisons (`docs/decisions/racing.md`).
Costs: milliseconds a round, besides the scoring.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.core.stats import SIGNIFICANT, Floats

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Score = Callable[[Integers, Integers], Floats]  # units, sentences -> changes [sentences, units]

FIRST = 100  # sentences of the first round; with fewer, skewed changes are no case for Student's t
GROWTH = 1.3  # from one round to the next
PRECISE = 1.25  # a unit leaves when its interval is at most so much wider than the exact one
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


@dataclass(frozen=True)
class Estimate:
    """Ratios of sums for some units from the first n of all sentences, with their errors."""

    n: int
    total: int
    value: Floats  # [units]
    spread: Floats  # standard deviation of one sentence  # [units]
    residuals: Floats  # what the guess does not explain  # [n, units]
    explained: Floats  # what it explains  # [total, units]

    @property
    def unseen(self) -> float:
        """The variance of a mean of n of all sentences, for a variance of 1."""
        return 1 / self.n - 1 / self.total

    @property
    def race_error(self) -> Floats:
        """Standard error with which the exact answer is known.  # [units]"""
        seen = np.square(self.residuals).sum(0) / max(self.n - 2, 1)
        least = DOUBT**2 * np.square(self.explained).mean(0)
        error: Floats = np.sqrt(np.maximum(seen, least) * self.unseen)
        return error

    @property
    def exact_error(self) -> Floats:
        """Standard error of the exact answer itself, as a sample of texts.  # [units]"""
        error: Floats = self.spread / np.sqrt(self.total)
        return error

    @property
    def error(self) -> Floats:
        """Standard error of both together.  # [units]"""
        error: Floats = np.hypot(self.race_error, self.exact_error)
        return error

    def pair_errors(self, units: Integers) -> Floats:
        """Standard errors of exact differences between units.  # [some, some]"""
        seen = _pair_squares(self.residuals[:, units]) / max(self.n - 2, 1)
        least = DOUBT**2 * _pair_squares(self.explained[:, units]) / self.total
        errors: Floats = np.sqrt(np.maximum(seen, least) * self.unseen)
        return errors


def _pair_squares(rows: Floats) -> Floats:
    """Sums of squares of the differences of two columns.  # [n, some] -> [some, some]"""
    products = rows.T @ rows
    own = np.diag(products)
    return np.maximum(own[:, None] + own[None] - 2 * products, 0)


def estimated(part: Floats, number: Floats, guess: Floats) -> Estimate:
    """Estimate sum(part) / sum(number) over all sentences from the part of the first n.

    # part [n, units], number [total], guess of part [total, units]
    """
    n, total = len(part), len(number)
    mean = max(number[:n].mean(), 1e-12)
    value = part.mean(0) / mean
    own = (part - value * number[:n, None]) / mean  # [n, units], influences; their mean is 0
    whole = guess.sum(0) / max(number.sum(), 1e-12)
    guessed = (guess - whole * number[:, None]) / max(number.mean(), 1e-12)  # [total, units]
    there = guessed[:n] - guessed[:n].mean(0)
    squares = np.square(there).sum(0)
    weight = np.divide((own * there).sum(0), squares, out=np.ones_like(value), where=squares > 0)
    return Estimate(
        n,
        total,
        value - weight * guessed[:n].mean(0),
        np.sqrt(np.square(own).sum(0) / max(n - 1, 1)),
        own - weight * there,
        weight * guessed,
    )


def quantile(share: float, n: int) -> float:
    """Return half the width, in standard errors, of an interval with this share of the 5 %."""
    from scipy.stats import t

    return float(t.isf(SIGNIFICANT * share / 2, max(n - 2, 1)))


def intervals(estimate: Estimate, share: float) -> tuple[Floats, Floats, Floats]:
    """Return bounds of 95 % intervals and two-sided p-values, of one round with its share.

    P-values are corrected for the other rounds, and not yet for the number of units.
    # -> [units], [units], [units]
    """
    from scipy.stats import t

    value, error = estimate.value, estimate.error
    wide = quantile(share, estimate.n) * error
    size = np.where(value == 0, 0.0, np.inf)  # without an error, any change is significant
    np.divide(np.abs(value), error, out=size, where=error > 0)
    p_values = np.minimum(1, 2 * t.sf(size, max(estimate.n - 2, 1)) / share)
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
    order = np.random.default_rng([seed, total, 7]).permutation(total)
    number, guess = number[order], guess[order]
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
        found = estimated(changes[:size, racing], number, guess[:, racing])
        n[racing], value[racing] = size, found.value
        lower[racing], upper[racing], corrected = intervals(found, share[index])
        zero = np.maximum(np.abs(lower[racing]), np.abs(upper[racing])) < tie
        corrected = np.where(zero, 1.0, np.minimum(1, units * corrected))
        p_value[racing] = np.minimum(p_value[racing], corrected)
        wide = quantile(share[index] / units, size) * found.race_error
        needed = quantile(share[-1] / units, total) * found.exact_error  # by the exact answer
        decided = zero | (p_value[racing] < SIGNIFICANT) | (np.abs(found.value) + wide <= needed)
        open_effect[racing] &= ~decided & (size < total)
        precise[racing] = found.error <= PRECISE * found.exact_error
        if open_top.any():
            rivals, places = np.flatnonzero(open_top), top - int(is_top.sum())
            level = 2 * rank_share[index] / (top * (units - top)) if size < total else 1.0
            far = quantile(level, size)
            inside, outside = _members(found, np.searchsorted(racing, rivals), places, far, tie)
            is_top[rivals[inside]] = True
            open_top[rivals[inside | outside]] = False
    likely = sorted(np.flatnonzero(open_top), key=lambda unit: (-value[unit], unit))
    is_top[likely[: top - int(is_top.sum())]] = True
    return Race(order, n, value, lower, upper, p_value, is_top, open_top, open_effect, tuple(done))


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
        estimate = estimated(part, number, np.zeros((len(number), len(units))))
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
