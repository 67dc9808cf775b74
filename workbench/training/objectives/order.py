"""ALBERT's sentence-order prediction: do these two texts stand in the order they were written in?

A packed sequence is cut at a sentence's beginning into two texts that follow each other, and half
of the batch has them swapped. What a sequence begins and ends with is a sentence cut in two, which
would tell the order without reading: where there are enough sentences, those are left out. Costs
1 ms for 32 sequences of 128 on a core, plus what masking costs.
"""

import torch
from torch import Generator, Tensor

from workbench.training.objectives.masked import Unit, masked
from workbench.training.objectives.segments import (
    Pairs,
    Part,
    cuts,
    fitted,
    inside,
    joined,
    text_begins,
    text_ends,
)
from workbench.training.vocabulary import Vocabulary


def ordered(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
) -> Pairs:
    """Half of the batch as it was written (0), half with its two texts swapped (1)."""
    begins, cut, ends = _two_texts(special, sentences, generator)
    one, two = fitted(cut - begins, ends - cut, tokens.shape[1], vocabulary)
    labels = _swapped((one > 0) & (two > 0), generator).long()
    swap = labels == 1
    earlier, later = (cut - one, one), (cut, two)  # begin and size of each
    first, second = (
        Part(tokens, torch.where(swap, b[0], a[0]), torch.where(swap, b[1], a[1]))
        for a, b in ((earlier, later), (later, earlier))
    )
    return joined(first, second, labels, vocabulary)


def albert(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
    unit: Unit = "piece",
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """Masked language model and sentence order together: ALBERT's own objective."""
    two = ordered(tokens, special, generator, vocabulary, sentences=sentences)
    batch = masked(two.tokens, two.special, generator, vocabulary, unit=unit, rate=rate)
    return {**batch, "token_type_ids": two.segments, "sentence_order_label": two.labels}


def _two_texts(
    special: Tensor, sentences: Tensor, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Where the first text begins, where the second does, and where that ends.  # [batch] each

    Both of whole sentences where three or more begin in the sequence; else as whole as can be.
    """
    length = special.shape[1]
    places = torch.arange(length)
    starts = sentences & ~special
    begins, ends = text_begins(special), text_ends(special)
    # A sentence is whole before the next one's beginning, and before what ends a document.
    over = starts | special
    over[:, 1:] &= ~special[:, :-1]
    over &= places < ends[:, None]
    first = torch.where(starts.any(1), starts.byte().argmax(1), begins)
    last = torch.where(over.any(1), (over * places).amax(1), ends)
    between = starts & (places > first[:, None]) & (places < last[:, None]) & inside(special)
    some = torch.where(between.any(1, keepdim=True), between, starts)
    cut = cuts(special, some, generator)
    return torch.where(first < cut, first, begins), cut, torch.where(last > cut, last, ends)


def _swapped(able: Tensor, generator: Generator) -> Tensor:
    """Half of the rows, of those first that have two texts.  # [batch] bool"""
    half = len(able) // 2
    if len(able) % 2:
        half += int(torch.rand((), generator=generator) < 0.5)
    rank = torch.rand(len(able), generator=generator) + 2.0 * ~able
    swapped = torch.zeros_like(able)
    swapped[rank.argsort()[:half]] = True
    return swapped & able
