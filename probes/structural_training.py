"""The structural probe of Hewitt and Manning: a matrix a probe, all layers and seeds at once.

`|B(h_i - h_j)|^2` is to be the distance of two words in the tree, `|B h_i + b|^2` the depth of one.
Every probe is a row of one tensor of matrices, so that an epoch is a few large products;
`batched_adam` has how each is trained and stopped.

B could undo any linear map of the states, so what it can learn does not depend on their scaling;
what Adam learns does. States are therefore centred, standardised and partly whitened on train: a
layer wins by what it holds, not by outlier features, by an offset, or by few directions that are
larger than the others. Centring would take from depths what the mean of the states gave them, a
constant under B, so the probe gets a constant feature of its own (b).

Costs, an epoch and a probe, three products of words by width by rank: 1,000 sentences of 9 words, a
width of 128, a rank of 64 and 22 probes take a third of a second on one core.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.batched_adam import EPOCHS, Fitted, OnProgress, Weights, fitted
from probes.dependency_trees import Tree
from probes.experiments import TreeTask
from workbench.core.machine import free_memory
from workbench.engine.batch import sent

DISTANCE: TreeTask = "distance"

RATE = 7e-3
SENTENCES = 32  # in a batch
PAIRS = 40_000  # of words in a batch, at most
FIRST_SIZE = 3.0  # what distances and depths of states of size 1 are about at the start
RIDGE = 1.0  # added to the variances of standardised states before they are whitened
SIZE = 0.3  # of the states: distances that start small generalise better
CONSTANT = 1.0  # the constant feature
ROWS = 8192  # words whitened at once


class Probe(NamedTuple):
    """One matrix: what it is to tell, from which states, drawn and shuffled by which seed."""

    task: TreeTask
    source: int
    seed: int


@dataclass(frozen=True)
class States:
    """Tables of states of every word, centred and partly whitened, and a constant feature."""

    tables: Sequence[Tensor]  # [words, width] each, half precision, on the device where they fit
    device: torch.device

    @classmethod
    def of(
        cls, tables: Sequence[Tensor], rows: NDArray[np.int64], device: torch.device
    ) -> "States":
        """Means, variances and correlations are over `rows`, which are those of train."""
        found = [whitened(table, torch.from_numpy(rows)) for table in tables]
        if device.type == "cuda":
            size = sum(table.numel() * table.element_size() for table in found)
            if size < free_memory(device) // 2:
                found = [table.to(device) for table in found]
        return cls(found, device)

    @property
    def width(self) -> int:
        """Of what the probes read."""
        return self.tables[0].shape[1] + 1

    def at(self, source: int, rows: Tensor) -> Tensor:
        """States of these words.  # [...] -> [..., width]"""
        table = self.tables[source]
        found = table[sent(rows, table.device)].to(self.device).float()
        return torch.nn.functional.pad(found, (0, 1), value=CONSTANT)


def whitened(table: Tensor, train: Tensor) -> Tensor:
    """The table standardised by its train rows and partly whitened.  # [words, width], half

    A direction of the standardised states with variance v is divided by sqrt(v + RIDGE): large ones
    become alike, and those with next to no variance stay small.
    """
    chosen = table[train].double()
    mean, spread = chosen.mean(0), chosen.std(0, correction=0)
    spread = torch.where(spread > 0, spread, 1.0)
    standard = (chosen - mean) / spread
    variances, directions = torch.linalg.eigh(standard.T @ standard / len(standard))
    variances = variances.clamp(min=0)
    size = (variances / (variances + RIDGE)).mean().sqrt().clamp(min=1e-6)
    turned = (
        directions / (variances + RIDGE).sqrt() @ directions.T * (SIZE / size)
    )  # [width, width]
    away = (turned / spread[:, None]).float()
    rows = [((part.double() - mean).float() @ away).half() for part in torch.split(table, ROWS)]
    return torch.cat(rows)


class _Batch(NamedTuple):
    """Sentences side by side; those of one seed are not those of another, but as long."""

    rows: Tensor  # [seeds, sentences, words]
    real: Tensor  # [seeds, sentences, words], 1 or 0
    distances: Tensor  # [seeds, sentences, words, words]
    depths: Tensor  # [seeds, sentences, words]


@dataclass(frozen=True)
class _Sentences:
    """Trees end to end, from which batches are laid out."""

    sizes: Tensor  # [trees]
    starts: Tensor  # [trees], in what follows
    rows: Tensor  # [words]
    depths: Tensor  # [words]
    squares: Tensor  # [trees], where a tree's distances start
    distances: Tensor  # [words * words of their tree]

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> "_Sentences":
        sizes = torch.tensor([len(tree) for tree in trees])
        return cls(
            sizes,
            sizes.cumsum(0) - sizes,
            torch.from_numpy(np.concatenate([tree.rows for tree in trees])),
            torch.from_numpy(np.concatenate([tree.depths for tree in trees])),
            sizes.square().cumsum(0) - sizes.square(),
            torch.from_numpy(np.concatenate([tree.distances.ravel() for tree in trees])),
        )

    def ordered(self, seeds: Sequence[int], epoch: int) -> Tensor:
        """By length, equal ones in an order of each seed's own.  # [seeds, trees]"""
        found = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed * 1_000 + epoch)
            shuffled = torch.randperm(len(self.sizes), generator=generator)
            found.append(shuffled[self.sizes[shuffled].argsort(stable=True)])
        return torch.stack(found)

    def batches(self, seeds: Sequence[int], epoch: int, device: torch.device) -> Iterable[_Batch]:
        """All trees once, in batches of like length; the batches in an order of the epoch's own."""
        order = self.ordered(seeds, epoch)
        lengths = self.sizes[order[0]].tolist()
        cuts, start = [], 0
        while start < len(lengths):
            size = SENTENCES
            while size > 1 and size * lengths[min(start + size, len(lengths)) - 1] ** 2 > PAIRS:
                size -= 1
            cuts.append((start, min(start + size, len(lengths))))
            start += size
        generator = torch.Generator().manual_seed(epoch)
        for place in torch.randperm(len(cuts), generator=generator).tolist():
            first, last = cuts[place]
            yield self.laid(order[:, first:last], device)

    def laid(self, trees: Tensor, device: torch.device) -> _Batch:
        """These trees, padded.  # [seeds, sentences]"""
        sizes = self.sizes[trees][..., None]  # [seeds, sentences, 1]
        place = torch.arange(int(sizes.max()))
        real = place < sizes  # [seeds, sentences, words]
        words = torch.where(real, self.starts[trees][..., None] + place, 0)
        both = real[..., None] & real[..., None, :]
        cell = self.squares[trees][..., None, None] + place[:, None] * sizes[..., None] + place
        distances = self.distances[torch.where(both, cell, 0)]
        return _Batch(
            sent(self.rows[words], device),
            sent(real.float(), device),
            sent(distances.float(), device),
            sent(self.depths[words].float(), device),
        )


@dataclass(frozen=True)
class _Which:
    """Probes that still run; worked out when one stops, since it asks the device."""

    running: Tensor  # [probes], their places among all
    used: list[int]  # pairs of source and seed
    pair: Tensor  # [probes], which of these each has
    seed: Tensor  # [probes]
    distance: Tensor  # places of those that learn distances
    depth: Tensor  # and of those that learn depths


def trained(
    states: States,
    train: Sequence[Tree],
    dev: Sequence[Tree],
    probes: Sequence[Probe],
    rank: int,
    on_progress: OnProgress = lambda done, most: None,
    epochs: int = EPOCHS,
) -> Fitted:
    """The matrix of each probe.  # weights [[probes, width, rank]]"""
    seeds = sorted({probe.seed for probe in probes})
    place = {seed: number for number, seed in enumerate(seeds)}
    pairs = sorted({(probe.source, place[probe.seed]) for probe in probes})
    of_pair = {pair: number for number, pair in enumerate(pairs)}
    device = states.device
    pair = torch.tensor([of_pair[p.source, place[p.seed]] for p in probes], device=device)
    seed = torch.tensor([place[p.seed] for p in probes], device=device)
    is_distance = torch.tensor([p.task == DISTANCE for p in probes], device=device)

    last: list[_Which] = []

    def which(running: Tensor) -> _Which:
        if not last or last[0].running is not running:
            used, own = torch.unique(pair[running], return_inverse=True)
            far = is_distance[running]
            halves = (far.nonzero()[:, 0], (~far).nonzero()[:, 0])
            last[:] = [_Which(running, used.tolist(), own, seed[running], *halves)]
        return last[0]

    def loss(weights: Weights, running: Tensor, batch: _Batch) -> tuple[Tensor, int]:
        now = which(running)
        states_of = [states.at(pairs[p][0], batch.rows[pairs[p][1]]) for p in now.used]
        found = torch.stack(states_of)[now.pair]  # [probes, sentences, words, width]
        # the constant cancels in distances but for rounding, which Adam would blow up
        found[..., -1].index_fill_(0, now.distance, 0)
        return losses(weights[0], found, now, batch), batch.rows.shape[1]

    known, judges = _Sentences.of(train), _Sentences.of(dev)
    same = [*judges.batches(seeds, 0, device)]
    matrices = first_matrices(probes, states.width, rank).to(device)
    return fitted(
        [matrices],
        loss,
        lambda epoch: known.batches(seeds, epoch, device),
        same,
        RATE,
        on_progress,
        epochs,
    )


def first_matrices(probes: Sequence[Probe], width: int, rank: int) -> Tensor:
    """Drawn by seed alone, so that layers begin alike.  # [probes, width, rank]"""
    drawn = {}
    for seed in {probe.seed for probe in probes}:
        generator = torch.Generator().manual_seed(seed)
        drawn[seed] = torch.randn(width, rank, generator=generator)
    size = (FIRST_SIZE / (width * rank)) ** 0.5
    return torch.stack([drawn[probe.seed] * size for probe in probes])


def losses(matrices: Tensor, states: Tensor, which: _Which, batch: _Batch) -> Tensor:
    """Summed over sentences: the mean miss over pairs of words, or over words.  # [probes]

    [probes, width, rank], [probes, sentences, words, width]
    """
    vectors, sizes = projected(matrices, states)
    real = batch.real[which.seed]  # [probes, sentences, words]
    number = real.sum(-1)  # [probes, sentences]
    found = torch.zeros(len(matrices), device=matrices.device)
    if len(far := which.distance):
        apart = between(vectors[far], sizes[far])
        there = real[far]
        both = there[..., None] * there[..., None, :]
        miss = ((apart - batch.distances[which.seed[far]]).abs() * both).sum((-1, -2))
        found = found.index_put((far,), (miss / number[far].square()).sum(-1))
    if len(deep := which.depth):
        miss = ((sizes[deep] - batch.depths[which.seed[deep]]).abs() * real[deep]).sum(-1)
        found = found.index_put((deep,), (miss / number[deep]).sum(-1))
    return found


def projected(matrices: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """Bh, and its squared length.  # -> [probes, sentences, words, rank], [..., words]"""
    probes, sentences, words, _ = states.shape
    vectors = (states.flatten(1, 2) @ matrices).view(probes, sentences, words, -1)
    return vectors, vectors.square().sum(-1)


def between(vectors: Tensor, sizes: Tensor) -> Tensor:
    """Squared distances of all pairs.  # [probes, sentences, words, words]"""
    products = vectors @ vectors.mT
    return sizes[..., None] + sizes[..., None, :] - 2 * products


@torch.no_grad()
def predicted(
    matrices: Tensor, states: States, probes: Sequence[Probe], trees: Sequence[Tree]
) -> NDArray[np.float64]:
    """What probes of one task make of trees of one length.

    -> [probes, trees, words, words] distances, or [probes, trees, words] depths
    """
    rows = torch.from_numpy(np.stack([tree.rows for tree in trees]))
    kinds = sorted({probe.source for probe in probes})
    found = torch.stack([states.at(source, rows) for source in kinds])
    chosen = torch.tensor([kinds.index(probe.source) for probe in probes], device=found.device)
    vectors, sizes = projected(matrices, found[chosen])
    values = between(vectors, sizes).clamp(min=0) if probes[0].task == DISTANCE else sizes
    return values.double().cpu().numpy()
