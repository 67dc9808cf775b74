"""What a sample of units in clusters says, next to plain loops from the definitions."""

import random
from itertools import product
from statistics import fmean, quantiles

import numpy as np
import pytest

from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.stats import interval_around

SEED = 3


def clustered(n_clusters: int, seed: int, size: int = 6) -> tuple[ClusterSample, Floats]:
    """Up to so many units a cluster, with a mean of the cluster's own; the mean of all is 0."""
    draw = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), draw.integers(1, size + 1, n_clusters))
    values = draw.normal(0, 1, n_clusters)[clusters] + draw.normal(0, 0.3, len(clusters))
    return ClusterSample.of(clusters, seed), values


# --- judges: from the definitions, in plain Python ------------------------------------------------


def judged_draws(clusters: list[int], part: list[float], whole: list[float]) -> list[float]:
    """Ratios of sums over clusters drawn with replacement."""
    names, draw = sorted(set(clusters)), random.Random(0)
    units = {name: [n for n, each in enumerate(clusters) if each == name] for name in names}
    ratios = []
    for _ in range(4000):
        chosen = [unit for name in draw.choices(names, k=len(names)) for unit in units[name]]
        ratios.append(sum(part[n] for n in chosen) / sum(whole[n] for n in chosen))
    return ratios


def judged_p(clusters: list[int], values: list[float]) -> float:
    """The share of all ways to flip the signs of clusters that have at least this sum."""
    names = sorted(set(clusters))
    sums = []
    for signs in product((1, -1), repeat=len(names)):
        of = dict(zip(names, signs, strict=True))
        sums.append(sum(of[name] * value for name, value in zip(clusters, values, strict=True)))
    return fmean(each >= sum(values) - 1e-9 for each in sums)


def test_intervals_are_those_of_clusters_drawn_in_a_plain_loop() -> None:
    sample, values = clustered(25, seed=0)
    whole = np.random.default_rng(1).uniform(0.5, 2, len(values))
    ones = np.ones(len(values))
    found = [
        (sample.mean_interval(values), ones),
        (sample.mean_interval(values, whole), whole),
        (sample.ratio_interval(values, ones), ones),
        (sample.ratio_interval(values, whole), whole),
    ]
    for (lower, upper), of in found:
        cuts = quantiles(
            judged_draws(*(each.tolist() for each in (sample.clusters, values, of))), n=40
        )
        assert (lower, upper) == pytest.approx((cuts[0], cuts[-1]), abs=0.1 * (cuts[-1] - cuts[0]))


def test_a_p_value_is_the_share_of_all_flips_of_clusters() -> None:
    for seed in range(6):
        sample, values = clustered(9, seed)
        assert sample.p_above_zero(values + 0.4) == pytest.approx(
            judged_p(sample.clusters.tolist(), (values + 0.4).tolist())
        )


# --- known answers --------------------------------------------------------------------------------


def test_sums_are_by_cluster_for_any_shape() -> None:
    sample = ClusterSample.of(["b", "a", "b"], SEED)
    assert sample.sums(np.array([1.0, 2.0, 4.0])).tolist() == [2, 5]
    assert sample.sums(np.array([[1, 2], [3, 4], [5, 6]])).tolist() == [[3, 4], [6, 8]]
    assert sample.sums(np.array([True, False, True])).tolist() == [0, 2]


def test_of_some_units_only_their_clusters_are_left() -> None:
    sample = ClusterSample.of(np.array([7, 7, 8, 9]), SEED).take([1, 3])
    assert sample.n_clusters == 2 and sample.clusters.tolist() == [0, 1]


def test_copies_within_a_cluster_say_nothing_new() -> None:
    sample, values = clustered(20, seed=2)
    twice, both = ClusterSample.of(np.tile(sample.clusters, 2), 2), np.tile(values, 2)
    np.testing.assert_allclose(twice.mean_interval(both), sample.mean_interval(values))
    ones = np.ones(len(values))
    np.testing.assert_allclose(
        twice.ratio_draws(both, np.tile(ones, 2)), sample.ratio_draws(values, ones)
    )
    assert twice.p_above_zero(both) == sample.p_above_zero(values)
    np.testing.assert_allclose(twice.p_values(both[:, None]), sample.p_values(values[:, None]))


def test_units_of_one_cluster_have_an_interval_without_width() -> None:
    sample, values = ClusterSample.of(np.zeros(50), SEED), np.random.default_rng(0).normal(size=50)
    for ends in (sample.mean_interval(values), sample.ratio_interval(values, np.ones(50))):
        assert ends == pytest.approx((values.mean(), values.mean()))


@pytest.mark.slow  # by day `test_intervals_are_those_of_clusters_drawn_in_a_plain_loop`
@pytest.mark.parametrize("how", ["mean", "ratio"])
@pytest.mark.parametrize("samples", [40, 80])
def test_intervals_hold_the_true_mean_nearly_always_and_those_of_units_do_not(
    how: str, samples: int
) -> None:
    def holds(sample: ClusterSample, values: Floats) -> bool:
        ones = np.ones(len(values))
        lower, upper = (
            sample.mean_interval(values) if how == "mean" else sample.ratio_interval(values, ones)
        )
        return bool(lower <= 0 <= upper)

    drawn = [clustered(60, seed, size=12) for seed in range(samples)]
    assert 0.88 <= fmean(holds(sample, values) for sample, values in drawn) <= 0.99
    units = [
        (ClusterSample.of(np.arange(len(values)), 0), values) for _, values in drawn[: samples // 2]
    ]
    assert fmean(holds(sample, values) for sample, values in units) < 0.75


def test_columns_are_drawn_alike_so_that_their_differences_can_be_tested() -> None:
    sample, values = clustered(15, seed=4)
    columns = np.stack([values, values + 0.1], 1)
    draws = sample.ratio_draws(columns, np.ones((len(values), 1)))  # [2, draws]
    np.testing.assert_allclose(draws[1] - draws[0], 0.1)
    np.testing.assert_allclose(sample.ratio_draws(values, np.ones(len(values))), draws[0])
    lower, upper = sample.mean_interval(columns)
    np.testing.assert_allclose([lower[1], upper[1]], [lower[0] + 0.1, upper[0] + 0.1])


def test_weights_are_those_of_the_intervals_of_means() -> None:
    sample, values = clustered(15, seed=5)
    sums, counts = sample.sums(values), sample.sums(np.ones(len(values)))
    draws = sample.weights @ sums / (sample.weights @ counts)
    assert (sample.weights.sum(1) == sample.n_clusters).all()
    np.testing.assert_allclose(
        interval_around(sums.sum() / counts.sum(), draws), sample.mean_interval(values)
    )


def test_a_sample_without_a_group_counts_as_its_ratio() -> None:
    sample = ClusterSample.of(np.arange(4), SEED)
    inside, values = np.array([1.0, 0, 0, 0]), np.full(4, 5.0)
    draws = sample.ratio_draws(values * inside, inside)
    assert 0.2 < np.isnan(draws).mean() < 0.45  # (3/4)^4 = 0.32
    assert set(draws[~np.isnan(draws)]) == {5.0}
    lower, upper = sample.ratio_interval(values * inside, inside)
    assert lower == upper == 5.0


def test_an_interval_contains_its_value() -> None:
    draws = np.array([[1.0, 2.0, 3.0], [np.nan, np.nan, np.nan]])
    lower, upper = interval_around(np.array([9.0, 4.0]), draws)
    assert lower.tolist() == pytest.approx([1.05, 4]) and upper.tolist() == [9, 4]
