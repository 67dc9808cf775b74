"""Many probes, each at its own rate, stopped in its own time, and kept as it was at its best."""

import pytest
import torch
from torch import Tensor

from probes.learning import Best, Learning, fitted


def test_steps_are_those_of_adam_at_each_probes_own_rate() -> None:
    torch.manual_seed(0)
    start = torch.randn(3, 4, 5)
    rates = torch.tensor([1e-1, 1e-2, 1e-3])
    now = Learning.of({"own": start}, 0.1)
    now.rate = rates
    plain = [start[place].clone().requires_grad_() for place in range(3)]
    optimisers = [
        torch.optim.Adam([one], float(rate)) for one, rate in zip(plain, rates, strict=True)
    ]
    for _ in range(7):
        slopes = torch.randn(3, 4, 5)
        now.step({"own": slopes})
        for one, slope, optimiser in zip(plain, slopes, optimisers, strict=True):
            one.grad = slope
            optimiser.step()
    for place, one in enumerate(plain):
        assert torch.allclose(now.own["own"][place], one, atol=1e-6)


def test_a_step_can_be_quicker_for_one_parameter() -> None:
    now = Learning.of({"slow": torch.zeros(1, 2), "quick": torch.zeros(1, 2)}, 0.1)
    now.step({name: torch.ones(1, 2) for name in now.own}, {"quick": 10.0})
    assert torch.allclose(now.own["quick"], 10 * now.own["slow"])
    assert (now.own["slow"] < 0).all()


def test_the_best_epoch_is_kept_by_value_and_not_the_last() -> None:
    """Weights that only ever grow; dev is best on the way, at a place of each probe's own."""
    targets = torch.tensor([0.22, 1.0, 10.0])
    ran = []

    def loss(weights: list[Tensor], running: Tensor, batch: str) -> tuple[Tensor, int]:
        if batch == "train":
            ran.append(running.tolist())
            return -weights[0][:, 0], 1
        return (weights[0][:, 0] - targets[running]).abs() + 0.01, 1

    start = torch.zeros(3, 1)
    found = fitted([start], loss, lambda epoch: ["train"], ["dev"], 0.1, epochs=14)
    assert found.weights[0][:, 0].tolist() == pytest.approx([0.2, 1.0, 1.4], abs=0.06)
    assert found.epochs.tolist()[1:] == [10, 14]
    assert ran[-1] != [0, 1, 2] and ran[0] == [0, 1, 2]  # what is done has left
    assert (start == 0).all()


def test_what_is_kept_does_not_change_with_what_is_trained() -> None:
    own = {"own": torch.ones(2, 3)}
    best = Best.of(own)
    best.see(torch.arange(2), own, torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 1.0]), 1)
    own["own"].fill_(7)
    best.see(torch.arange(2), own, torch.tensor([-2.0, -0.5]), torch.tensor([2.0, 0.5]), 2)
    own["own"].fill_(9)
    assert best.own["own"].tolist() == [[1, 1, 1], [7, 7, 7]]
    assert best.epoch.tolist() == [1, 2]


def test_equal_scores_are_told_apart_by_the_loss() -> None:
    own = {"own": torch.tensor([[1.0]])}
    best = Best.of(own)
    for at, (value, loss) in enumerate([(1.0, 0.5), (2.0, 0.4), (3.0, 0.6)]):
        own["own"].fill_(value)
        best.see(torch.arange(1), own, torch.tensor([0.9]), torch.tensor([loss]), at)
    assert best.own["own"].tolist() == [[2.0]] and best.epoch.tolist() == [1]
