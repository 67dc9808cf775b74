"""Three kinds of probe, many of each side by side: every tensor has the probes in front.

- `edge`: Tenney et al. 2019. Each span's words are projected, pooled by self-attention and laid
  side by side, then linear, tanh, layer norm, dropout, linear.
- `linear`: the mean of each span's words, then linear.
- `mlp`: the mean, linear, ReLU, linear.

All end in one logit a label. A probe reads one source or a learnt mix of several, γ Σ softmax(s) h.

Two things make the edge probe cheap and change nothing it can say. Pooling first is exact, since
its attention has one head: Σ aᵢ (W hᵢ + b) = W (Σ aᵢ hᵢ) + b, with a = softmax of (W v)·hᵢ. And
between the projection W and the layer M above it stands nothing, so their product is learnt as one
matrix, and W v as one vector; `folded` makes these of Tenney's own.
Costs, for spans of one word, 2 · width · hidden a span and probe forward, and twice that back.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from probes.bank import Bank, widths_of

KindName = Literal["edge", "linear", "mlp"]
Parameters = dict[str, Tensor]  # [probes, ...] each
COLUMNS = 16  # of numbers in a vector register
INPUT_DROPOUT, DROPOUT = 0.2, 0.3  # of the edge probe


@dataclass(frozen=True)
class Shape:
    """What is the same for all probes of a stack."""

    kind: KindName
    width: int
    sides: int  # spans a target
    labels: int
    hidden: int
    sources: int


@dataclass(frozen=True)
class Reads:
    """Which sources each probe reads: one each for the first ones, a mix for those that follow."""

    fixed: Tensor  # [fixed], place of the source
    mixed: Tensor  # [mixed, sources], bool: which may be mixed

    @property
    def number(self) -> int:
        return len(self.fixed) + len(self.mixed)


@dataclass
class Dropping:
    """Dropout with its own random numbers; a mask is shared by the probes of a seed."""

    generator: torch.Generator

    def __call__(self, values: Tensor, share: float) -> Tensor:
        """Drop along the last two dimensions.  # [..., batch, width]"""
        shape = values.shape[-2:]
        kept = torch.rand(shape, generator=self.generator, device=values.device) >= share
        return values * (kept / (1 - share))


def initial(shape: Shape, seed: int) -> Parameters:
    """One probe's parameters, drawn from its seed alone.  # no probes in front"""
    random = torch.Generator().manual_seed(seed)

    def linear(inputs: int, *sizes: int) -> Tensor:
        bound = 1 / math.sqrt(inputs)
        return (torch.rand(sizes, generator=random) * 2 - 1) * bound

    width, sides, hidden, labels = shape.width, shape.sides, shape.hidden, shape.labels
    drawn: Parameters = {"mix": torch.zeros(shape.sources), "scale": torch.ones(())}
    if shape.kind == "linear":
        drawn["out"] = _wide(linear(sides * width, sides, width, labels))
        drawn["out_bias"] = torch.zeros(labels)
        return drawn
    drawn["first"] = linear(sides * width, sides, width, hidden)
    drawn["first_bias"] = linear(sides * width, hidden)
    if shape.kind == "edge":
        drawn["attend"] = linear(width, sides, width)
        drawn["norm"] = torch.ones(hidden)
        drawn["norm_bias"] = torch.zeros(hidden)
    drawn["out"] = _wide(linear(hidden, hidden, labels))
    drawn["out_bias"] = linear(hidden, labels)
    return drawn


def logits(
    shape: Shape,
    own: Mapping[str, Tensor],
    reads: Reads,
    bank: Bank,
    spans: Sequence[Tensor],
    drop: Dropping | None = None,
) -> Tensor:
    """What each probe says of each target; `spans` are [batch, 2] a side.

    -> [probes, batch, labels]
    """
    drops = [] if drop is None else [(drop, reads.number)]
    return answers(shape, own, pooled_sides(shape, own, reads, bank, spans, drop), drops)


def pooled_sides(
    shape: Shape,
    own: Mapping[str, Tensor],
    reads: Reads,
    bank: Bank,
    spans: Sequence[Tensor],
    drop: Dropping | None = None,
) -> list[Tensor]:
    """Each side's span as one vector, as each probe reads it.  # [probes, batch, width] each"""
    pooled = [_pooled(shape, own, reads, bank, side, rows) for side, rows in enumerate(spans)]
    if shape.kind == "edge" and drop is not None:
        return [drop(side, INPUT_DROPOUT) for side in pooled]
    return pooled


def answers(
    shape: Shape,
    own: Mapping[str, Tensor],
    pooled: Sequence[Tensor],
    drops: Sequence[tuple[Dropping, int]] = (),
) -> Tensor:
    """What is above the spans; each dropping is that of the next so many probes.

    [probes, batch, width] a side -> [probes, batch, labels]
    """
    if shape.kind == "linear":
        return _sum(pooled, own["out"])[..., : shape.labels] + own["out_bias"][:, None]
    inner = _sum(pooled, own["first"]) + own["first_bias"][:, None]  # [probes, batch, hidden]
    if shape.kind == "mlp":
        said = functional.relu(inner) @ own["out"]
        return said[..., : shape.labels] + own["out_bias"][:, None]
    inner = functional.layer_norm(torch.tanh(inner), inner.shape[-1:])
    inner = inner * own["norm"][:, None] + own["norm_bias"][:, None]
    if drops:
        parts = torch.split(inner, [number for _, number in drops])
        kept = [drop(part, DROPOUT) for (drop, _), part in zip(drops, parts, strict=True)]
        inner = kept[0] if len(kept) == 1 else torch.cat(kept)
    return (inner @ own["out"])[..., : shape.labels] + own["out_bias"][:, None]


def _wide(weights: Tensor) -> Tensor:
    """Columns of nought up to a full vector register: narrow products cost twice as much."""
    return functional.pad(weights, (0, -weights.shape[-1] % COLUMNS))


def folded(project: Tensor, bias: Tensor, attend: Tensor, first: Tensor) -> tuple[Tensor, ...]:
    """Tenney's projection, attention and first layer as the edge probe has them.

    project [sides, width, inner], bias [sides, inner], attend [sides, inner] and first [sides,
    inner, hidden] -> `attend` [sides, width], `first` [sides, width, hidden], and what is added to
    `first_bias` [hidden].
    """
    vector = torch.einsum("swi,si->sw", project, attend)
    return vector, project @ first, torch.einsum("si,sih->h", bias, first)


def mixing(own: Mapping[str, Tensor], mixed: Tensor) -> Tensor:
    """How much of each source the probes that mix take; nothing of those they may not.

    [probes, sources]
    """
    number = len(mixed)
    if not number:
        return mixed.float()
    scores = own["mix"][-number:].masked_fill(~mixed, -torch.inf)
    return own["scale"][-number:, None] * scores.softmax(dim=1)


def _sum(pooled: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Σ over sides of inputs times weights.  # [probes, batch, out]"""
    out = pooled[0] @ weights[:, 0]
    for side in range(1, len(pooled)):
        out = torch.baddbmm(out, pooled[side], weights[:, side])
    return out


def _pooled(
    shape: Shape, own: Mapping[str, Tensor], reads: Reads, bank: Bank, side: int, spans: Tensor
) -> Tensor:
    """Each span as one vector, as each probe reads it.  # [probes, batch, width]"""
    mix = _mixer(own, reads, bank.common)
    attend = own["attend"][:, side] if shape.kind == "edge" else None  # [probes, width]
    groups = widths_of(spans)
    found = [_group(mix, attend, bank, rows, real) for _, rows, real in groups]
    return _in_order([places for places, _, _ in groups], found)


def averaged(bank: Bank, spans: Tensor) -> Tensor:
    """The mean of each span's words in every source.  # [n, 2] -> [sources, n, width]"""
    groups = widths_of(spans)
    found = [_mean(bank.rows(rows), real.to(bank.device)) for _, rows, real in groups]
    return _in_order([places for places, _, _ in groups], found)


def _in_order(places: Sequence[Tensor], found: Sequence[Tensor]) -> Tensor:
    """Groups of spans as one, each span at its place.  # [..., some, width] each, along 1"""
    if len(found) == 1:
        return found[0]
    order = torch.argsort(torch.cat(list(places)))
    return torch.cat(list(found), dim=1).index_select(1, order.to(found[0].device))


def _mean(states: Tensor, real: Tensor) -> Tensor:
    """[sources, spans, longest, width] -> [sources, spans, width]"""
    return torch.einsum("sntd,nt->snd", states, real / real.sum(1, keepdim=True))


def _group(
    mix: Callable[[Tensor], Tensor], attend: Tensor | None, bank: Bank, rows: Tensor, real: Tensor
) -> Tensor:
    """Spans of like length.  # rows [spans, longest] -> [probes, spans, width]"""
    states = bank.rows(rows)  # [sources, spans, longest, width]
    if rows.shape[1] == 1:
        return mix(states[:, :, 0])
    real = real.to(bank.device)
    if attend is None:
        return mix(_mean(states, real))
    read = mix(states)  # [probes, spans, longest, width]
    scores = torch.einsum("pntd,pd->pnt", read, attend).masked_fill(~real, -torch.inf)
    return (scores.softmax(dim=2)[:, :, None] @ read)[:, :, 0]


def _mixer(own: Mapping[str, Tensor], reads: Reads, common: Tensor) -> Callable[[Tensor], Tensor]:
    """From what each source says to what each probe reads.  # [sources, ...] -> [probes, ...]"""
    weights = mixing(own, reads.mixed) * common

    def mix(states: Tensor) -> Tensor:
        parts = [states.index_select(0, reads.fixed)] if len(reads.fixed) else []
        if len(reads.mixed):
            mixed = weights @ states.flatten(1)
            parts.append(mixed.reshape(-1, *states.shape[1:]))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    return mix
