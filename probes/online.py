"""The online code (Voita & Titov 2020): labels sent block by block, each by what came before it.

The first block is sent by the uniform code; every other by a probe trained anew on all the blocks
before it, which the receiver has and can train alike. A probe is kept as it was in the epoch that
codes dev best: a code is paid by the loss, so a score must not choose it. All probes of a stack
(layers, baselines, control tasks) train together. Costs one training a block: with blocks that
double, about as much as two trainings on all targets, and a look at dev each epoch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from probes.bank import Bank
from probes.kinds import KindName
from probes.stack import Data, Probe, Schedule, Trained, nats_of, outputs, train

PORTIONS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25.0, 50.0, 100.0)  # per cent


def ends_of(number: int, portions: Sequence[float]) -> tuple[int, ...]:
    """How many targets are sent with each block; empty and equal portions are merged."""
    ends = {round(number * share / 100) for share in portions} | {number}
    return tuple(sorted(end for end in ends if end > 0))


def order_of(number: int, seed: int) -> Tensor:
    """The order in which targets are sent.  # [n]"""
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed))


def uniform_bits(data: Data) -> float:
    """What one target costs where nothing is known of it: one of the labels, or each or not."""
    labels = data.labels.shape[2]
    return math.log2(labels) if data.softmax else float(labels)


def frequency_bits(data: Data) -> float:
    """The whole code of an adaptive code that knows how often labels came so far, and no states.

    Krichevsky and Trofimov's estimate: half a target of each kind before the first.
    """
    labels = data.labels[0].double()  # [n, labels]
    counts = labels.cumsum(0) - labels  # of each label before each target
    before = torch.arange(len(labels), dtype=torch.double)[:, None]
    if data.softmax:
        share = (counts + 0.5) / (before + labels.shape[1] / 2)
        return float(-torch.log2(share[labels.bool()]).sum())
    share = (counts + 0.5) / (before + 1)
    return float(-torch.log2(torch.where(labels.bool(), share, 1 - share)).sum())


def coded(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    learnt: Data,
    dev: Data,
    ends: Sequence[int],
    schedule: Schedule,
    seed: int,
    told: Callable[[int, int], object] = lambda done, total: None,
) -> tuple[Tensor, Trained | None]:
    """Nats of each target of `learnt`, which is in the order of sending; the first block's are 0.

    -> [probes, n], and the probe that sent the last block, if any did
    """
    control = torch.tensor([int(probe.control) for probe in probes], device=bank.device)
    nats = torch.zeros(len(probes), len(learnt), device=bank.device)
    schedule = replace(schedule, by_loss=True)
    trained = None
    for first, last in pairwise(ends):
        known = learnt.take(torch.arange(first))
        trained = train(kind, hidden, bank, probes, known, dev, schedule, seed)
        block = learnt.take(torch.arange(first, last))
        own, reads = trained.own, trained.reads
        for places, said in outputs(trained.shape, own, reads, bank, block.spans):
            part = block.take(places)
            nats[:, first + places.to(nats.device)] = nats_of(said, part, control)
        told(last, len(learnt))
    return nats, trained
