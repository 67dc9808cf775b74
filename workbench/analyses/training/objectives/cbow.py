"""CBOW: the mean vector of the words in a window predicts the word in its middle, as in word2vec.

Words are subsampled and windows drawn as in skip-gram; a window is predicted once, not word by
word. Costs: a mean of up to ten vectors and (1 + negatives) dot products per word.
"""

from collections.abc import Mapping

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from workbench.analyses.training.objectives.skipgram import (
    NEGATIVES,
    WINDOW,
    SkipGram,
    WordSampler,
)
from workbench.analyses.training.task import WordObjective

NONE = -1  # in a window: no word


def windows(
    tokens: Tensor, sampler: WordSampler, window: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """The words around each word, row by row, after subsampling; and these words.

    Words without others around them are left out. The draws are those of `skipgram.pairs`.
    # [batch, length] -> [targets, 2 x window], [targets]
    """
    row, words, reach = sampler.drawn(tokens, window, generator)
    around = torch.full((len(words), 2 * window), NONE)
    for distance in range(1, min(window, len(words) - 1) + 1):
        near = row[distance:] == row[:-distance]
        after = near & (reach[:-distance] >= distance)
        before = near & (reach[distance:] >= distance)
        around[:-distance, 2 * distance - 2] = words[distance:].where(after, NONE)
        around[distance:, 2 * distance - 1] = words[:-distance].where(before, NONE)
    has_any = (around != NONE).any(1)
    return around[has_any], words[has_any]


def mean_vectors(net: SkipGram, around: Tensor) -> Tensor:
    """The mean vector of each window.  # [targets, n] -> [targets, width]"""
    there = around != NONE
    vectors = functional.embedding(around.clamp(min=0), net.center)  # [targets, n, width]
    total = (vectors * there[..., None]).sum(1)
    return total / there.sum(1, keepdim=True).clamp(min=1)


def _draw(tokens: Tensor, sampler: WordSampler, generator: Generator) -> dict[str, Tensor]:
    around, gold = windows(tokens, sampler, WINDOW, generator)
    return {"around": around, "gold": gold,
            "negatives": sampler.negatives((len(gold), NEGATIVES), generator)}  # fmt: skip


def cbow_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The logistic loss of true against negative words, summed over windows.  # [1]"""
    assert isinstance(net, SkipGram)
    mean = mean_vectors(net, inputs["around"])  # [targets, width]
    true = functional.embedding(inputs["gold"], net.context)
    negatives = functional.embedding(inputs["negatives"], net.context)
    negative_scores = torch.bmm(negatives, mean[:, :, None])[:, :, 0]  # [targets, negatives]
    nats = functional.softplus(-(mean * true).sum(1)).sum()
    return (nats + functional.softplus(negative_scores).sum())[None]


OF_WORDS = {"cbow": WordObjective(_draw, cbow_losses)}
