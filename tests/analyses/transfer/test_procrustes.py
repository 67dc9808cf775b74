"""The Procrustes distance is what the best rotation leaves, and 0 for the same shape."""

import math

import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from torch import Tensor

from workbench.analyses.transfer.similarity import Moments, procrustes_distance


def gaussian(seed: int, *shape: int) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=made, dtype=torch.float64)


def distance(x: Tensor, y: Tensor, batch: int = 7) -> float:
    moments = Moments()
    for some_x, some_y in zip(x.split(batch), y.split(batch), strict=True):
        moments.add([some_x], [some_y])
    return float(procrustes_distance(moments))


def unit(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x - x.mean(0)).norm()


@pytest.mark.parametrize("mean", [0, 100])
def test_the_same_turned_mirrored_and_scaled_is_no_distance_away(mean: float) -> None:
    x = gaussian(0, 50, 6) + mean
    turn = torch.linalg.qr(gaussian(1, 6, 6)).Q
    mirror = torch.ones(6, dtype=torch.float64).index_fill(0, torch.tensor(0), -1)
    for other in (x, x @ turn, x * mirror, 0.2 * x @ turn + 5):
        assert distance(x, other) == pytest.approx(0, abs=1e-9)


def test_independent_layers_of_many_rows_are_far_apart_and_of_few_less_so() -> None:
    assert distance(gaussian(0, 3000, 4), gaussian(1, 3000, 4), 1000) > 0.9
    assert distance(gaussian(0, 30, 30), gaussian(1, 30, 30)) < 0.5


@pytest.mark.parametrize("mean", [0, 100])
def test_it_is_what_the_best_rotation_leaves(mean: float) -> None:
    """Found by scipy, then applied and measured."""
    x = gaussian(0, 40, 5)
    y = x.square() + gaussian(1, 40, 5)
    turn = torch.from_numpy(orthogonal_procrustes(unit(x).numpy(), unit(y).numpy())[0])
    left = (unit(x) @ turn - unit(y)).square().sum() / 2
    assert distance(x + mean, y - mean) == pytest.approx(float(left), abs=1e-9)
    assert distance(y, x) == pytest.approx(float(left), abs=1e-9)


def test_a_layer_that_lost_half_of_its_spread_is_as_far_as_computed_by_hand() -> None:
    """Two directions of equal size against one of them: the fit is 1 / √2."""
    square = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    assert distance(square, square[:, :1]) == pytest.approx(1 - 1 / math.sqrt(2), abs=1e-12)


def test_what_has_no_direction_in_common_is_at_one() -> None:
    square = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.float64)
    assert distance(square[:, :1], square[:, 1:]) == pytest.approx(1, abs=1e-12)


def test_the_size_of_batches_does_not_matter() -> None:
    x, y = gaussian(0, 40, 5) + 100, gaussian(1, 40, 4) - 100
    assert distance(x, y, 1) == pytest.approx(distance(x, y, 40), abs=1e-12)


def test_many_layers_at_once_are_each_pair_alone() -> None:
    a, b = [gaussian(n, 20, 4) for n in range(3)], [gaussian(n, 20, 3) for n in (7, 8)]
    moments = Moments()
    moments.add(a, b)
    alone = torch.tensor([[distance(x, y) for y in b] for x in a], dtype=torch.float64)
    torch.testing.assert_close(procrustes_distance(moments), alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 20])
def test_a_constant_layer_has_no_distance(n: int) -> None:
    x = torch.full((n, 3), 0.1)
    assert math.isnan(distance(x, gaussian(0, n, 3))) and math.isnan(distance(x, x))


def test_a_layer_with_a_nan_has_no_distance_and_harms_no_other() -> None:
    x = gaussian(0, 20, 3)
    broken = x.clone()
    broken[3, 1] = torch.nan
    moments = Moments()
    moments.add([x, broken], [x])
    found = procrustes_distance(moments)[:, 0]
    assert found[0] == pytest.approx(0, abs=1e-9) and found[1].isnan()
