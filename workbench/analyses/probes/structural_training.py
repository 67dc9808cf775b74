"""Training of structural probes (Hewitt & Manning 2019), for all layers and seeds at once.

`|B(h_i - h_j)|^2` is fitted to the distance of two words in the tree, `|B h_i + b|^2` to the depth
of one word. The matrices of all probes are one tensor, so an epoch is a few large products;
`batched_adam` trains and stops each probe.

B could undo any linear map of the states, so their scaling does not change what B can express, but
it changes what Adam finds and how it generalises: whitening helps where outlier features or a few
large directions hide the tree, and costs points where small directions are noise. States are
therefore offered in three ways (`INPUTS`), all centred on train: *scaled* by one number, as in the
paper but for its size; *standardised*, each feature by its own spread; *whitened* in part. For each
layer and score, dev decides (`structural_probe`). Centring removes a constant from the
depths, so the probe gets a constant feature (b).

Costs: per epoch and probe, three products of words by width by rank: 1,000 sentences of 9 words, a
width of 128, a rank of 64 and 22 probes take a third of a second on one core.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.probes.batched_adam import EPOCHS, Fitted, OnProgress, Weights, fitted
from workbench.analyses.probes.dependency_trees import Tree
from workbench.analyses.probes.experiments import TreeTask
from workbench.core.machine import free_memory
from workbench.engine.batch import sent

DISTANCE: TreeTask = "distance"
INPUTS = SCALED, STANDARDISED, WHITENED = ("scaled", "standardised", "whitened")

LEARNING_RATE = 7e-3
SENTENCES = 32  # in a batch
PAIRS = 40_000  # maximum number of word pairs in a batch
FIRST_SIZE = 3.0  # approximate distances and depths at the start, for states of size 1
RIDGE = 1.0  # added to the variances of standardised states before they are whitened
SIZE = 0.3  # of the states; small initial distances generalise better
CONSTANT = 1.0  # the constant feature
ROWS = 8192  # words whitened at once


class Probe(NamedTuple):
    """One matrix: its task, the source of its states, the seed of weights and order, and how the
    states are scaled."""

    task: TreeTask
    source: int
    seed: int
    inputs: str = WHITENED


@dataclass(frozen=True)
class States:
    """States of every word, centred and scaled in each way of `INPUTS`, with a constant feature."""

    tables: Sequence[Tensor]  # [words, width] each, half precision, on the device where they fit
    whitened: Sequence[Tensor]  # the same, partly whitened
    means: Sequence[Tensor]  # [width] each, over the words of train
    factors: Mapping[str, Sequence[Tensor]]  # [] or [width] each, by inputs but whitened
    device: torch.device

    @classmethod
    def of(
        cls, tables: Sequence[Tensor], rows: NDArray[np.int64], device: torch.device
    ) -> "States":
        """States of all tables; means, spreads and correlations are over `rows`, those of train."""
        train = torch.from_numpy(rows)
        moments = [_moments(table, train) for table in tables]
        white = [whitened(table, train, *own) for table, own in zip(tables, moments, strict=True)]
        if device.type == "cuda":
            size = 2 * sum(table.numel() * table.element_size() for table in white)
            if size < free_memory(device) // 2:
                tables, white = ([table.to(device) for table in each] for each in (tables, white))
        return cls(
            tables,
            white,
            [mean.float().to(device) for mean, _ in moments],
            {
                SCALED: [
                    (SIZE / spread.square().mean().sqrt()).float().to(device)
                    for _, spread in moments
                ],
                STANDARDISED: [(SIZE / spread).float().to(device) for _, spread in moments],
            },
            device,
        )

    @property
    def width(self) -> int:
        """Width of the probes' input."""
        return self.tables[0].shape[1] + 1

    def at(self, source: int, inputs: str, rows: Tensor) -> Tensor:
        """States of these words, without the constant feature.  # [words] -> [words, width - 1]"""
        table = (self.whitened if inputs == WHITENED else self.tables)[source]
        states = table.index_select(0, sent(rows, table.device)).to(self.device).float()
        if inputs != WHITENED:
            states = states.sub_(self.means[source]).mul_(self.factors[inputs][source])
        return states


def _moments(table: Tensor, train: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and spread of each feature over train; a constant feature gets 1.  # [width] each"""
    rows_of_train = table.index_select(0, train).double()
    spread = rows_of_train.std(0, correction=0)
    return rows_of_train.mean(0), torch.where(spread > 0, spread, 1.0)


def whitened(table: Tensor, train: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """The table standardised by its train rows and partly whitened.  # [words, width], half

    A direction of the standardised states with variance v is divided by sqrt(v + RIDGE): large
    directions become similar, and directions with almost no variance stay small.
    """
    mean, spread = mean.float(), spread.float()
    standard = (table.index_select(0, train).float() - mean) / spread
    products = (standard.T @ standard).double()  # [width, width]
    variances, directions = torch.linalg.eigh(products / len(standard))
    variances = variances.clamp(min=0)
    size = (variances / (variances + RIDGE)).mean().sqrt().clamp(min=1e-6)
    turned = (
        directions / (variances + RIDGE).sqrt() @ directions.T * (SIZE / size)
    )  # [width, width]
    transform = (turned / spread[:, None]).float()
    return torch.cat(
        [((part.float() - mean) @ transform).half() for part in torch.split(table, ROWS)]
    )


class _Batch(NamedTuple):
    """Padded sentences; each seed has its own, of the same lengths."""

    rows: Tensor  # [seeds, sentences, words]
    real: Tensor  # [seeds, sentences, words], 1 or 0
    distances: Tensor  # [seeds, sentences, words, words]
    depths: Tensor  # [seeds, sentences, words]


@dataclass(frozen=True)
class _Sentences:
    """Concatenated trees, from which batches are built."""

    sizes: Tensor  # [trees]
    starts: Tensor  # [trees], index of the first word
    rows: Tensor  # [words]
    depths: Tensor  # [words]
    squares: Tensor  # [trees], index of the first distance
    distances: Tensor  # [word pairs of all trees]

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
        """Trees by length; equal lengths in a random order per seed.  # [seeds, trees]"""
        orders = []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed * 1_000 + epoch)
            shuffled = torch.randperm(len(self.sizes), generator=generator)
            orders.append(shuffled[self.sizes[shuffled].argsort(stable=True)])
        return torch.stack(orders)

    def batches(self, seeds: Sequence[int], epoch: int, device: torch.device) -> Iterable[_Batch]:
        """All trees once, in batches of similar length; the order of batches differs by epoch."""
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
        for index in torch.randperm(len(cuts), generator=generator).tolist():
            first, last = cuts[index]
            yield self.padded(order[:, first:last], device)

    def padded(self, trees: Tensor, device: torch.device) -> _Batch:
        """A padded batch of these trees.  # trees [seeds, sentences]"""
        sizes = self.sizes[trees][..., None]  # [seeds, sentences, 1]
        position = torch.arange(int(sizes.max()))
        real = position < sizes  # [seeds, sentences, words]
        words = torch.where(real, self.starts[trees][..., None] + position, 0)
        both = real[..., None] & real[..., None, :]
        cell = (
            self.squares[trees][..., None, None] + position[:, None] * sizes[..., None] + position
        )
        distances = self.distances[torch.where(both, cell, 0)]
        return _Batch(
            sent(self.rows[words], device),
            sent(real.float(), device),
            sent(distances.float(), device),
            sent(self.depths[words].float(), device),
        )


@dataclass(frozen=True)
class _RunningProbes:
    """The running probes; computed only when a probe stops, since it syncs the device."""

    running: Tensor  # [probes], indices among all
    pairs: list[int]  # [probes], indices of pairs of states and seed
    seed: Tensor  # [probes]
    constant: Tensor  # [probes], the constant feature
    distance: Tensor  # indices of the probes of distances
    depth: Tensor  # indices of the probes of depths


def trained(
    states: States,
    train: Sequence[Tree],
    dev: Sequence[Tree],
    probes: Sequence[Probe],
    rank: int,
    on_progress: OnProgress = lambda done, most: None,
    epochs: int = EPOCHS,
) -> Fitted:
    """Train the matrix of each probe.  # weights [[probes, width, rank]]"""
    seeds = sorted({probe.seed for probe in probes})
    seed_index = {seed: index for index, seed in enumerate(seeds)}
    pairs = sorted({(probe.source, probe.inputs, seed_index[probe.seed]) for probe in probes})
    pair_index = {pair: index for index, pair in enumerate(pairs)}
    device = states.device
    pair = [pair_index[p.source, p.inputs, seed_index[p.seed]] for p in probes]
    seed = torch.tensor([seed_index[p.seed] for p in probes], device=device)
    constant = constants(probes, device)

    last: list[_RunningProbes] = []

    def which(running: Tensor) -> _RunningProbes:
        if not last or last[0].running is not running:
            read = constant[running]
            far, deep = (read == 0).nonzero()[:, 0], read.nonzero()[:, 0]
            own = [pair[row] for row in running.tolist()]
            last[:] = [_RunningProbes(running, own, seed[running], read, far, deep)]
        return last[0]

    def loss(weights: Weights, running: Tensor, batch: _Batch) -> tuple[Tensor, int]:
        active = which(running)
        rows = batch.rows.flatten(1)  # [seeds, sentences * words]
        read = {each: states.at(*pairs[each][:2], rows[pairs[each][2]]) for each in {*active.pairs}}
        inputs = [read[each] for each in active.pairs]
        matrices, constants_of = weights
        vectors = projected(matrices, constants_of, inputs, active.constant)
        n_texts, length = batch.rows.shape[1:]
        vectors = vectors.view(len(inputs), n_texts, length, -1)
        return losses(vectors, active, batch), n_texts

    train_sentences, dev_sentences = _Sentences.of(train), _Sentences.of(dev)
    dev_batches = [*dev_sentences.batches(seeds, 0, device)]
    matrices = first_matrices(probes, states.width, rank).to(device)
    fit = fitted(
        [matrices[:, :-1], matrices[:, -1]],
        loss,
        lambda epoch: train_sentences.batches(seeds, epoch, device),
        dev_batches,
        LEARNING_RATE,
        on_progress,
        epochs,
    )
    return fit._replace(weights=[torch.cat([fit.weights[0], fit.weights[1][:, None]], 1)])


def first_matrices(probes: Sequence[Probe], width: int, rank: int) -> Tensor:
    """Initial matrices by seed, the same for all layers.  # [probes, width, rank]"""
    by_seed = {}
    for seed in {probe.seed for probe in probes}:
        generator = torch.Generator().manual_seed(seed)
        by_seed[seed] = torch.randn(width, rank, generator=generator)
    size = (FIRST_SIZE / (width * rank)) ** 0.5
    return torch.stack([by_seed[probe.seed] * size for probe in probes])


def projected(
    matrices: Tensor, offsets: Tensor, states: Sequence[Tensor], constant: Tensor
) -> Tensor:
    """Bh + b of every probe, b times its constant feature.  # [probes, words, rank]

    [probes, width - 1, rank], [probes, rank], [words, width - 1] each, [probes]. Probes of the same
    states share one tensor: to stack those of all probes takes longer than to multiply them.
    """
    each = zip(offsets * constant[:, None], states, matrices, strict=True)
    return torch.stack([torch.addmm(offset, own, matrix) for offset, own, matrix in each])


def constants(probes: Sequence[Probe], device: torch.device) -> Tensor:
    """The constant feature of each probe: none for distances.  # [probes]

    There it cancels except for rounding, which Adam would amplify.
    """
    own = [0.0 if probe.task == DISTANCE else CONSTANT for probe in probes]
    return torch.tensor(own, device=device)


def losses(vectors: Tensor, which: _RunningProbes, batch: _Batch) -> Tensor:
    """Sum over sentences of the mean error over word pairs, or over words.  # [probes]

    [probes, sentences, words, rank]
    """
    sizes = vectors.square().sum(-1)
    real = batch.real[which.seed]  # [probes, sentences, words]
    length = real.sum(-1)  # [probes, sentences]
    total = torch.zeros(len(vectors), device=vectors.device)
    if len(far := which.distance):
        distances = between(vectors[far], sizes[far])
        real_pairs = real[far][..., None] * real[far][..., None, :]
        error = ((distances - batch.distances[which.seed[far]]).abs() * real_pairs).sum((-1, -2))
        total = total.index_put((far,), (error / length[far].square()).sum(-1))
    if len(deep := which.depth):
        error = ((sizes[deep] - batch.depths[which.seed[deep]]).abs() * real[deep]).sum(-1)
        total = total.index_put((deep,), (error / length[deep]).sum(-1))
    return total


def between(vectors: Tensor, sizes: Tensor) -> Tensor:
    """Squared distances of all pairs.  # [probes, sentences, words, words]"""
    products = vectors @ vectors.mT
    return sizes[..., None] + sizes[..., None, :] - 2 * products


@torch.no_grad()
def predicted(
    matrices: Tensor, states: States, probes: Sequence[Probe], trees: Sequence[Tree]
) -> NDArray[np.float64]:
    """Predictions of probes of one task for trees of one length.

    -> [probes, trees, words, words] distances, or [probes, trees, words] depths
    """
    rows = torch.from_numpy(np.stack([tree.rows for tree in trees]))
    sources = {(probe.source, probe.inputs) for probe in probes}
    by_source = {source: states.at(*source, rows.flatten()) for source in sources}
    inputs = [by_source[probe.source, probe.inputs] for probe in probes]
    constant = constants(probes, matrices.device)
    vectors = projected(matrices[:, :-1], matrices[:, -1], inputs, constant)
    vectors = vectors.view(len(inputs), *rows.shape, -1)
    sizes = vectors.square().sum(-1)
    values = between(vectors, sizes).clamp(min=0) if probes[0].task == DISTANCE else sizes
    return values.double().cpu().numpy()
