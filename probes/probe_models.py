"""Three kinds of probe, many of each side by side: every tensor has the probes in front.

- `edge`: Tenney et al. 2019. Each span's words are projected, pooled by self-attention and laid
  side by side, then linear, tanh, layer norm, dropout, linear. The projection has the paper's width
  of 256, or half the width of the states where that is less.
- `linear`: the mean of each span's words, then linear.
- `mlp`: the mean, linear, ReLU, linear.

All end in one logit a label. A probe reads one source or a learnt mix of several, γ Σ softmax(s) h.

The edge probe pools first and projects then, which is exact, since its attention has one head:
Σ aᵢ (W hᵢ + b) = W (Σ aᵢ hᵢ) + b, with a = softmax of (W v)·hᵢ; b is part of the next layer's bias.
No nonlinearity follows the projection, and yet it is not multiplied into that layer: a probe that
learns the product as one matrix is worse on few targets (relations of mini:bert: five points).
Costs, for spans of one word, 2 · projection · (width + hidden) a span and probe forward, and twice
that back.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from probes.batched_adam import Parameters
from probes.experiments import KindName
from probes.representations import Bank, words_in
from workbench.engine.batch import sent

COLUMNS = 16  # of numbers in a vector register
CHUNK = 1_024  # spans that are averaged at once
INPUT_DROPOUT, DROPOUT = 0.2, 0.3  # of the edge probe
PROJECTION = 256  # its width in the paper


@dataclass(frozen=True)
class Shape:
    """What is the same for all probes of a stack."""

    kind: KindName
    width: int
    sides: int  # spans a target
    labels: int
    hidden: int
    sources: int

    @property
    def projection(self) -> int:
        """How wide each span is when the edge probe's first layer reads it."""
        return min(PROJECTION, max(1, self.width // 2))


@dataclass(frozen=True)
class Reads:
    """Which sources each probe reads: one each for the first ones, a mix for those that follow.

    Where there are several batches of targets, `shares` says how many probes read each; they are
    in the order of their batches, and either none of them mixes or all do.
    """

    fixed: Tensor  # [fixed], place of the source
    mixed: Tensor  # [mixed, sources], bool: which may be mixed
    shares: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        return len(self.fixed) + len(self.mixed)

    @cached_property
    def batch(self) -> Tensor:
        """Which batch each probe reads.  # [probes]"""
        shares = torch.tensor(self.shares or (self.number,))
        return sent(torch.repeat_interleave(shares), self.fixed.device)

    def each(self) -> "Iterator[tuple[slice, Reads]]":
        """The probes of one batch after another."""
        start = 0
        for share in self.shares or (self.number,):
            own = slice(start, start + share)
            yield own, Reads(self.fixed[own], self.mixed[own]) if self.shares else self
            start += share


@dataclass
class Dropping:
    """Dropout whose masks are shared by the probes of a batch, each batch with its own numbers."""

    generators: Sequence[torch.Generator]
    batch: Tensor  # [probes], which batch each reads

    def __call__(self, values: Tensor, share: float) -> Tensor:
        """Drop along the last two dimensions.  # [probes, batch, width]"""
        shape, device = values.shape[-2:], values.device
        drawn = [torch.rand(shape, generator=own, device=device) for own in self.generators]
        kept = (torch.stack(drawn) >= share) / (1 - share)  # [batches, batch, width]
        return values * kept.index_select(0, self.batch)


def initial(shape: Shape, seed: int) -> Parameters:
    """One probe's parameters, drawn from its seed alone.  # no probes in front"""
    random = torch.Generator().manual_seed(seed)

    def linear(inputs: int, *sizes: int) -> Tensor:
        bound = 1 / math.sqrt(inputs)
        return (torch.rand(sizes, generator=random) * 2 - 1) * bound

    width, sides, hidden, labels = shape.width, shape.sides, shape.hidden, shape.labels
    drawn: Parameters = {"mix": torch.zeros(shape.sources), "scale": torch.ones(())}
    if shape.kind == "linear":
        drawn["out"] = wide(linear(sides * width, sides, width, labels))
        drawn["out_bias"] = torch.zeros(labels)
        return drawn
    inputs = width
    if shape.kind == "edge":
        inputs = shape.projection
        drawn["project"] = linear(width, sides, width, inputs)
        drawn["attend"] = linear(inputs, sides, inputs)
        drawn["norm"] = torch.ones(hidden)
        drawn["norm_bias"] = torch.zeros(hidden)
    drawn["first"] = linear(sides * inputs, sides, inputs, hidden)
    drawn["first_bias"] = linear(sides * inputs, hidden)
    drawn["out"] = wide(linear(hidden, hidden, labels))
    drawn["out_bias"] = linear(hidden, labels)
    return drawn


def logits(
    shape: Shape, own: Mapping[str, Tensor], reads: Reads, bank: Bank, spans: Sequence[Tensor]
) -> Tensor:
    """What each probe says of each target; `spans` are [n, 2] a side.  # -> [probes, n, labels]"""
    return answers(shape, own, pooled(shape, own, reads, bank, [side[None] for side in spans]))


def pooled(
    shape: Shape, own: Mapping[str, Tensor], reads: Reads, bank: Bank, spans: Sequence[Tensor]
) -> Tensor:
    """Each side's span as one vector, as each probe reads it, the sides beside each other.

    [batches, n, 2] a side -> [probes, n, sides * width]
    """
    weights = mixing(own, reads.mixed)
    words = torch.stack([side[..., 0] for side in spans], dim=-1)  # [batches, n, sides]
    if all(bool((side[..., 1] - side[..., 0] == 1).all()) for side in spans):
        return _read(weights, reads, bank, bank.rows(words).flatten(3))
    if shape.kind != "edge":
        means = [averaged(bank, side.flatten(0, 1)) for side in spans]
        states = torch.cat(means, 2)
        return _read(weights, reads, bank, states.view(len(states), *words.shape[:2], -1))
    vectors = torch.einsum("pswi,psi->psw", own["project"], own["attend"])
    batches = []
    for batch, (probes, part) in enumerate(reads.each()):
        sides = zip(vectors[probes].unbind(1), (side[batch] for side in spans), strict=True)
        found = [_attended(weights[probes], attend, part, bank, side) for attend, side in sides]
        batches.append(torch.cat(found, 2))
    return batches[0] if len(batches) == 1 else torch.cat(batches)


def answers(
    shape: Shape, own: Mapping[str, Tensor], inputs: Tensor, drop: Dropping | None = None
) -> Tensor:
    """What is above the spans.  # [probes, n, sides * width] -> [probes, n, labels]"""
    if shape.kind == "linear":
        return _above(shape, inputs, own)
    if shape.kind == "edge":
        inputs = inputs if drop is None else drop(inputs, INPUT_DROPOUT)
        sides = zip(inputs.chunk(shape.sides, 2), own["project"].unbind(1), strict=True)
        inputs = torch.cat([side @ project for side, project in sides], 2)
    inner = torch.baddbmm(own["first_bias"][:, None], inputs, own["first"].flatten(1, 2))
    if shape.kind == "mlp":
        return _above(shape, functional.relu(inner), own)
    inner = functional.layer_norm(torch.tanh(inner), inner.shape[-1:])
    inner = torch.addcmul(own["norm_bias"][:, None], inner, own["norm"][:, None])
    return _above(shape, inner if drop is None else drop(inner, DROPOUT), own)


def _above(shape: Shape, inner: Tensor, own: Mapping[str, Tensor]) -> Tensor:
    """The last layer.  # [probes, n, inputs] -> [probes, n, labels]"""
    weights = own["out"].reshape(len(inner), inner.shape[2], -1)
    return (inner @ weights)[..., : shape.labels] + own["out_bias"][:, None]


def wide(weights: Tensor) -> Tensor:
    """Zero columns up to a full vector register: narrow products cost twice as much."""
    return functional.pad(weights, (0, -weights.shape[-1] % COLUMNS))


def mixing(own: Mapping[str, Tensor], mixed: Tensor) -> Tensor:
    """How much of each source the probes that mix take; nothing of those they may not.

    [probes, sources]
    """
    number = len(mixed)
    if not number:
        return mixed.float()
    scores = own["mix"][-number:].masked_fill(~mixed, -torch.inf)
    return own["scale"][-number:, None] * scores.softmax(dim=1)


def _attended(weights: Tensor, attend: Tensor, reads: Reads, bank: Bank, spans: Tensor) -> Tensor:
    """The sum of each span's words by each probe's attention.  # [n, 2] -> [probes, n, width]"""
    words, of_span = words_in(spans)
    of_span = sent(of_span, bank.device)
    read = _read(weights, reads, bank, bank.rows(words)[:, None])  # [probes, words, width]
    scores = (read @ attend[:, :, None])[..., 0]  # [probes, words]
    each = of_span.expand_as(scores)
    largest = scores.new_full((len(scores), len(spans)), -torch.inf)
    largest.scatter_reduce_(1, each, scores.detach(), "amax")
    shares = (scores - largest.index_select(1, of_span)).exp()
    totals = torch.zeros_like(largest).index_add(1, of_span, shares)
    found = read.new_zeros(*totals.shape, bank.width)
    return found.index_add(1, of_span, shares[:, :, None] * read) / totals[:, :, None]


def _read(weights: Tensor, reads: Reads, bank: Bank, states: Tensor) -> Tensor:
    """From what each source says to what each probe reads.

    weights [mixed, sources], states [sources, batches, ..., sides * width] -> [probes, ...]
    """
    batches = states.shape[1]
    parts = []
    if len(reads.fixed):
        place = reads.fixed * batches + reads.batch[: len(reads.fixed)]
        parts.append(states.flatten(0, 1).index_select(0, place))
    if len(reads.mixed):
        sizes = bank.common.repeat(1, states.shape[-1] // bank.width)  # [sources, sides * width]
        states = states * sizes.view(len(sizes), *[1] * (states.ndim - 2), -1)
        parts += [
            (weights[probes] @ states[:, batch].flatten(1)).view(-1, *states.shape[2:])
            for batch, (probes, _) in enumerate(reads.each())
        ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def averaged(bank: Bank, spans: Tensor) -> Tensor:
    """The mean of each span's words in every source.  # [n, 2] -> [sources, n, width]"""
    means = []
    for some in torch.split(spans, CHUNK):
        words, of_span = words_in(some)
        states = bank.rows(words)  # [sources, words, width]
        if len(words) > len(some):
            lengths = (some[:, 1] - some[:, 0]).to(states)
            sums = states.new_zeros(len(states), len(some), bank.width)
            states = sums.index_add(1, of_span.to(bank.device), states) / lengths[:, None]
        means.append(states)
    return torch.cat(means, dim=1)
