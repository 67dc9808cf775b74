"""The structural probe of Hewitt and Manning: a matrix a probe, all layers and seeds at once.

`|B(h_i - h_j)|^2` is to be the distance of two words in the tree, `|B h_i|^2` the depth of one.
Every probe is a row of one tensor of matrices, so that an epoch is a few large products. Each probe
has a rate of its own, which halves where its loss on dev does not fall; a probe that has stopped
gaining leaves the stack, and what is handed back is a copy of its weights when dev was best.

Costs, an epoch and a probe, three products of words by width by rank: 1,000 sentences of 9 words, a
width of 128, a rank of 64 and 22 probes take a third of a second on one core.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.trees import Tree

Task = Literal["distance", "depth"]
DISTANCE: Task = "distance"
B = TypeVar("B")

EPOCHS = 40  # at most
PATIENCE = 3  # epochs without gain, after which a probe is done
GAIN = 3e-3  # what counts as one, as a share of the loss
RATE = 7e-3
SENTENCES = 32  # in a batch
PAIRS = 40_000  # of words in a batch, at most
FIRST_SIZE = 3.0  # what distances and depths are about, before anything is learnt


# --- many probes at once --------------------------------------------------------------------------

Weights = Sequence[Tensor]  # [probes, ...] each
Loss = Callable[[Weights, Tensor, B], tuple[Tensor, int]]
Told = Callable[[int, int], object]  # epochs done, and at most


class Fitted(NamedTuple):
    """Each probe as it was when dev was best."""

    weights: list[Tensor]  # [probes, ...] each
    losses: Tensor  # [probes], on dev
    epochs: Tensor  # [probes], how many it took


class Best:
    """The lowest loss of each probe, and a copy of its weights then."""

    def __init__(self, weights: Weights) -> None:
        probes = len(weights[0])
        self.weights = [part.detach().clone() for part in weights]
        self.losses = torch.full((probes,), torch.inf, device=weights[0].device)
        self.epochs = torch.zeros(probes, dtype=torch.long, device=weights[0].device)

    def see(self, which: Tensor, losses: Tensor, weights: Weights, epoch: int) -> Tensor:
        """Keep the better ones of these probes; which of them gained enough.  # [these], bool"""
        before = self.losses[which]
        gained = losses < before * (1 - GAIN)
        better = losses < before
        chosen = which[better]
        self.losses[chosen] = losses[better]
        self.epochs[chosen] = epoch
        for kept, part in zip(self.weights, weights, strict=True):
            kept[chosen] = part.detach()[better]  # copied: what is trained goes on changing
        return gained


@dataclass
class _Adam:
    """Adam over parts of a stack, with a rate for each probe."""

    weights: list[Tensor]
    rates: Tensor  # [probes]
    first: list[Tensor]
    second: list[Tensor]
    steps: int = 0

    @classmethod
    def over(cls, weights: Weights, rate: float) -> "_Adam":
        own = [part.detach().clone().requires_grad_() for part in weights]
        rates = torch.full((len(own[0]),), rate, device=own[0].device)
        empty = [[torch.zeros_like(part) for part in weights] for _ in range(2)]
        return cls(own, rates, empty[0], empty[1])

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        self.steps += 1
        first, second = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        lists = zip(self.weights, gradients, self.first, self.second, strict=True)
        for part, slope, mean, square in lists:
            mean.lerp_(slope, 0.1)
            square.mul_(0.999).addcmul_(slope, slope, value=0.001)
            rates = (self.rates / first).view(-1, *[1] * (part.ndim - 1))
            part.sub_(rates * mean / ((square / second).sqrt() + 1e-8))

    @torch.no_grad()
    def keep(self, chosen: Tensor) -> None:
        """Only these probes go on.  # [probes], bool"""
        self.weights = [part.detach()[chosen].requires_grad_() for part in self.weights]
        self.first = [part[chosen] for part in self.first]
        self.second = [part[chosen] for part in self.second]
        self.rates = self.rates[chosen]


def fitted(
    weights: Weights,
    loss: "Loss[B]",
    train: Callable[[int], Iterable[B]],
    dev: Sequence[B],
    rate: float,
    told: Told = lambda done, most: None,
    epochs: int = EPOCHS,
) -> Fitted:
    """Train every probe of a stack until it stops gaining on dev.

    `loss` is given the weights of the probes that still run, which ones they are, and a batch; it
    returns each one's sum over the batch, [probes], and how many were summed. `train` makes the
    batches of an epoch.
    """
    best, adam = Best(weights), _Adam.over(weights, rate)
    running = torch.arange(len(weights[0]), device=weights[0].device)
    stale = torch.zeros_like(running)
    for epoch in range(1, epochs + 1):
        for batch in train(epoch):
            sums, number = loss(adam.weights, running, batch)
            adam.step(torch.autograd.grad(sums.sum() / max(number, 1), adam.weights))
        with torch.no_grad():
            found = [loss(adam.weights, running, batch) for batch in dev]
            total = torch.stack([sums for sums, _ in found]).sum(0)
            losses = total / max(sum(number for _, number in found), 1)
        gained = best.see(running, losses, adam.weights, epoch)
        stale = torch.where(gained, 0, stale + 1)
        adam.rates = torch.where(gained, adam.rates, adam.rates / 2)
        goes_on = stale < PATIENCE
        told(epoch, epochs)
        if not bool(goes_on.all()):
            running, stale = running[goes_on], stale[goes_on]
            adam.keep(goes_on)
        if not len(running):
            break
    told(epochs, epochs)
    return Fitted(best.weights, best.losses, best.epochs)


# --- the probe ------------------------------------------------------------------------------------


class Probe(NamedTuple):
    """One matrix: what it is to tell, from which states, drawn and shuffled by which seed."""

    task: Task
    source: int
    seed: int


@dataclass(frozen=True)
class States:
    """Tables of states of every word, each dimension by its size on train, which B could undo."""

    tables: Sequence[Tensor]  # [words, width] each, on the device where they fit
    sizes: Tensor  # [sources, width]

    @property
    def device(self) -> torch.device:
        return self.sizes.device

    @classmethod
    def of(
        cls, tables: Sequence[Tensor], rows: NDArray[np.int64], device: torch.device
    ) -> "States":
        """Sizes are root mean squares over `rows`, which are those of train."""
        chosen = torch.from_numpy(rows)
        found = []
        for table in tables:
            square = table[chosen].float().square().mean(0)
            found.append(torch.where(square > 0, square.sqrt(), 1.0))
        sizes = torch.stack(found).to(device)
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if sum(table.numel() * table.element_size() for table in tables) < free // 2:
                tables = [table.to(device) for table in tables]
        return cls(tables, sizes)

    def at(self, source: int, rows: Tensor) -> Tensor:
        """States of these words.  # [...] -> [..., width]"""
        table = self.tables[source]
        found = table[rows.to(table.device)]
        return found.to(self.device).float() / self.sizes[source]


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
            self.rows[words].to(device),
            real.float().to(device),
            distances.float().to(device),
            self.depths[words].float().to(device),
        )


def trained(
    states: States,
    train: Sequence[Tree],
    dev: Sequence[Tree],
    probes: Sequence[Probe],
    rank: int,
    told: Told = lambda done, most: None,
    epochs: int = EPOCHS,
) -> Tensor:
    """The matrix of each probe.  # [probes, width, rank]"""
    seeds = sorted({probe.seed for probe in probes})
    place = {seed: number for number, seed in enumerate(seeds)}
    pairs = sorted({(probe.source, place[probe.seed]) for probe in probes})
    of_pair = {pair: number for number, pair in enumerate(pairs)}
    device = states.device
    pair = torch.tensor([of_pair[p.source, place[p.seed]] for p in probes], device=device)
    seed = torch.tensor([place[p.seed] for p in probes], device=device)
    is_distance = torch.tensor([p.task == DISTANCE for p in probes], device=device)

    def loss(weights: Weights, running: Tensor, batch: _Batch) -> tuple[Tensor, int]:
        used, at = torch.unique(pair[running], return_inverse=True)
        states_of = [states.at(pairs[p][0], batch.rows[pairs[p][1]]) for p in used.tolist()]
        found = torch.stack(states_of)[at]  # [probes, sentences, words, width]
        sums = losses(weights[0], found, is_distance[running], batch, seed[running])
        return sums, batch.rows.shape[1]

    known, judges = _Sentences.of(train), _Sentences.of(dev)
    same = [*judges.batches(seeds, 0, device)]
    matrices = first_matrices(probes, states.sizes.shape[1], rank).to(device)
    return fitted(
        [matrices],
        loss,
        lambda epoch: known.batches(seeds, epoch, device),
        same,
        RATE,
        told,
        epochs,
    ).weights[0]


def first_matrices(probes: Sequence[Probe], width: int, rank: int) -> Tensor:
    """Drawn by seed alone, so that layers begin alike.  # [probes, width, rank]"""
    drawn = {}
    for seed in {probe.seed for probe in probes}:
        generator = torch.Generator().manual_seed(seed)
        drawn[seed] = torch.randn(width, rank, generator=generator)
    size = (FIRST_SIZE / (width * rank)) ** 0.5
    return torch.stack([drawn[probe.seed] * size for probe in probes])


def losses(
    matrices: Tensor, states: Tensor, is_distance: Tensor, batch: _Batch, seed: Tensor
) -> Tensor:
    """Summed over sentences: the mean miss over pairs of words, or over words.  # [probes]

    [probes, width, rank], [probes, sentences, words, width], [probes], and a place in the batch's
    seeds for each probe
    """
    vectors, sizes = projected(matrices, states)
    real = batch.real[seed]  # [probes, sentences, words]
    number = real.sum(-1)  # [probes, sentences]
    found = torch.zeros(len(matrices), device=matrices.device)
    if bool(is_distance.any()):
        own = seed[is_distance]
        apart = between(vectors[is_distance], sizes[is_distance])
        there = real[is_distance]
        both = there[..., None] * there[..., None, :]
        miss = ((apart - batch.distances[own]).abs() * both).sum((-1, -2))
        found = found.index_put((is_distance,), (miss / number[is_distance].square()).sum(-1))
    is_depth = ~is_distance
    if bool(is_depth.any()):
        miss = ((sizes[is_depth] - batch.depths[seed[is_depth]]).abs() * real[is_depth]).sum(-1)
        found = found.index_put((is_depth,), (miss / number[is_depth]).sum(-1))
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
