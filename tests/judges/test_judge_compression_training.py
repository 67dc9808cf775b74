"""A judge of grids, packing, ranks and scores of movement, by plain loops on odd shapes."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from tests.judges.odd import odd_corpus, odd_model
from workbench.corpora.encode import encode
from workbench.models.compression.in_training import _Masked
from workbench.models.compression.rounding import MOMENTUM, round_weights, watched
from workbench.models.compression.weights import kept
from workbench.models.formats.packed_checkpoint import (
    RANGE,
    Grid,
    factors,
    on_grid,
    packed,
    unpacked,
)

SHAPES = [(7, 5), (3, 11)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_rounding_and_packing(shape: tuple[int, int], bits: int, axis: int | None) -> None:
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
    grid, highest = Grid(bits, axis), 2 ** (bits - 1) - 1
    values = weights.tolist()
    rows, columns = shape
    expected = [[0.0] * columns for _ in range(rows)]
    for i in range(rows):
        for j in range(columns):
            alike = [
                values[a][b]
                for a in range(rows)
                for b in range(columns)
                if axis is None or (axis == 0 and a == i) or (axis == 1 and b == j)
            ]
            scale = max(map(abs, alike)) / highest
            expected[i][j] = round(values[i][j] / scale) * scale
    rounded = on_grid(weights, grid)
    assert torch.allclose(rounded, torch.tensor(expected), atol=1e-5)
    (gradient,) = torch.autograd.grad((rounded * torch.arange(columns)).sum(), weights)
    assert torch.equal(gradient, torch.arange(columns).float().expand(shape))  # straight through
    parts = packed(rounded, grid)
    assert parts["numbers"].nbytes == math.ceil(rows * columns * bits / 8)
    assert torch.allclose(unpacked(parts, grid, rounded.shape), rounded, atol=1e-5)
    assert torch.allclose(on_grid(rounded, grid), rounded, atol=1e-6)


@pytest.mark.parametrize("shape", [(23, 6), (17, 9)])
def test_ranks_are_those_of_the_singular_value_decomposition(shape: tuple[int, int]) -> None:
    table = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, s, v = np.linalg.svd(table.double().numpy(), full_matrices=False)
    for rank in (1, 4, shape[1]):
        left, right = factors(table, rank)
        assert left.shape == (shape[0], rank) and right.shape == (rank, shape[1])
        best = (u[:, :rank] * s[:rank]) @ v[:rank]
        assert np.allclose((left @ right).numpy(), best, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_of_movement(shape: tuple[int, int]) -> None:
    """S -= dL/dW' W, and W -= rate dL/dW' M, for the loss sum (x W'^T - t)^2."""
    generator = torch.Generator().manual_seed(0)
    outputs, inputs = shape
    x = torch.randn(4, inputs, generator=generator)
    t = torch.randn(4, outputs, generator=generator)
    module, rate, amount = nn.Linear(inputs, outputs, bias=False), 0.01, 0.4
    weights = module.weight.tolist()
    mask = _Masked(module.weight, True)
    parametrize.register_parametrization(module, "weight", mask)
    optimiser = torch.optim.SGD(module.parameters(), lr=rate)
    scores = [[0.0] * inputs for _ in range(outputs)]
    open_ = [[1.0] * inputs for _ in range(outputs)]
    for _ in range(3):
        optimiser.zero_grad()
        ((module(x) - t) ** 2).sum().backward()
        optimiser.step()
        gradient = [[0.0] * inputs for _ in range(outputs)]
        for n in range(4):
            for i in range(outputs):
                y = sum(float(x[n, j]) * weights[i][j] * open_[i][j] for j in range(inputs))
                for j in range(inputs):
                    gradient[i][j] += 2 * (y - float(t[n, i])) * float(x[n, j])
        for i in range(outputs):
            for j in range(inputs):
                scores[i][j] -= gradient[i][j] * weights[i][j]
                weights[i][j] -= rate * gradient[i][j] * open_[i][j]
        ranked = sorted((scores[i][j], i, j) for i in range(outputs) for j in range(inputs))
        gone = {(i, j) for _, i, j in ranked[: round(amount * len(ranked))]}
        open_ = [[float((i, j) not in gone) for j in range(inputs)] for i in range(outputs)]
        assert mask.scores is not None
        assert torch.allclose(mask.scores, torch.tensor(scores), atol=1e-5)
        (own,) = kept([mask.scores], amount)
        assert torch.equal(own.float(), torch.tensor(open_))
        mask.mask.copy_(own)
    masked = torch.tensor(weights) * torch.tensor(open_)
    assert torch.allclose(module.weight, masked, atol=1e-5)


def test_ranges_are_moving_averages_of_maxima() -> None:
    model = odd_model(odd_corpus({"test": 6}, longest=12), outlier=3.0, offset=0.5)
    docs = list(odd_corpus({"test": 6}, longest=12).docs("test"))
    twin = model.copy()
    modules = dict(watched(twin, rounded=False))
    seen: dict[nn.Module, list[float]] = {module: [] for module in modules}
    for module in modules:
        module.register_forward_pre_hook(
            lambda own, args: seen[own].append(max(abs(v) for v in args[0].flatten().tolist()))
        )
    with torch.no_grad():
        for doc in docs:
            twin.forward(twin.encode(encode([doc])), hidden=False, logits=True)
    assert all(len(each) == len(docs) for each in seen.values())
    for module, maxima in seen.items():
        average = maxima[0]
        for largest in maxima[1:]:
            average = MOMENTUM * average + (1 - MOMENTUM) * largest
        assert float(getattr(module, RANGE)) == pytest.approx(average, rel=1e-5)
    # and what is rounded with them is x -> round(x / s) s, clipped, s = range / 127
    rounded = round_weights(model, 8, activations=True, texts=encode(docs))
    linear = next(m for m in rounded.net.modules() if isinstance(m, nn.Linear))
    x = torch.randn(3, linear.in_features, generator=torch.Generator().manual_seed(0)) * 2
    scale = float(getattr(linear, RANGE)) / 127
    by_hand = torch.tensor([
        [max(-127, min(127, round(value / scale))) * scale for value in row] for row in x.tolist()
    ])  # fmt: skip
    with torch.no_grad():
        expected = nn.functional.linear(by_hand, linear.weight, linear.bias)
        assert torch.allclose(linear(x), expected, atol=1e-4)
