"""BERT's next-sentence prediction: do these two texts follow each other?

A packed sequence is cut at a sentence's beginning into two; in half of the batch the second is
taken from another sequence. A second that begins with the very sentence that truly follows is never
called another. Costs 1 ms for 32 sequences of 128 on a core, plus what masking costs.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from workbench.training.objectives.masked import Unit, masked
from workbench.training.vocabulary import Vocabulary, need

# --- two texts in a sequence, as next-sentence and sentence-order prediction have them ------------
#
# A packed sequence is cut at a sentence's beginning; two texts are joined in the tokenizer's
# frame with a separator between them. One token must go for it: whatever is too long is cut at
# the far ends, so that what meets is kept. Costs half a millisecond for 32 sequences of 128 on a
# core.


class Pairs(NamedTuple):
    """Two texts in a sequence, and what is asked of them."""

    tokens: Tensor  # [batch, length]
    special: Tensor  # [batch, length] bool
    segments: Tensor  # [batch, length], 1 in the second text
    labels: Tensor  # [batch]


class Part(NamedTuple):
    """A stretch of each row."""

    tokens: Tensor  # [batch, length]
    begin: Tensor  # [batch]
    size: Tensor  # [batch]


def text_begins(special: Tensor) -> Tensor:
    """The place of the first token of the text; 0 where there is none.  # [batch]"""
    return (~special).byte().argmax(1)


def text_ends(special: Tensor) -> Tensor:
    """The place after the last token of the text; 0 where there is none.  # [batch]"""
    places = torch.arange(1, special.shape[1] + 1)
    return (places * ~special).amax(1)


def cuts(special: Tensor, sentences: Tensor, generator: Generator) -> Tensor:
    """Where a sentence begins inside a document, at random; else near the middle.  # [batch]"""
    inner = inside(special)
    lots = torch.rand(special.shape, generator=generator)
    lots = lots + (inner & sentences) * 4.0 + inner * 2.0
    middle = special.shape[1] / 2
    near = -(torch.arange(special.shape[1]) - middle).abs() / special.shape[1]
    # Without a sentence's beginning the place nearest the middle wins.
    ranked = torch.where(lots >= 6.0, lots, inner * 2.0 + near)
    cut = ranked.argmax(1)
    return torch.where(inner.any(1), cut, text_ends(special))


def inside(special: Tensor) -> Tensor:
    """Text with text of its document before it: where a cut can be.  # [batch, length] bool"""
    inner = ~special
    inner[:, 1:] &= ~special[:, :-1]
    inner[:, 0] = False
    return inner


def fitted(one: Tensor, two: Tensor, length: int, vocabulary: Vocabulary) -> tuple[Tensor, Tensor]:
    """How much of two texts a sequence has room for, half for each at need.  # [batch] each"""
    room = length - len(vocabulary.before) - len(vocabulary.after) - 1
    first = torch.minimum(one, torch.maximum(room - two, torch.tensor(room // 2)))
    return first, torch.minimum(two, room - first)


def joined(first: Part, second: Part, labels: Tensor, vocabulary: Vocabulary) -> Pairs:
    """What stands before a text, the first, a separator, the second, what stands after; padding."""
    pad = need(vocabulary.pad, "padding", "a pair of texts")
    separator = need(vocabulary.separator, "separator", "a pair of texts")
    tokens = first.tokens
    length = tokens.shape[1]
    places = torch.arange(length).expand_as(tokens)
    head = len(vocabulary.before)
    middle = (head + first.size)[:, None]
    tail = middle + 1 + second.size[:, None]
    out = torch.full_like(tokens, pad)
    out[:, :head] = torch.tensor(vocabulary.before, dtype=tokens.dtype)
    one = (places >= head) & (places < middle)
    two = (places > middle) & (places < tail)
    from_one = (first.begin[:, None] + places - head).clamp(0, length - 1)
    from_two = (second.begin[:, None] + places - middle - 1).clamp(0, length - 1)
    out = torch.where(one, tokens.gather(1, from_one), out)
    out = torch.where(two, second.tokens.gather(1, from_two), out)
    out = out.masked_fill(places == middle, separator)
    for number, sign in enumerate(vocabulary.after):
        out = out.masked_fill(places == tail + number, sign)
    segments = ((places > middle) & (places < tail + len(vocabulary.after))).long()
    return Pairs(out, vocabulary.is_special(out), segments, labels)


# --- next-sentence prediction ---------------------------------------------------------------------


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
    # Those with no text of their own to follow are others first, those with no other never.
    negative = _half(~there, ~fits.any(1), generator)
    return torch.where(negative & fits.any(1), other, own)


def _half(first: Tensor, last: Tensor, generator: Generator) -> Tensor:
    """Half of the rows by chance, some before all others and some after.  # [batch] bool"""
    half = len(first) // 2
    if len(first) % 2:
        half += int(torch.rand((), generator=generator) < 0.5)
    rank = torch.rand(len(first), generator=generator) - 2.0 * first + 2.0 * last
    chosen = torch.zeros_like(first)
    chosen[rank.argsort()[:half]] = True
    return chosen


def _go_on_alike(tokens: Tensor, cut: Tensor, ends: Tensor, other: Tensor) -> Tensor:
    """Whether another's second text goes on as one's own, as far as the shorter goes.  # [batch]"""
    places = torch.arange(tokens.shape[1])
    last = tokens.shape[1] - 1
    own = tokens.gather(1, (cut[:, None] + places).clamp(max=last))
    theirs = tokens[other].gather(1, (cut[other][:, None] + places).clamp(max=last))
    shorter = torch.minimum(ends - cut, (ends - cut)[other])
    return ((own == theirs) | (places >= shorter[:, None])).all(1) & (shorter > 0)


# --- sentence-order prediction --------------------------------------------------------------------
#
# ALBERT's sentence-order prediction: do these two texts stand in the order they were written in?
#
# A packed sequence is cut at a sentence's beginning into two texts that follow each other, and
# half of the batch has them swapped. What a sequence begins and ends with is a sentence cut in
# two, which would tell the order without reading: where there are enough sentences, those are
# left out. Costs 1 ms for 32 sequences of 128 on a core, plus what masking costs.


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
    able = (one > 0) & (two > 0)  # two texts, to be swapped
    labels = (_half(torch.zeros_like(able), ~able, generator) & able).long()
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
