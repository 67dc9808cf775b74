"""Debiased CKA is what the full maps of rows by rows give, and knows neither turn, scale nor shift.

The reference is written plainly from Song et al. (2012), with maps whose diagonal is 0.
"""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from workbench import WorkbenchError
from workbench.analyses.transfer.similarity import Moments, debiased_cka


def gaussian(seed: int, *shape: int) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=made, dtype=torch.float64)


def related(seed: int, n: int, width: int = 6) -> tuple[Tensor, Tensor]:
    """Two layers with something in common, the second a little narrower."""
    x = gaussian(seed, n, width)
    return x, (x @ gaussian(seed + 1, width, width - 1)).tanh() + gaussian(seed + 2, n, width - 1)


def rotation(seed: int, width: int) -> Tensor:
    return torch.linalg.qr(gaussian(seed, width, width)).Q


def cka(x: Tensor, y: Tensor, batch: int = 10_000) -> float:
    moments = Moments()
    for some_x, some_y in zip(x.split(batch), y.split(batch), strict=True):
        moments.add([some_x], [some_y])
    return float(debiased_cka(moments))


def plain_hsic(x: Tensor, y: Tensor) -> Tensor:
    n, one = len(x), torch.ones(len(x), dtype=torch.float64)
    k, m = x @ x.T, y @ y.T  # [n, n] each
    k, m = k - k.diag().diag(), m - m.diag().diag()
    trace, sums = (k * m).sum(), (one @ k @ one) * (one @ m @ one)
    found = trace + sums / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ k @ m @ one)
    return found / (n * (n - 3))


def plain_cka(x: Tensor, y: Tensor) -> float:
    x, y = x.double(), y.double()
    return float(plain_hsic(x, y) / (plain_hsic(x, x) * plain_hsic(y, y)).sqrt())


def biased_cka(x: Tensor, y: Tensor) -> float:
    x, y = x - x.mean(0), y - y.mean(0)
    return float((x.T @ y).square().sum() / ((x.T @ x).norm() * (y.T @ y).norm()))


def test_a_layer_is_like_itself() -> None:
    x = gaussian(0, 50, 8)
    assert cka(x, x) == pytest.approx(1, abs=1e-12)


def test_turned_scaled_and_shifted_it_is_the_same() -> None:
    x = gaussian(0, 50, 8)
    assert cka(x, 3.7 * x @ rotation(1, 8) + gaussian(2, 8)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_independent_layers_share_nothing_where_the_biased_form_finds_half(seed: int) -> None:
    x, y = gaussian(2 * seed, 300, 300), gaussian(2 * seed + 1, 300, 300)
    assert abs(cka(x, y)) < 0.02
    assert biased_cka(x, y) > 0.45


@pytest.mark.parametrize("n", [4, 5, 30, 200])
@pytest.mark.parametrize("mean", [0, 100])
def test_it_is_the_estimator_of_the_full_maps(n: int, mean: float) -> None:
    """Which loses digits itself where rows share a large mean: it gets them without."""
    x, y = related(n, n)
    assert cka(x + mean, y - mean, batch=7) == pytest.approx(plain_cka(x, y), abs=1e-9)


def test_the_plain_estimator_does_not_know_the_mean_either() -> None:
    x, y = related(0, 40)
    assert plain_cka(x + 10, y - 10) == pytest.approx(plain_cka(x, y), abs=1e-9)


@pytest.mark.parametrize("mean", [0, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_small_floats_are_summed_as_large_ones(dtype: torch.dtype, mean: float) -> None:
    x, y = ((layer + mean).to(dtype) for layer in related(3, 60))
    expected = plain_cka(x.double() - mean, y.double() - mean)
    assert cka(x, y, batch=7) == pytest.approx(expected, abs=1e-9)


def test_a_first_row_far_from_all_others_costs_no_digits() -> None:
    """As the states of a first piece often are; rows are counted from it."""
    x, y = related(0, 100)
    x[0] += 100
    y[0] -= 100
    assert cka(x, y, batch=1) == pytest.approx(plain_cka(x - x.mean(0), y - y.mean(0)), abs=1e-9)


@pytest.mark.parametrize("mean", [0, 1e4])
def test_the_size_of_batches_does_not_matter(mean: float) -> None:
    x, y = related(1, 60)
    whole = cka(x + mean, y + mean)
    for batch in (1, 7):
        assert cka(x + mean, y + mean, batch) == pytest.approx(whole, abs=1e-12)


def test_the_order_of_rows_does_not_matter() -> None:
    x, y = related(1, 60)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    assert cka(x[order], y[order], batch=7) == pytest.approx(cka(x, y, batch=7), abs=1e-12)
    assert abs(cka(x[order], y) - cka(x, y)) > 0.1


def test_many_layers_at_once_are_each_pair_alone() -> None:
    x, y = related(0, 40)
    a, b = [x, x @ rotation(1, 6), x.tanh()], [y, y.square()]
    moments = Moments()
    for start in range(0, 40, 9):
        moments.add([v[start : start + 9] for v in a], [v[start : start + 9] for v in b])
    found = debiased_cka(moments)  # [3, 2]
    alone = torch.tensor([[cka(one, other) for other in b] for one in a], dtype=torch.float64)
    torch.testing.assert_close(found, alone, rtol=0, atol=1e-12)


def test_pairs_asked_for_come_in_their_order() -> None:
    a, b = [gaussian(n, 30, 4) for n in range(3)], [gaussian(n, 30, 4) + 1 for n in range(3)]
    every, some = Moments(), Moments(pairs=[(2, 2), (0, 1)])
    every.add(a, b)
    some.add(a, b)
    whole = debiased_cka(every)
    torch.testing.assert_close(debiased_cka(some), torch.stack([whole[2, 2], whole[0, 1]]))
    assert whole.diagonal().tolist() == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_fewer_than_four_rows_say_nothing(n: int) -> None:
    assert math.isnan(cka(gaussian(0, n, 5), gaussian(1, n, 5)))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e8])
def test_a_constant_layer_is_like_none_and_harms_no_other(value: float) -> None:
    x = gaussian(0, 30, 5)
    moments = Moments()
    moments.add([x, torch.full((30, 5), value)], [x])
    found = debiased_cka(moments)[:, 0]
    assert found[0] == pytest.approx(1) and found[1].isnan()


def test_rows_without_a_shape_are_like_none() -> None:
    """All equally far apart, or all the same but one: the estimate of their size is 0."""
    x, odd = gaussian(0, 30, 5), torch.full((30, 5), 0.3)
    odd[17] = 7.7
    assert math.isnan(cka(0.1 + 0.7 * torch.eye(30), x))
    assert math.isnan(cka(odd, x))


@given(
    n=st.integers(5, 12),
    width=st.integers(2, 5),
    seed=st.integers(0, 1000),
    batch=st.integers(1, 12),
    mean=st.floats(-100, 100),
)
def test_whatever_the_rows_it_is_the_plain_one_and_at_most_one(
    n: int, width: int, seed: int, batch: int, mean: float
) -> None:
    x, y = related(seed, n, width)
    found = cka(x + mean, y - mean, batch)
    assert found == pytest.approx(plain_cka(x, y), abs=1e-9)
    assert abs(found) <= 1 + 1e-9


def test_layers_of_other_rows_or_widths_are_refused_with_both_shapes() -> None:
    x = gaussian(0, 10, 4)
    with pytest.raises(WorkbenchError, match=r"\(10, 4\), \(9, 4\)"):
        Moments().add([x], [x[1:]])
    with pytest.raises(WorkbenchError, match=r"no pair of layers \(0, 1\)"):
        Moments(pairs=[(0, 1)]).add([x], [x])
    moments = Moments()
    moments.add([x], [x])
    with pytest.raises(WorkbenchError, match=r"\[4, 4\] to \[4, 3\]"):
        moments.add([x], [x[:, :3]])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_states_on_a_gpu_are_summed_there() -> None:
    x, y = related(0, 50)
    moments = Moments()
    moments.add([x.cuda()], [y.cuda()])
    found = debiased_cka(moments)
    assert found.is_cuda and found.item() == pytest.approx(cka(x, y), abs=1e-12)
