"""Static word vectors: skip-gram with negative sampling, as in word2vec, in batches of pairs.

Frequent words are subsampled. Each remaining word predicts the words in a window of random size
around it, against negative samples drawn by unigram^0.75. Costs: (1 + negatives) dot products per
pair, and the optimiser's pass over both tables per step.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.analyses.training.task import WordObjective
from workbench.models.bilm import MARKS, Words
from workbench.models.word_models import Vectors

WINDOW, NEGATIVES = 5, 5
# Words up to this fraction of the text are always kept, and so are words up to the mean fraction.
SUBSAMPLING = 1e-3
POWER = 0.75


class SkipGram(nn.Module):
    """Two vectors per word: one as the centre, which is saved, and one as the context.

    `outputs` is the number of context vectors, if it is not that of the words.
    """

    def __init__(self, words: Words, width: int, seed: int, outputs: int | None = None) -> None:
        super().__init__()
        self.words = words
        generator = torch.Generator().manual_seed(seed)
        start = (torch.rand(len(words.words), width, generator=generator) - 0.5) / width
        self.center = nn.Parameter(start)  # [words, width]
        n_outputs = len(words.words) if outputs is None else outputs
        self.context = nn.Parameter(torch.zeros(n_outputs, width))  # [words, width]

    def save(self, folder: Path) -> bool:
        """Write the files that `vectors:FOLDER` reads, without the marks, which are not words."""
        first = len(MARKS)
        Vectors(self.words.words[first:], self.center.detach()[first:].cpu()).save(folder)
        return True


class WordSampler:
    """Random draws that depend on the words' counts: subsampling and negative samples."""

    def __init__(self, words: Words) -> None:
        counts = torch.tensor(words.counts, dtype=torch.float64)
        frequency = counts / counts.sum()  # [words]
        threshold = max(SUBSAMPLING, 1 / max(int((counts > 0).sum()), 1))
        self.keep = (threshold / frequency.clamp(min=1e-12)).sqrt().clamp(max=1)
        self.keep[counts == 0] = 0  # marks
        self.words = words
        self._cumulative = (counts**POWER).cumsum(0)  # [words]

    def drawn(
        self, tokens: Tensor, window: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The words that subsampling leaves: rows, the words, and how far their windows reach.

        # [batch, length] -> [left], [left], [left]
        """
        kept = torch.rand(tokens.shape, generator=generator) < self.keep[tokens]
        words = tokens[kept]
        reach = torch.randint(1, window + 1, words.shape, generator=generator)
        return kept.nonzero()[:, 0], words, reach

    def negatives(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Words with probability proportional to unigram^0.75.  # shape"""
        draws = torch.rand(shape, generator=generator, dtype=torch.float64) * self._cumulative[-1]
        return torch.searchsorted(self._cumulative, draws, right=True).clamp(
            max=len(self._cumulative) - 1
        )


def pairs(
    tokens: Tensor, sampler: WordSampler, window: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Pairs of a word and a word in its window, row by row, after subsampling frequent words.

    # [batch, length] -> [pairs], [pairs]
    """
    row, words, reach = sampler.drawn(tokens, window, generator)
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
    empty = words[:0]
    return torch.cat([empty, *centers]), torch.cat([empty, *contexts])


def draw(tokens: Tensor, sampler: WordSampler, generator: torch.Generator) -> dict[str, Tensor]:
    """Pairs of words with negative samples."""
    centers, contexts = pairs(tokens, sampler, WINDOW, generator)
    negatives = sampler.negatives((len(centers), NEGATIVES), generator)
    return {"centers": centers, "contexts": contexts, "negatives": negatives}


def skipgram_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The logistic loss of true against negative words, summed over pairs.  # [1]"""
    assert isinstance(net, SkipGram)
    center = functional.embedding(inputs["centers"], net.center)  # [pairs, width]
    true = functional.embedding(inputs["contexts"], net.context)  # [pairs, width]
    negatives = functional.embedding(inputs["negatives"], net.context)  # [pairs, negatives, width]
    true_scores = (center * true).sum(1)  # [pairs]
    negative_scores = torch.bmm(negatives, center[:, :, None])[:, :, 0]  # [pairs, negatives]
    nats = functional.softplus(-true_scores).sum() + functional.softplus(negative_scores).sum()
    return nats[None]


OF_WORDS = {"skip-gram": WordObjective(draw, skipgram_losses)}
