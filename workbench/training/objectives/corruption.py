"""Which tokens of a batch an objective corrupts: single ones, whole words, or spans.

Everything is drawn for the whole batch at once. Units, tokens or words, are counted over what is
not special, so a rate holds for the text and no special token or padding is ever chosen; of
`rate * units` the fraction is rounded up or down by chance, so that it holds on average, and at
least one unit is taken. Costs a sort of a row's units: 2 ms for 32 sequences of 512 on a core.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from workbench.training.vocabulary import Vocabulary


class Units(NamedTuple):
    """What is chosen or left as a whole."""

    of: Tensor  # [batch, length], the unit a token is part of; 0 where it is special
    special: Tensor  # [batch, length] bool
    number: Tensor  # [batch], how many there are

    def tokens(self, chosen: Tensor) -> Tensor:
        """From units to their tokens.  # [batch, units] bool -> [batch, length] bool"""
        if not chosen.shape[1]:
            return torch.zeros_like(self.special)
        return chosen.gather(1, self.of) & ~self.special


def pieces(special: Tensor) -> Units:
    """Each token that is not special by itself."""
    return _units(~special, special)


def whole_words(tokens: Tensor, special: Tensor, vocabulary: Vocabulary) -> Units:
    """Words, as far as pieces tell them."""
    starts = vocabulary.word_starts(tokens)
    starts[:, 1:] |= special[:, :-1]
    starts[:, 0] = True
    return _units(starts & ~special, special)


def _units(starts: Tensor, special: Tensor) -> Units:
    of = (starts.cumsum(1) - 1).clamp(min=0).masked_fill(special, 0)
    return Units(of, special, starts.sum(1))


def amount(count: Tensor, rate: float, generator: Generator) -> Tensor:
    """How many of so many units a rate takes.  # [batch] -> [batch]"""
    chance = torch.rand(count.shape, generator=generator)
    return (count * rate + chance).long().clamp(min=1).minimum(count)


def choose(count: Tensor, wanted: Tensor, generator: Generator) -> Tensor:
    """So many of the first `count` places of a row, each as likely.  # [batch, places] bool"""
    order = _shuffled(count, generator)
    ranks = torch.arange(order.shape[1]).expand_as(order)
    chosen = torch.zeros_like(order, dtype=torch.bool)
    return chosen.scatter(1, order, ranks < wanted[:, None])


def single(special: Tensor, rate: float, generator: Generator) -> Tensor:
    """Tokens drawn one by one.  # [batch, length] bool"""
    units = pieces(special)
    return units.tokens(choose(units.number, amount(units.number, rate, generator), generator))


def at_random(tokens: Tensor, generator: Generator, vocabulary: Vocabulary) -> Tensor:
    """Another ordinary token for each, every one as likely.  # [batch, length]"""
    drawn = torch.randint(len(vocabulary.ordinary), tokens.shape, generator=generator)
    return vocabulary.ordinary[drawn]


def _shuffled(count: Tensor, generator: Generator) -> Tensor:
    """The places of each row in random order, those from `count` on last.  # [batch, places]"""
    places = int(count.max()) if len(count) else 0
    scores = torch.rand(len(count), places, generator=generator)
    return scores.masked_fill(torch.arange(places) >= count[:, None], 2.0).argsort(1)


class Spans(NamedTuple):
    """Lengths of spans to be placed, those of a row first, then nothing."""

    lengths: Tensor  # [batch, spans]
    number: Tensor  # [batch], how many there are


def geometric(wanted: Tensor, p: float, longest: int, generator: Generator) -> Spans:
    """SpanBERT's lengths, until they make up what is wanted: longer ones are drawn again.

    With p = 0.2 and at most 10 the mean is 3.8, as published.
    """
    chances = (1 - p) ** torch.arange(longest) * p
    shape = len(wanted), max(1, int(wanted.max()))
    drawn = torch.multinomial(chances, shape[0] * shape[1], replacement=True, generator=generator)
    return _until(drawn.view(shape) + 1, wanted)


def poisson(wanted: Tensor, mean: float, generator: Generator) -> Spans:
    """BART's lengths, until they make up what is wanted; some are 0.

    Of those no more are kept than the text gets shorter, so no input outgrows the model.
    """
    means = torch.full((len(wanted), 4 * int(wanted.max()) + 32), mean)
    spans = _until(torch.poisson(means, generator=generator).long(), wanted)
    there = torch.arange(spans.lengths.shape[1]) < spans.number[:, None]
    room = (wanted - (spans.lengths > 0).sum(1))[:, None]
    empty = there & (spans.lengths == 0)
    keep = there & ~(empty & (empty.cumsum(1) > room))
    order = (~keep).byte().argsort(dim=1, stable=True)
    return Spans((spans.lengths * keep).gather(1, order), keep.sum(1))


def partition(wanted: Tensor, parts: Tensor, generator: Generator) -> Spans:
    """T5's lengths: so many random parts, none empty, that make up exactly what is wanted."""
    cuts = choose((wanted - 1).clamp(min=0), (parts - 1).clamp(min=0), generator)
    part = torch.nn.functional.pad(cuts.cumsum(1), (1, 0))  # [batch, wanted], the part each is in
    real = torch.arange(part.shape[1]) < wanted[:, None]
    lengths = torch.zeros(len(wanted), max(1, int(parts.max())), dtype=torch.long)
    return Spans(lengths.scatter_add(1, part, real.long()), parts)


def _until(lengths: Tensor, wanted: Tensor) -> Spans:
    """The first lengths that make up what is wanted, the last of them cut."""
    before = lengths.cumsum(1) - lengths
    used = before < wanted[:, None]
    cut = torch.minimum(lengths, (wanted[:, None] - before).clamp(min=0))
    return Spans(cut * used, used.sum(1))


class Placed(NamedTuple):
    """Spans among the units of a row; at least one unit stands between two of them."""

    inside: Tensor  # [batch, units] bool
    empty: Tensor  # [batch, units + 1] bool, where a span of no length is: before this unit


def place(spans: Spans, count: Tensor, generator: Generator) -> Placed:
    """Spans at random places, any arrangement as likely as any other.

    Of spans too many to be kept apart, the last are left out.
    """
    slots = torch.arange(spans.lengths.shape[1])
    gaps = count - spans.lengths.sum(1) + 1
    there = slots < torch.minimum(spans.number, gaps)[:, None]
    lengths = spans.lengths * there
    gaps = count - lengths.sum(1) + 1
    order = _shuffled(gaps, generator)[:, : len(slots)]  # the gap of each span
    lengths, there = lengths[:, : order.shape[1]], there[:, : order.shape[1]]
    units = int(count.max()) if len(count) else 0
    by_gap = torch.zeros(len(count), units + 2, dtype=torch.long).scatter_add(1, order, lengths)
    start = order + (by_gap.cumsum(1) - by_gap).gather(1, order)  # [batch, spans], the first unit
    start = start.masked_fill(~there, units + 1)
    change = torch.zeros(len(count), units + 2, dtype=torch.long)
    change.scatter_add_(1, start, (lengths > 0).long())
    change.scatter_add_(1, start + lengths, -(lengths > 0).long())
    empty = torch.zeros(len(count), units + 2, dtype=torch.bool)
    empty.scatter_(1, start.masked_fill(lengths > 0, units + 1), True)
    return Placed(change.cumsum(1)[:, :units] > 0, empty[:, : units + 1])


def run_starts(chosen: Tensor) -> Tensor:
    """The first token of each run of chosen ones.  # [batch, length] bool"""
    starts = chosen.clone()
    starts[:, 1:] &= ~chosen[:, :-1]
    return starts


def compact(values: Tensor, keep: Tensor, fill: int) -> Tensor:
    """What is kept of each row, moved to its beginning.  # [batch, longest]"""
    order = (~keep).byte().argsort(dim=1, stable=True)
    count = keep.sum(1)
    longest = int(count.max()) if len(count) else 0
    moved = values.gather(1, order[:, :longest])
    return moved.masked_fill(torch.arange(longest) >= count[:, None], fill)
