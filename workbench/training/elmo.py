"""ELMo's training: the loss of both directions, over all words or over a sample of them.

The model, its softmax and its folder are `workbench.models.bilm`. Costs, a word, a pass forward and
back, and two products with the softmax's matrix; over a large vocabulary with a sample of it.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.bilm import BiLM, wanted
from workbench.training.heads import linear_nats

SAMPLED = 8_192  # words of the softmax in training, where there are more than twice as many


def bilm_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The sum over both directions, in nats.  # [1]"""
    assert isinstance(net, BiLM)
    lengths, gold = inputs["lengths"], inputs["gold"]
    states = net(inputs["characters"], inputs["places"], lengths)
    total = net.bias.new_zeros(())
    for states_of, (rows, targets, _) in zip(states, wanted(gold, lengths), strict=True):
        total = total + _softmax_nats(net, states_of[rows], targets, inputs.get("sampled"))
    return total[None]


def _softmax_nats(net: BiLM, states: Tensor, targets: Tensor, sampled: Tensor | None) -> Tensor:
    """-log p of the targets among all words, or among themselves and a sample.

    A sample is drawn by log-uniform chances. Logits less the log of how often a word is expected in
    it add up to an estimate of what all words but the target would.
    """
    if sampled is None or not net.training:
        return linear_nats(states, net.weight, net.bias, targets)
    size, many = len(net.bias), len(sampled)
    own = (states * net.weight[targets]).sum(1) + net.bias[targets]  # [rows]
    others = functional.linear(states, net.weight[sampled], net.bias[sampled])  # [rows, sampled]
    own = own.float()
    others = others.float() - expected(sampled, size, many).log()
    others = others.masked_fill(sampled == targets[:, None], float("-inf"))
    both = torch.cat([own[:, None], others], dim=1)
    return (both.logsumexp(1) - own).sum()


def expected(numbers: Tensor, size: int, many: int) -> Tensor:
    """How often words, numbered by falling count, are expected in a sample of `many`."""
    chance = torch.log1p(1 / (numbers.float() + 1)) / torch.log(torch.tensor(size + 1.0))
    return chance * many


def sample(size: int, many: int, generator: torch.Generator) -> Tensor:
    """Numbers of words by log-uniform chances, with repeats.  # [many]"""
    uniform = torch.rand(many, generator=generator, dtype=torch.float64)
    drawn = ((size + 1.0) ** uniform).long() - 1
    return drawn.clamp(max=size - 1)
