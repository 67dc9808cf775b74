"""Static vectors: skip-gram with negative samples, as word2vec learns them, in batches of pairs.

Frequent words are thinned out, each word left predicts those in a window of random size around it,
and must tell them from words drawn by unigram^0.75. Costs (1 + negatives) products of one vector's
width a pair, and the optimiser's pass over both tables a step.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.bilm import MARKS, Words
from workbench.models.word_models import Vectors

WINDOW, NEGATIVES = 5, 5
THIN = 1e-3  # a word of this share of the text, and of less, is always kept; one of a mean share is
POWER = 0.75


class SkipGram(nn.Module):
    """Two vectors a word: as the one that predicts, which is what is kept, and as the predicted."""

    def __init__(self, words: Words, width: int, seed: int) -> None:
        super().__init__()
        self.words = words
        generator = torch.Generator().manual_seed(seed)
        start = (torch.rand(len(words.words), width, generator=generator) - 0.5) / width
        self.center = nn.Parameter(start)  # [words, width]
        self.context = nn.Parameter(torch.zeros_like(start))  # [words, width]

    def save(self, folder: Path) -> bool:
        """Write all that `vectors:FOLDER` reads; the marks are no words of the text."""
        first = len(MARKS)
        Vectors(self.words.words[first:], self.center.detach()[first:].cpu()).save(folder)
        return True


class Chances:
    """What is drawn from the words' counts."""

    def __init__(self, words: Words) -> None:
        counts = torch.tensor(words.counts, dtype=torch.float64)
        share = counts / counts.sum()  # [words]
        thin = max(THIN, 1 / max(int((counts > 0).sum()), 1))
        self.kept = (thin / share.clamp(min=1e-12)).sqrt().clamp(max=1)
        self.kept[counts == 0] = 0  # marks
        self._below = (counts**POWER).cumsum(0)  # [words]

    def negatives(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Words drawn by unigram^0.75.  # shape"""
        at = torch.rand(shape, generator=generator, dtype=torch.float64) * self._below[-1]
        return torch.searchsorted(self._below, at, right=True).clamp(max=len(self._below) - 1)


def pairs(
    tokens: Tensor, chances: Chances, window: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Words and those around them, row by row; thinned words are as if they had not been there.

    # [batch, length] -> [pairs], [pairs]
    """
    drawn = torch.rand(tokens.shape, generator=generator)
    stays = drawn < chances.kept[tokens]  # [batch, length]
    row = stays.nonzero()[:, 0]  # [left]
    words = tokens[stays]  # [left]
    reach = torch.randint(1, window + 1, words.shape, generator=generator)
    centers, contexts = [], []
    for distance in range(1, min(window, len(words) - 1) + 1):
        near = row[distance:] == row[:-distance]
        for first, second, far in (
            (words[:-distance], words[distance:], reach[:-distance]),
            (words[distance:], words[:-distance], reach[distance:]),
        ):
            here = near & (far >= distance)
            centers.append(first[here])
            contexts.append(second[here])
    nothing = words[:0]
    return torch.cat([nothing, *centers]), torch.cat([nothing, *contexts])


def skipgram_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """-log of telling the true words from the drawn ones, summed over pairs.  # [1]"""
    assert isinstance(net, SkipGram)
    center = functional.embedding(inputs["centers"], net.center)  # [pairs, width]
    true = functional.embedding(inputs["contexts"], net.context)  # [pairs, width]
    drawn = functional.embedding(inputs["negatives"], net.context)  # [pairs, negatives, width]
    right = (center * true).sum(1)  # [pairs]
    wrong = torch.bmm(drawn, center[:, :, None])[:, :, 0]  # [pairs, negatives]
    nats = functional.softplus(-right).sum() + functional.softplus(wrong).sum()
    return nats[None]
