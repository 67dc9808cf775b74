"""BERT's next-sentence prediction: do these two texts follow each other?

A packed sequence is cut at a sentence's beginning into two; in half of the batch the second is
taken from another sequence. A second that begins with the very sentence that truly follows is never
called another. Costs 1 ms for 32 sequences of 128 on a core, plus what masking costs.
"""

import torch
from torch import Generator, Tensor

from workbench.training.objectives.masked import Unit, masked
from workbench.training.objectives.segments import (
    Pairs,
    Part,
    cuts,
    fitted,
    joined,
    text_begins,
    text_ends,
)
from workbench.training.vocabulary import Vocabulary


def pairs(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
) -> Pairs:
    """Half of the batch with the text that follows (0), half with another's (1)."""
    cut = cuts(special, sentences, generator)  # [batch], where the second text begins
    ends = text_ends(special)
    following = _sentence_numbers(tokens, special, sentences, cut, ends)
    donor = _donors(tokens, following, cut, ends, generator)  # [batch]
    labels = (donor != torch.arange(len(tokens))).long()
    one, two = cut - text_begins(special), (ends - cut)[donor]
    one, two = fitted(one, two, tokens.shape[1], vocabulary)
    first, second = Part(tokens, cut - one, one), Part(tokens[donor], cut[donor], two)
    return joined(first, second, labels, vocabulary)


def bert(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
    unit: Unit = "piece",
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """Masked language model and next sentence together: BERT's own objective."""
    two = pairs(tokens, special, generator, vocabulary, sentences=sentences)
    batch = masked(two.tokens, two.special, generator, vocabulary, unit=unit, rate=rate)
    return {**batch, "token_type_ids": two.segments, "next_sentence_label": two.labels}


def _sentence_numbers(
    tokens: Tensor, special: Tensor, sentences: Tensor, cut: Tensor, ends: Tensor
) -> Tensor:
    """Equal numbers for second texts that begin with the same sentence.  # [batch]"""
    places = torch.arange(tokens.shape[1])
    later = places > cut[:, None]
    stop = later & (sentences | special)
    first_stop = torch.where(stop.any(1), stop.byte().argmax(1), ends)
    source = (cut[:, None] + places).clamp(max=tokens.shape[1] - 1)
    length = (first_stop - cut)[:, None]
    moved = tokens.gather(1, source).masked_fill(places >= length, -1)
    numbers: Tensor = torch.unique(moved, dim=0, return_inverse=True)[1]
    return numbers


def _donors(
    tokens: Tensor, following: Tensor, cut: Tensor, ends: Tensor, generator: Generator
) -> Tensor:
    """Whose second text each takes: half their own, half another that differs.  # [batch]"""
    batch = len(following)
    own = torch.arange(batch)
    there = cut < ends  # it has a second text
    fits = (following[:, None] != following) & there
    lots = torch.rand(batch, batch, generator=generator)
    other = lots.masked_fill(~fits, -1.0).argmax(1)
    while (alike := _go_on_alike(tokens, cut, ends, other) & fits.any(1)).any():
        fits[alike, other[alike]] = False
        other = lots.masked_fill(~fits, -1.0).argmax(1)
    half = batch // 2
    if batch % 2:
        half += int(torch.rand((), generator=generator) < 0.5)
    # Those with no text of their own to follow are others first, those with no other never.
    rank = torch.rand(batch, generator=generator) - 2.0 * ~there + 2.0 * ~fits.any(1)
    negative = torch.zeros(batch, dtype=torch.bool)
    negative[rank.argsort()[:half]] = True
    return torch.where(negative & fits.any(1), other, own)


def _go_on_alike(tokens: Tensor, cut: Tensor, ends: Tensor, other: Tensor) -> Tensor:
    """Whether another's second text goes on as one's own, as far as the shorter goes.  # [batch]"""
    places = torch.arange(tokens.shape[1])
    last = tokens.shape[1] - 1
    own = tokens.gather(1, (cut[:, None] + places).clamp(max=last))
    theirs = tokens[other].gather(1, (cut[other][:, None] + places).clamp(max=last))
    shorter = torch.minimum(ends - cut, (ends - cut)[other])
    return ((own == theirs) | (places >= shorter[:, None])).all(1) & (shorter > 0)
