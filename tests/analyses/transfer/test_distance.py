"""How far weights moved: known distances, pooled as one long vector, tied ones once."""

import math

import pytest
import torch
from torch import nn

from workbench.analyses.transfer.weight_change import weight_changes


def first(name: str) -> str:
    return name.split(".")[0]


def alone(name: str) -> str:
    return name


def test_known_weights_move_a_known_way() -> None:
    before = {"a.x": torch.tensor([3.0, 4.0]), "a.y": torch.tensor([12.0]), "b": torch.ones(4)}
    after = {"a.x": torch.tensor([3.0, 5.0]), "a.y": torch.tensor([12.0]), "b": -torch.ones(4)}
    found = weight_changes(before, after, alone)
    assert found == {"a.x": (0.2, 5, 2), "a.y": (0, 12, 1), "b": (2, 2, 4)}
    pooled = weight_changes(before, after, first)
    assert pooled == {"a": (pytest.approx(1 / 13), 13, 3), "b": (2, 2, 4)}


def test_weights_are_no_distance_from_themselves_and_doubled_at_one() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)).state_dict()
    assert {change.distance for change in weight_changes(net, net, alone).values()} == {0.0}
    doubled = {name: 2 * tensor for name, tensor in net.items()}
    distances = [change.distance for change in weight_changes(net, doubled, first).values()]
    assert distances == [pytest.approx(1), pytest.approx(1)]


class Tied(nn.Module):
    """An embedding that is the output too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 2)
        self.output = nn.Linear(2, 5, bias=False)
        self.output.weight = self.embedding.weight


def test_tied_weights_are_counted_once() -> None:
    before, after = Tied().state_dict(), Tied().state_dict()
    assert list(weight_changes(before, after, alone)) == ["embedding.weight"]
    assert weight_changes(before, after, lambda name: "all")["all"].parameters == 10


def test_weights_tied_only_before_are_two() -> None:
    before, after = Tied(), Tied()
    after.output.weight = nn.Parameter(after.embedding.weight.detach() + 1)
    found = weight_changes(before.state_dict(), after.state_dict(), alone)
    assert list(found) == ["embedding.weight", "output.weight"]


def test_parts_of_one_tensor_are_not_tied() -> None:
    whole = torch.arange(1.0, 7.0)
    before = {"a": whole[:3], "b": whole[3:], "c": whole[:2]}
    assert len(weight_changes(before, before, alone)) == 3


def test_zeros_that_stay_have_not_moved_and_zeros_that_do_not_have_no_distance() -> None:
    zeros = {"stays": torch.zeros(3), "moves": torch.zeros(3)}
    found = weight_changes(zeros, zeros | {"moves": torch.ones(3)}, alone)
    assert found["stays"].distance == 0 and math.isnan(found["moves"].distance)


def test_halves_are_compared_in_full() -> None:
    """The step is below what a bfloat16 of the weight's size can show."""
    before = {"w": torch.tensor([1.0], dtype=torch.bfloat16)}
    after = {"w": torch.tensor([1.0 + 1e-6])}
    assert weight_changes(before, after, alone)["w"].distance == pytest.approx(1e-6, 0.1)
