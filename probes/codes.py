"""The online code (Voita & Titov 2020): labels sent block by block, each by what came before it.

The first block is sent by the uniform code; every other by a probe trained anew on all the blocks
before it, which the receiver has and can train alike. A probe is kept as it was in the epoch that
codes dev best: a code is paid by the loss, so a score must not choose it. All probes of a stack
(layers, baselines, control tasks) train together. Costs one training a block: with blocks that
double, about as much as two trainings on all targets, and a look at dev each epoch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from probes.batched_adam import Parameters
from probes.experiments import KindName
from probes.probe_training import (
    Data,
    Probe,
    Schedule,
    Trained,
    averaged_sides,
    controls_of,
    nats_of,
    outputs,
    train,
)
from probes.representations import Bank
from workbench.core.errors import WorkbenchError


def ends_of(number: int, portions: Sequence[float]) -> tuple[int, ...]:
    """How many targets are sent with each block; empty and equal portions are merged."""
    ends = {round(number * share / 100) for share in portions} | {number}
    return tuple(sorted(end for end in ends if end > 0))


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


def prequential_code(
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
    control = controls_of(probes, bank.device)
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


# --- variational ----------------------------------------------------------------------------------
#
# The variational code (Voita & Titov 2020): what a Bayesian probe costs to send, and its labels.
#
# A layer is a group-sparse one (Louizos et al. 2017): each input is scaled by z ~ N(m, v), each
# weight is ~ N(mu, sigma²) under a prior N(0, 1). The code is the divergence of all this from its
# prior, by Molchanov's approximation for z, plus the expected cross-entropy of the train labels.
# Probes lie side by side in stacked tensors and see the same batches and the same noise, so each
# is as if it were alone. Nothing is held out and nothing stops early: the code is what is
# minimised, at a rate that falls to nought. Costs, a step, two products of batch by inputs by
# outputs a layer and probe, and twice that back; three numbers in memory for each of their
# numbers, two a weight.

K1, K2, K3 = 0.63576, 1.87320, 1.48695  # of Molchanov's approximation
TINY = 1e-8
RATE = 0.1  # at the start: variances have far to go
BATCH = 256
SPREAD = -4.0  # log of the variances at the start
WARM = 0.3  # of all steps, over which the divergence comes to count in full
SAMPLES = 4  # draws of the noise, over which cross-entropy is averaged
CHUNK = 1_024  # targets at once, when nothing is learnt
Layers = list[Parameters]  # of each: [probes, ...]
Noise = Callable[[Tensor], Tensor]  # as much as the last two dimensions of this


@dataclass(frozen=True)
class Bayesian:
    """Bayesian probes that were trained."""

    probes: tuple[Probe, ...]
    layers: Layers


def drawn(sizes: Sequence[int], seed: int) -> Layers:
    """One probe before it has learnt, drawn from its seed alone.  # no probes in front"""
    random = torch.Generator().manual_seed(seed)
    return [
        {
            "scale": torch.ones(inputs),
            "scale_spread": torch.full((inputs,), SPREAD),  # log variances
            "weight": torch.randn(inputs, outputs, generator=random) / math.sqrt(inputs),
            "weight_spread": torch.full((inputs, outputs), SPREAD),
            "bias": torch.zeros(outputs),
            "bias_spread": torch.full((outputs,), SPREAD),
        }
        for inputs, outputs in pairwise(sizes)
    ]


def divergence(layers: Layers) -> Tensor:
    """KL(posterior ‖ prior) of each probe, in nats.  # [probes]"""
    total = torch.zeros(())
    for layer in layers:
        alpha = layer["scale_spread"] - torch.log(layer["scale"] ** 2 + TINY)  # log variance / m²
        scales = K1 - K1 * torch.sigmoid(K2 + K3 * alpha) + functional.softplus(-alpha) / 2
        total = total + scales.sum(1)
        for name in ("weight", "bias"):
            mean, spread = layer[name].flatten(1), layer[f"{name}_spread"].flatten(1)
            total = total + (spread.exp() + mean**2 - spread - 1).sum(1) / 2
    return total


def said(layers: Layers, inputs: Tensor, noise: Noise | None = None) -> Tensor:
    """Logits; without noise, of the means.  # [probes, batch, inputs] -> [probes, batch, labels]"""
    values = inputs
    for place, layer in enumerate(layers):
        if place:
            values = functional.relu(values)
        scale = layer["scale"][:, None]  # [probes, 1, inputs]
        if noise is not None:
            scale = scale + (layer["scale_spread"] / 2).exp()[:, None] * noise(values)
        values = values * scale
        mean = torch.baddbmm(layer["bias"][:, None], values, layer["weight"])
        if noise is None:
            values = mean
            continue
        spread = layer["weight_spread"].exp()  # local reparametrisation: of sums, not of weights
        variance = torch.baddbmm(layer["bias_spread"].exp()[:, None], values**2, spread)
        values = mean + variance.sqrt() * noise(mean)
    return values


def learnt(
    hidden: int | None,
    bank: Bank,
    probes: Sequence[Probe],
    data: Data,
    steps: int,
    seed: int,
    told: Callable[[int, int], object] = lambda done, total: None,
) -> Bayesian:
    """Minimise the code of each probe; one hidden layer of this width, or none."""
    device = bank.device
    sizes = [bank.width * len(data.spans), *([hidden] if hidden else []), data.labels.shape[2]]
    layers = [
        {
            name: value.to(device).repeat(len(probes), *[1] * value.ndim).requires_grad_()
            for name, value in layer.items()
        }
        for layer in drawn(sizes, seed)
    ]
    control = controls_of(probes, device)
    learning = [value for layer in layers for value in layer.values()]
    fused = device.type in ("cpu", "cuda")
    optimiser = torch.optim.Adam(learning, lr=RATE, fused=fused)
    noise = _noise(device, seed)
    for step, places in enumerate(_batches(len(data), BATCH, steps, seed)):
        part = data.take(places)
        nats = nats_of(said(layers, _inputs(bank, probes, part), noise), part, control).mean(1)
        weight = min(1.0, (step + 1) / max(1.0, WARM * steps)) / len(data)
        loss = (nats + weight * divergence(layers)).sum()
        optimiser.param_groups[0]["lr"] = RATE * (1 + math.cos(math.pi * step / steps)) / 2
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        told(step + 1, steps)
    for layer in layers:
        for name, value in layer.items():
            layer[name] = value.detach()
    if not bool(divergence(layers).isfinite().all()):
        raise WorkbenchError(
            "a Bayesian probe's loss went astray.",
            remedy="Give a lower rate of the variational code.",
        )
    return Bayesian(tuple(probes), layers)


def variational_code(found: Bayesian, bank: Bank, data: Data, seed: int) -> Tensor:
    """What each label costs in expectation over the posterior, in nats.  # [probes, n]"""
    control, noise = controls_of(found.probes, bank.device), _noise(bank.device, seed)
    rows = []
    with torch.no_grad():
        for places in torch.split(torch.arange(len(data)), CHUNK):
            part = data.take(places)
            inputs = _inputs(bank, found.probes, part)
            draws = [
                nats_of(said(found.layers, inputs, noise), part, control) for _ in range(SAMPLES)
            ]
            rows.append(torch.stack(draws).mean(0))
    return torch.cat(rows, dim=1)


def variational_outputs(found: Bayesian, bank: Bank, data: Data) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits of the posterior's means.  # places [some], [probes, some, labels]"""
    with torch.no_grad():
        for places in torch.split(torch.arange(len(data)), CHUNK):
            yield places, said(found.layers, _inputs(bank, found.probes, data.take(places)))


def _inputs(bank: Bank, probes: Sequence[Probe], data: Data) -> Tensor:
    """The mean of each span's words, sides beside each other.  # [probes, n, sides * width]"""
    places = torch.tensor([probe.sources[0] for probe in probes], device=bank.device)
    return averaged_sides(bank, data.spans).index_select(0, places)


def _noise(device: torch.device, seed: int) -> Noise:
    """Standard normal, shared by the probes of a seed."""
    random = torch.Generator(device).manual_seed(seed)
    return lambda like: torch.randn(like.shape[1:], generator=random, device=device)


def _batches(number: int, batch: int, steps: int, seed: int) -> Iterator[Tensor]:
    """So many batches, pass after pass in a new order."""
    random = torch.Generator().manual_seed(seed)
    done = 0
    while done < steps:
        for places in torch.split(torch.randperm(number, generator=random), batch):
            if done == steps:
                return
            yield places
            done += 1
