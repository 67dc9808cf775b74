"""Tasks of the models that read whole words: ELMo over sentences, vectors over windows of text.

Both take as many words a step as other families take tokens. Costs some milliseconds of CPU a
micro-batch: distinct words are spelt once, pairs are made in a few passes over the batch.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from workbench.models.bilm import BiLM
from workbench.models.vocabulary_files import Words
from workbench.training.elmo import SAMPLED, bilm_losses, sample
from workbench.training.feed import seed_of
from workbench.training.packing import Packing, Sequences
from workbench.training.sentences import Sentences
from workbench.training.skipgram import NEGATIVES, WINDOW, Chances, pairs, skipgram_losses
from workbench.training.task import Micro, Plan, Task
from workbench.training.words import spell


def elmo_task(
    net: BiLM, sentences: Sentences, held: NDArray[np.int64], plan: Plan, world: int
) -> Task:
    """Both directions of sentences, as many of them as make up the words of a batch."""
    spelt = spell(net.words, net.elmo.options.max_characters)  # [words + 1, characters]
    mean = max(1.0, len(sentences.store) / sentences.store.manifest.sentences)
    of_micro = plan.batch // plan.micros(world)
    size = max(1, round(of_micro * sentences.length / mean))  # sentences a micro-batch
    a_step = size * plan.micros(world)
    few = len(net.bias) <= 2 * SAMPLED

    def read(found: Sequences, generator: Generator) -> Micro:
        inputs = _bilm_inputs(found.tokens, spelt, net, sentences)
        if not few:
            inputs["sampled"] = sample(len(net.bias), SAMPLED, generator)
        lengths = inputs["lengths"]
        targets = 2 * int((lengths - 1).sum())
        return Micro(inputs, torch.tensor([targets]), int(lengths.sum()))

    def draw(step: int, number: int) -> Micro:
        generator = Generator().manual_seed(seed_of(plan.seed, step, number))
        return read(sentences.batch(step * a_step + number * size, size), generator)

    @lru_cache(maxsize=1)
    def held_out() -> Sequence[Micro]:
        parts = [held[first : first + size] for first in range(0, len(held), size)]
        return [read(sentences.sequences(part), Generator().manual_seed(0)) for part in parts]

    return Task(draw, bilm_losses, held_out=held_out if len(held) else None)


def _bilm_inputs(
    tokens: Tensor, spelt: Tensor, net: BiLM, sentences: Sentences
) -> dict[str, Tensor]:
    """Distinct words spelt, where they stand, and what is to be predicted.

    Columns of characters that are padding in all words, and so wide that no filter sees a word
    beside them, change nothing and are left out.
    """
    lengths = sentences.vocabulary.attention_mask(tokens).sum(1)  # [batch]
    distinct, places = torch.unique(tokens, return_inverse=True)
    characters = spelt[distinct]  # [distinct, characters]
    longest = int((characters != spelt[-1, -1]).sum(1).max())
    widest = max(seen for seen, _ in net.elmo.options.filters)
    unknown = net.words.unknown
    return {
        "characters": characters[:, : longest + widest].long(),
        "places": places,
        "lengths": lengths,
        "gold": tokens.masked_fill(tokens >= len(net.bias), unknown),
    }


def vectors_task(words: Words, packing: Packing, plan: Plan, world: int) -> Task:
    """Pairs of words near one another in windows of text."""
    chances = Chances(words)
    size = plan.batch // plan.micros(world)

    def draw(step: int, number: int) -> Micro:
        generator = Generator().manual_seed(seed_of(plan.seed, step, number))
        tokens = packing.batch(step * plan.batch + number * size, size).tokens
        centers, contexts = pairs(tokens, chances, WINDOW, generator)
        negatives = chances.negatives((len(centers), NEGATIVES), generator)
        inputs = {"centers": centers, "contexts": contexts, "negatives": negatives}
        return Micro(inputs, torch.tensor([len(centers)]), tokens.numel())

    return Task(draw, skipgram_losses)
