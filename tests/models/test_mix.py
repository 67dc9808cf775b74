"""The mix is γ times the softmax-weighted sum of the layers it is of."""

import math

import pytest
import torch

from workbench import WorkbenchError
from workbench.models.output_heads.scalar_mix import ScalarMix

HIDDEN = list(torch.tensor([1.0, 10.0, 100.0]).view(3, 1, 1, 1).expand(3, 2, 4, 5))


def test_it_starts_as_the_plain_mean() -> None:
    assert torch.allclose(ScalarMix(3)(HIDDEN), torch.full((2, 4, 5), 37.0))


def test_scores_count_by_their_softmax_and_the_scale_multiplies_all() -> None:
    mix = ScalarMix(3)
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.0, math.log(2), math.log(5)]))
        mix.scale.fill_(-2)
    assert torch.allclose(mix.weights(), torch.tensor([1, 2, 5]) / 8)
    assert torch.allclose(mix(HIDDEN), torch.full((2, 4, 5), -2 * (1 + 20 + 500) / 8))


def test_a_subset_mixes_only_its_layers() -> None:
    mix = ScalarMix(3, only=[2, 0])
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([math.log(3), 0.0]))
    assert torch.allclose(mix(HIDDEN), torch.full((2, 4, 5), (3 * 100 + 1) / 4))
    assert torch.allclose(ScalarMix(3, only=[1])(HIDDEN), HIDDEN[1])


def test_one_tensor_of_layers_is_as_good_as_a_list() -> None:
    assert torch.equal(ScalarMix(3)(torch.stack(HIDDEN)), ScalarMix(3)(HIDDEN))


def test_the_mix_and_the_layers_can_be_learned() -> None:
    mix = ScalarMix(3, only=[0, 2])
    hidden = torch.rand(3, 2, 4, 5, requires_grad=True)
    mix(hidden).square().sum().backward()
    assert mix.scores.grad is not None and mix.scores.grad.all()
    assert mix.scale.grad is not None and mix.scale.grad != 0
    assert hidden.grad is not None
    assert hidden.grad[0].all() and hidden.grad[2].all() and not hidden.grad[1].any()


@pytest.mark.parametrize("only", [[], [3], [-1], [0, 0]])
def test_layers_that_cannot_be_mixed_are_refused(only: list[int]) -> None:
    with pytest.raises(WorkbenchError, match="mix") as caught:
        ScalarMix(3, only=only)
    assert "0 to 2" in caught.value.remedy


def test_a_wrong_number_of_layers_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 layers, but got 2"):
        ScalarMix(3)(HIDDEN[:2])
