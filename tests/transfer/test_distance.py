"""How far weights moved: known distances, pooled as one long vector, tied ones once."""

import math

import pytest
import torch
from torch import Tensor, nn

from workbench.core.errors import WorkbenchError
from workbench.transfer.weight_change import weight_changes


def first(name: str) -> str:
    return name.split(".")[0]


def test_known_weights_move_a_known_way() -> None:
    before = {"a.x": torch.tensor([3.0, 4.0]), "a.y": torch.tensor([12.0]), "b": torch.ones(4)}
    after = {"a.x": torch.tensor([3.0, 5.0]), "a.y": torch.tensor([12.0]), "b": -torch.ones(4)}
    changes = weight_changes(before, after, first)
    found = [(c.name, c.group, c.distance, c.norm_before, c.parameters) for c in changes.parameters]
    assert found == [("a.x", "a", 0.2, 5, 2), ("a.y", "a", 0, 12, 1), ("b", "b", 2, 2, 4)]
    pooled = [(c.name, c.group, c.distance, c.norm_before, c.parameters) for c in changes.groups]
    assert pooled == [("a", "a", pytest.approx(1 / 13), 13, 3), ("b", "b", 2, 2, 4)]


def test_a_model_is_no_distance_from_itself_and_doubled_at_one() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    assert {c.distance for c in weight_changes(net, net, first).parameters} == {0.0}
    doubled = {name: 2 * tensor for name, tensor in net.state_dict().items()}
    changes = weight_changes(net, doubled, first)
    assert [c.distance for c in changes.groups] == [pytest.approx(1), pytest.approx(1)]
    assert not changes.only_before and not changes.only_after


class Tied(nn.Module):
    """An embedding that is the output too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 2)
        self.output = nn.Linear(2, 5, bias=False)
        self.output.weight = self.embedding.weight


def test_tied_weights_are_counted_once() -> None:
    before, after = Tied(), Tied()
    for changes in (
        weight_changes(before, after, lambda name: "all"),
        weight_changes(before.state_dict(), after.state_dict(), lambda name: "all"),
    ):
        assert [c.name for c in changes.parameters] == ["embedding.weight"]
        assert changes.groups[0].parameters == 10
        assert not changes.only_before and not changes.only_after


def test_weights_tied_only_before_are_two() -> None:
    before, after = Tied(), Tied()
    after.output.weight = nn.Parameter(after.embedding.weight.detach() + 1)
    found = weight_changes(before, after, first).parameters
    assert [c.name for c in found] == ["embedding.weight", "output.weight"]


def test_parts_of_one_tensor_are_not_tied() -> None:
    whole = torch.arange(1.0, 7.0)
    before = {"a": whole[:3], "b": whole[3:], "c": whole[:2]}
    assert len(weight_changes(before, before, first).parameters) == 3


def test_names_of_one_side_are_told_and_whole_numbers_are_no_weights() -> None:
    one: dict[str, Tensor] = {"both": torch.ones(2), "positions": torch.arange(3)}
    changes = weight_changes(one | {"old": torch.ones(1)}, one | {"new": torch.ones(1)}, first)
    assert [c.name for c in changes.parameters] == ["both"]
    assert changes.only_before == ("old",) and changes.only_after == ("new",)


def test_zeros_that_stay_have_not_moved_and_zeros_that_do_not_have_no_distance() -> None:
    zeros = {"stays": torch.zeros(3), "moves": torch.zeros(3)}
    stays, moves = weight_changes(zeros, zeros | {"moves": torch.ones(3)}, first).parameters
    assert stays.distance == 0 and math.isnan(moves.distance)


def test_halves_are_compared_in_full() -> None:
    """The step is below what a bfloat16 of the weight's size can show."""
    before = {"w": torch.tensor([1.0], dtype=torch.bfloat16)}
    after = {"w": torch.tensor([1.0 + 1e-6])}
    assert weight_changes(before, after, first).parameters[0].distance == pytest.approx(1e-6, 0.1)


def test_other_shapes_are_refused_with_both() -> None:
    with pytest.raises(WorkbenchError, match=r"\(2, 3\) before and \(2, 4\) after"):
        weight_changes({"w": torch.ones(2, 3)}, {"w": torch.ones(2, 4)}, first)
