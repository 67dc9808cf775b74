"""Values of units in clusters: words in documents, or pairs that exchange the same words.

Units of one cluster are not independent: the words of a document share its subject. So a bootstrap
draws whole clusters, and a test flips the signs of whole clusters. All that a sample of units says
with an interval or a p-value comes from their sums by cluster. Costs: a pass over the units, and a
product of 1,000 bootstrap samples by clusters by columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.core.arrays import Floats, Ints
from workbench.core.stats import (
    bootstrap_weights,
    interval_around,
    ratio,
    ratio_intervals,
    resampled,
    sign_flip_p_value,
    sign_flip_p_values,
)

Values = NDArray[Any]  # numbers, or whether something holds


@dataclass(frozen=True, eq=False)
class ClusterSample:
    """Units, each in one cluster. Samples with as many clusters and the same seed draw alike."""

    clusters: Ints  # [units], index of the cluster of each unit
    seed: int
    n_clusters: int

    @classmethod
    def of(cls, names: Sequence[str] | NDArray[Any], seed: int) -> "ClusterSample":
        """Return the sample whose units are in the clusters of these names or numbers."""
        distinct, clusters = np.unique(np.asarray(names), return_inverse=True)
        return cls(clusters, seed, len(distinct))

    def take(self, chosen: NDArray[Any] | Sequence[int]) -> "ClusterSample":
        """Return the sample of some units, without the clusters that have none of them."""
        return self.of(self.clusters[chosen], self.seed)

    def sums(self, values: Values) -> Floats:
        """Return the sums over the units of each cluster.  # [units, ...] -> [clusters, ...]"""
        sums = np.zeros((self.n_clusters, *values.shape[1:]))
        np.add.at(sums, self.clusters, values)
        return sums

    # --- means and shares: columns of one denominator

    def mean_interval(self, values: Values, per: Values | None = None) -> tuple[Floats, Floats]:
        """Return the interval of the mean, or of the values' sum per sum of others; contains it.

        A sample in which the denominator is 0 counts as 0.  # [units, ...], [units] -> [...] twice
        """
        part = self.sums(values)
        whole = self.sums(np.ones(len(values)) if per is None else per)
        ends = ratio_intervals(part.reshape(self.n_clusters, -1), whole, self.seed)
        lower, upper = (end.reshape(part.shape[1:])[()] for end in ends)
        return lower, upper

    @cached_property
    def weights(self) -> Floats:
        """How often each cluster is in each bootstrap sample.  # [draws, clusters]"""
        random = np.random.default_rng([self.seed, self.n_clusters])
        return bootstrap_weights(self.n_clusters, random)

    # --- ratios to compare with one another: columns of their own denominators

    def ratio_draws(self, part: Values, whole: Values) -> Floats:
        """Return ratios of sums in each bootstrap sample, the same samples for all; NaN: no whole.

        # [units, ...] twice -> [..., draws]
        """
        part, whole = np.broadcast_arrays(part, whole)
        sums = np.stack([self.sums(part), self.sums(whole)], -1)  # [clusters, ..., 2]
        counts = np.moveaxis(sums, 0, -2).reshape(-1, 1, self.n_clusters, 2)
        draws = resampled(counts, lambda each: ratio(each[..., 0], each[..., 1], np.nan), self.seed)
        return draws.reshape(*part.shape[1:], -1)

    def ratio_interval(self, part: Values, whole: Values) -> tuple[Floats, Floats]:
        """Return the interval of each ratio of sums; it contains the ratio.

        A sample in which the whole is 0 counts as the ratio.  # [units, ...] twice -> [...] twice
        """
        value = ratio(part.sum(0), whole.sum(0), np.nan)
        return interval_around(value, self.ratio_draws(part, whole))

    # --- tests: signs of whole clusters are flipped

    def p_above_zero(self, values: Values) -> float:
        """Return the one-sided p-value of the mean being above 0.  # [units]"""
        return sign_flip_p_value(self.sums(values)[np.unique(self.clusters)], self.seed)

    def p_values(self, values: Values) -> Floats:
        """Return two-sided p-values of means, corrected for their number.  # [units, n] -> [n]"""
        return sign_flip_p_values(self.sums(values), self.seed)
