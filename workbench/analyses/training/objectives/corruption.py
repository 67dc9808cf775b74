"""The tokens of a batch that an objective corrupts: single tokens, whole words, or spans.

Everything is drawn for the whole batch at once. Units (tokens or words) exclude special tokens and
padding, so the rate holds for the text. `rate * units` is rounded up or down at random, so that the
rate holds on average, and at least one unit is chosen. Costs: a sort of each row's units, 2 ms for
32 sequences of 512 on a core.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from workbench.analyses.training.vocabulary import Vocabulary


class Units(NamedTuple):
    """Units of tokens that are chosen together."""

    unit_of: Tensor  # [batch, length], the unit of each token; 0 for special tokens
    special: Tensor  # [batch, length] bool
    n_units: Tensor  # [batch]

    def tokens(self, chosen: Tensor) -> Tensor:
        """The tokens of the chosen units.  # [batch, units] bool -> [batch, length] bool"""
        if not chosen.shape[1]:
            return torch.zeros_like(self.special)
        return chosen.gather(1, self.unit_of) & ~self.special


def pieces(special: Tensor) -> Units:
    """One unit per token, without special tokens."""
    return _units(~special, special)


def whole_words(tokens: Tensor, special: Tensor, vocabulary: Vocabulary) -> Units:
    """One unit per word, as far as pieces show word boundaries."""
    starts = vocabulary.word_starts(tokens)
    starts[:, 1:] |= special[:, :-1]
    starts[:, 0] = True
    return _units(starts & ~special, special)


def _units(starts: Tensor, special: Tensor) -> Units:
    unit_of = (starts.cumsum(1) - 1).clamp(min=0).masked_fill(special, 0)
    return Units(unit_of, special, starts.sum(1))


def amount(count: Tensor, rate: float, generator: Generator) -> Tensor:
    """The number of units to choose at a rate.  # [batch] -> [batch]"""
    random = torch.rand(count.shape, generator=generator)
    return (count * rate + random).long().clamp(min=1).minimum(count)


def choose(count: Tensor, n_chosen: Tensor, generator: Generator) -> Tensor:
    """`n_chosen` random positions of the first `count` of each row.  # [batch, positions] bool"""
    order = _shuffled(count, generator)
    ranks = torch.arange(order.shape[1]).expand_as(order)
    chosen = torch.zeros_like(order, dtype=torch.bool)
    return chosen.scatter(1, order, ranks < n_chosen[:, None])


def single(special: Tensor, rate: float, generator: Generator) -> Tensor:
    """Random single tokens.  # [batch, length] bool"""
    units = pieces(special)
    return units.tokens(choose(units.n_units, amount(units.n_units, rate, generator), generator))


def at_random(tokens: Tensor, generator: Generator, vocabulary: Vocabulary) -> Tensor:
    """A uniformly random ordinary token for each token.  # [batch, length]"""
    drawn = torch.randint(len(vocabulary.ordinary), tokens.shape, generator=generator)
    return vocabulary.ordinary[drawn]


def _shuffled(count: Tensor, generator: Generator) -> Tensor:
    """The first `count` positions of each row shuffled, then the others.  # [batch, positions]"""
    n_positions = int(count.max()) if len(count) else 0
    scores = torch.rand(len(count), n_positions, generator=generator)
    return scores.masked_fill(torch.arange(n_positions) >= count[:, None], 2.0).argsort(1)


def after_cut(special: Tensor, generator: Generator) -> Tensor:
    """The tokens after a random piece of each text, which is not its last if it has two.

    # [batch, length] bool
    """
    read = (~special).cumsum(1)  # pieces up to each token, inclusive
    random = torch.rand(len(special), generator=generator)
    cut = 1 + (random * (read[:, -1] - 1).clamp(min=1)).long()[:, None]
    return (read > cut) | ((read == cut) & special)


class Spans(NamedTuple):
    """Lengths of spans, `n_spans` per row, then padding."""

    lengths: Tensor  # [batch, spans]
    n_spans: Tensor  # [batch]


def geometric(total: Tensor, p: float, longest: int, generator: Generator) -> Spans:
    """SpanBERT's span lengths that sum to `total`; lengths above `longest` are excluded.

    With p = 0.2 and a maximum of 10 the mean is 3.8, as published.
    """
    return spans_of(total, (1 - p) ** torch.arange(longest) * p, generator)


def spans_of(total: Tensor, chances: Tensor, generator: Generator) -> Spans:
    """Span lengths 1, 2, ... with these chances, that sum to `total`.  # [batch], [longest]"""
    shape = len(total), max(1, int(total.max()))
    drawn = torch.multinomial(chances, shape[0] * shape[1], replacement=True, generator=generator)
    return _up_to_total(drawn.view(shape) + 1, total)


def poisson(total: Tensor, mean: float, generator: Generator) -> Spans:
    """BART's span lengths that sum to `total`; some are 0.

    The number of zeros is limited by how much the text gets shorter, so inputs never get longer.
    """
    means = torch.full((len(total), 4 * int(total.max()) + 32), mean)
    spans = _up_to_total(torch.poisson(means, generator=generator).long(), total)
    real = torch.arange(spans.lengths.shape[1]) < spans.n_spans[:, None]
    room = (total - (spans.lengths > 0).sum(1))[:, None]
    empty = real & (spans.lengths == 0)
    keep = real & ~(empty & (empty.cumsum(1) > room))
    order = (~keep).byte().argsort(dim=1, stable=True)
    return Spans((spans.lengths * keep).gather(1, order), keep.sum(1))


def partition(total: Tensor, parts: Tensor, generator: Generator) -> Spans:
    """T5's span lengths: `parts` random lengths, none 0, that sum to `total`."""
    cuts = choose((total - 1).clamp(min=0), (parts - 1).clamp(min=0), generator)
    part = torch.nn.functional.pad(cuts.cumsum(1), (1, 0))  # [batch, total], the part of each unit
    real = torch.arange(part.shape[1]) < total[:, None]
    lengths = torch.zeros(len(total), max(1, int(parts.max())), dtype=torch.long)
    return Spans(lengths.scatter_add(1, part, real.long()), parts)


def _up_to_total(lengths: Tensor, total: Tensor) -> Spans:
    """The first lengths that sum to `total`; the last of them is cut."""
    before = lengths.cumsum(1) - lengths
    used = before < total[:, None]
    cut = torch.minimum(lengths, (total[:, None] - before).clamp(min=0))
    return Spans(cut * used, used.sum(1))


class Placement(NamedTuple):
    """Spans placed among the units of a row, with at least one unit between two spans."""

    inside: Tensor  # [batch, units] bool
    empty: Tensor  # [batch, units + 1] bool, an empty span before this unit


def place_spans(spans: Spans, count: Tensor, generator: Generator) -> Placement:
    """Place spans at random, every arrangement with the same probability.

    If there are too many spans to keep them apart, the last ones are left out.
    """
    slots = torch.arange(spans.lengths.shape[1])
    gaps = count - spans.lengths.sum(1) + 1
    real = slots < torch.minimum(spans.n_spans, gaps)[:, None]
    lengths = spans.lengths * real
    gaps = count - lengths.sum(1) + 1
    order = _shuffled(gaps, generator)[:, : len(slots)]  # the gap of each span
    lengths, real = lengths[:, : order.shape[1]], real[:, : order.shape[1]]
    units = int(count.max()) if len(count) else 0
    by_gap = torch.zeros(len(count), units + 2, dtype=torch.long).scatter_add(1, order, lengths)
    start = order + (by_gap.cumsum(1) - by_gap).gather(1, order)  # [batch, spans], the first unit
    start = start.masked_fill(~real, units + 1)
    change = torch.zeros(len(count), units + 2, dtype=torch.long)
    change.scatter_add_(1, start, (lengths > 0).long())
    change.scatter_add_(1, start + lengths, -(lengths > 0).long())
    empty = torch.zeros(len(count), units + 2, dtype=torch.bool)
    empty.scatter_(1, start.masked_fill(lengths > 0, units + 1), True)
    return Placement(change.cumsum(1)[:, :units] > 0, empty[:, : units + 1])


def run_starts(chosen: Tensor) -> Tensor:
    """The first token of each run of chosen tokens.  # [batch, length] bool"""
    starts = chosen.clone()
    starts[:, 1:] &= ~chosen[:, :-1]
    return starts


def compact(values: Tensor, keep: Tensor, fill: int) -> Tensor:
    """The kept values of each row, moved to its start and padded.  # [batch, longest]"""
    order = (~keep).byte().argsort(dim=1, stable=True)
    count = keep.sum(1)
    longest = int(count.max()) if len(count) else 0
    moved = values.gather(1, order[:, :longest])
    return moved.masked_fill(torch.arange(longest) >= count[:, None], fill)
