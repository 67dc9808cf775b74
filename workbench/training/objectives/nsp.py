"""BERT's next-sentence prediction: do these two texts follow each other?

A packed sequence is cut at a sentence's beginning into two; in half of the batch the second is
taken from another sequence. A second that begins with the very sentence that truly follows is never
called another. Whatever is too long is cut at the far ends, so that what meets is kept. Costs 1 ms
for 32 sequences of 128 on a core, plus what masking costs.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from workbench.training.objectives.masked import Unit, masked
from workbench.training.vocabulary import Vocabulary, need


class Pairs(NamedTuple):
    """Two texts in a sequence."""

    tokens: Tensor  # [batch, length]
    special: Tensor  # [batch, length] bool
    segments: Tensor  # [batch, length], 1 in the second text
    labels: Tensor  # [batch], 0 where it follows, 1 where it is another


def pairs(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
) -> Pairs:
    """Half of the batch with the text that follows, half with another's."""
    cut = _cuts(special, sentences, generator)  # [batch], where the second text begins
    ends = _text_ends(special)
    begins = (~special).byte().argmax(1)
    following = _sentence_numbers(tokens, special, sentences, cut, ends)
    donor = _donors(tokens, following, cut, ends, generator)  # [batch]
    labels = (donor != torch.arange(len(tokens))).long()
    room = tokens.shape[1] - len(vocabulary.before) - len(vocabulary.after) - 1
    one, two = cut - begins, (ends - cut)[donor]
    first = torch.minimum(one, torch.maximum(room - two, torch.tensor(room // 2)))
    second = torch.minimum(two, room - first)
    return _joined(tokens, cut, donor, first, second, labels, vocabulary)


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


def _text_ends(special: Tensor) -> Tensor:
    """The place after the last token of the text; 0 where there is none.  # [batch]"""
    places = torch.arange(1, special.shape[1] + 1)
    return (places * ~special).amax(1)


def _cuts(special: Tensor, sentences: Tensor, generator: Generator) -> Tensor:
    """Where a sentence begins inside a document, at random; else near the middle.  # [batch]"""
    inner = ~special
    inner[:, 1:] &= ~special[:, :-1]
    inner[:, 0] = False
    lots = torch.rand(special.shape, generator=generator)
    lots = lots + (inner & sentences) * 4.0 + inner * 2.0
    middle = special.shape[1] / 2
    near = -(torch.arange(special.shape[1]) - middle).abs() / special.shape[1]
    # Without a sentence's beginning the place nearest the middle wins.
    ranked = torch.where(lots >= 6.0, lots, inner * 2.0 + near)
    cut = ranked.argmax(1)
    ends = _text_ends(special)
    return torch.where(inner.any(1), cut, ends)


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


def _joined(
    tokens: Tensor,
    cut: Tensor,
    donor: Tensor,
    first: Tensor,
    second: Tensor,
    labels: Tensor,
    vocabulary: Vocabulary,
) -> Pairs:
    """What stands before a text, the first, a separator, the second, what stands after; padding."""
    pad = need(vocabulary.pad, "padding", "next-sentence prediction")
    separator = need(vocabulary.separator, "separator", "next-sentence prediction")
    length = tokens.shape[1]
    places = torch.arange(length).expand_as(tokens)
    head = len(vocabulary.before)
    middle = (head + first)[:, None]
    tail = middle + 1 + second[:, None]
    out = torch.full_like(tokens, pad)
    out[:, :head] = torch.tensor(vocabulary.before, dtype=tokens.dtype)
    one = (places >= head) & (places < middle)
    two = (places > middle) & (places < tail)
    from_one = ((cut - first)[:, None] + places - head).clamp(0, length - 1)
    from_two = (cut[donor][:, None] + places - middle - 1).clamp(0, length - 1)
    out = torch.where(one, tokens.gather(1, from_one), out)
    out = torch.where(two, tokens[donor].gather(1, from_two), out)
    out = out.masked_fill(places == middle, separator)
    for number, sign in enumerate(vocabulary.after):
        out = out.masked_fill(places == tail + number, sign)
    segments = ((places > middle) & (places < tail + len(vocabulary.after))).long()
    return Pairs(out, vocabulary.is_special(out), segments, labels)
