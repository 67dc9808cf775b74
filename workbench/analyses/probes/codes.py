"""The online and the variational code of labels (Voita & Titov 2020).

Online: the first block of targets is sent with the uniform code. Each later block is sent with a
probe newly trained on all blocks before it; the receiver has these and can train the same probe.
The epoch with the lowest dev loss is kept, since the code length is a loss. All probes of a stack
(layers, baselines, control tasks) train together. Costs: one training per block; with blocks that
double, about two trainings on all targets, and one pass over dev per epoch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from workbench.analyses.probes.batched_adam import OnProgress, Parameters
from workbench.analyses.probes.experiments import KindName
from workbench.analyses.probes.probe_training import (
    Data,
    Probe,
    Schedule,
    Trained,
    controls_of,
    mean_pooled_sides,
    outputs,
    target_losses,
    train,
)
from workbench.analyses.probes.representations import Bank
from workbench.core.errors import WorkbenchError


def ends_of(n_targets: int, portions: Sequence[float]) -> tuple[int, ...]:
    """Number of targets sent up to the end of each block; empty and equal portions are merged."""
    ends = {round(n_targets * share / 100) for share in portions} | {n_targets}
    return tuple(sorted(end for end in ends if end > 0))


def uniform_bits(data: Data) -> float:
    """Bits of one target in the uniform code: log2 of the labels, or one bit per label."""
    labels = data.labels.shape[2]
    return math.log2(labels) if data.softmax else float(labels)


def frequency_bits(data: Data) -> float:
    """Bits of all targets in an adaptive code that uses label frequencies so far, and no states.

    Krichevsky and Trofimov's estimate: each count starts at 1/2.
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
    train_data: Data,
    dev: Data,
    ends: Sequence[int],
    schedule: Schedule,
    seed: int,
    on_progress: OnProgress = lambda done, total: None,
) -> tuple[Tensor, Trained | None]:
    """Nats of each target of `train_data`, which is in sending order; 0 for the first block.

    -> [probes, n], and the probe that sent the last block; None with one block
    """
    control = controls_of(probes, bank.device)
    nats = torch.zeros(len(probes), len(train_data), device=bank.device)
    schedule = replace(schedule, by_loss=True)
    trained = None
    for first, last in pairwise(ends):
        before = train_data.take(torch.arange(first))
        trained = train(kind, hidden, bank, probes, before, dev, schedule, seed)
        block = train_data.take(torch.arange(first, last))
        chunks = outputs(trained.shape, trained.parameters, trained.reads, bank, block.spans)
        for indices, logits in chunks:
            part = block.take(indices)
            nats[:, first + indices.to(nats.device)] = target_losses(logits, part, control)
        on_progress(last, len(train_data))
    return nats, trained


# --- variational ----------------------------------------------------------------------------------
#
# The variational code (Voita & Titov 2020): the cost of a Bayesian probe, plus that of the labels.
#
# A layer is group-sparse (Louizos et al. 2017): each input is scaled by z ~ N(m, v), and each
# weight is ~ N(mu, sigma²) with the prior N(0, 1). The code is the KL divergence of the posterior
# from the prior, with Molchanov's approximation for z, plus the expected cross-entropy of the
# train labels. Probes are stacked in tensors and see the same batches and the same noise, so each
# trains as if alone. There is no held-out data and no early stopping: training minimises the code
# itself, with a learning rate that falls to zero. Costs: per step, two products of batch by
# inputs by outputs per layer and probe, and twice that backward; in memory, three numbers per
# parameter, and two parameters per weight.

K1, K2, K3 = 0.63576, 1.87320, 1.48695  # of Molchanov's approximation
TINY = 1e-8
LEARNING_RATE = 0.1  # at the start: variances must change a lot
BATCH = 256
SPREAD = -4.0  # log of the variances at the start
WARMUP = 0.3  # share of steps in which the weight of the divergence rises to 1
SAMPLES = 4  # noise samples over which the cross-entropy is averaged
CHUNK = 1_024  # targets at once, without training
Layers = list[Parameters]  # [probes, ...] each
Noise = Callable[[Tensor], Tensor]  # noise in the shape of the last two dimensions


@dataclass(frozen=True)
class Bayesian:
    """Trained Bayesian probes."""

    probes: tuple[Probe, ...]
    layers: Layers


def initial_layers(sizes: Sequence[int], seed: int) -> Layers:
    """One probe's initial parameters, which depend only on its seed.  # no probe dimension"""
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


def bayesian_logits(layers: Layers, inputs: Tensor, noise: Noise | None = None) -> Tensor:
    """Logits; without noise, from the posterior means.

    [probes, batch, inputs] -> [probes, batch, labels]
    """
    values = inputs
    for index, layer in enumerate(layers):
        if index:
            values = functional.relu(values)
        scale = layer["scale"][:, None]  # [probes, 1, inputs]
        if noise is not None:
            scale = scale + (layer["scale_spread"] / 2).exp()[:, None] * noise(values)
        values = values * scale
        mean = torch.baddbmm(layer["bias"][:, None], values, layer["weight"])
        if noise is None:
            values = mean
            continue
        spread = layer[
            "weight_spread"
        ].exp()  # local reparametrisation: noise on sums, not on weights
        variance = torch.baddbmm(layer["bias_spread"].exp()[:, None], values**2, spread)
        values = mean + variance.sqrt() * noise(mean)
    return values


def train_bayesian(
    hidden: int | None,
    bank: Bank,
    probes: Sequence[Probe],
    data: Data,
    steps: int,
    seed: int,
    on_progress: OnProgress = lambda done, total: None,
) -> Bayesian:
    """Minimise the code of each probe; `hidden` is the size of its hidden layer (None: linear)."""
    device = bank.device
    sizes = [bank.width * len(data.spans), *([hidden] if hidden else []), data.labels.shape[2]]
    layers = [
        {
            name: value.to(device).repeat(len(probes), *[1] * value.ndim).requires_grad_()
            for name, value in layer.items()
        }
        for layer in initial_layers(sizes, seed)
    ]
    control = controls_of(probes, device)
    parameters = [value for layer in layers for value in layer.values()]
    fused = device.type in ("cpu", "cuda")
    optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=fused)
    noise = _noise(device, seed)
    for step, indices in enumerate(_batches(len(data), BATCH, steps, seed)):
        part = data.take(indices)
        nats = target_losses(
            bayesian_logits(layers, _inputs(bank, probes, part), noise), part, control
        ).mean(1)
        weight = min(1.0, (step + 1) / max(1.0, WARMUP * steps)) / len(data)
        loss = (nats + weight * divergence(layers)).sum()
        optimiser.param_groups[0]["lr"] = LEARNING_RATE * (1 + math.cos(math.pi * step / steps)) / 2
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        on_progress(step + 1, steps)
    for layer in layers:
        for name, value in layer.items():
            layer[name] = value.detach()
    if not bool(divergence(layers).isfinite().all()):
        raise WorkbenchError(
            "the loss of a Bayesian probe diverged.",
            code="training-diverged",
            remedy="Use only the online code: --codes online.",
        )
    return Bayesian(tuple(probes), layers)


def variational_code(trained: Bayesian, bank: Bank, data: Data, seed: int) -> Tensor:
    """Expected nats of each target's labels over the posterior.  # [probes, n]"""
    control, noise = controls_of(trained.probes, bank.device), _noise(bank.device, seed)
    rows = []
    with torch.no_grad():
        for indices in torch.split(torch.arange(len(data)), CHUNK):
            part = data.take(indices)
            inputs = _inputs(bank, trained.probes, part)
            draws = [
                target_losses(bayesian_logits(trained.layers, inputs, noise), part, control)
                for _ in range(SAMPLES)
            ]
            rows.append(torch.stack(draws).mean(0))
    return torch.cat(rows, dim=1)


def variational_outputs(
    trained: Bayesian, bank: Bank, data: Data
) -> Iterator[tuple[Tensor, Tensor]]:
    """Indices and logits of the targets, from the posterior means, in chunks.

    [chunk], [probes, chunk, labels]
    """
    with torch.no_grad():
        for indices in torch.split(torch.arange(len(data)), CHUNK):
            yield (
                indices,
                bayesian_logits(trained.layers, _inputs(bank, trained.probes, data.take(indices))),
            )


def _inputs(bank: Bank, probes: Sequence[Probe], data: Data) -> Tensor:
    """Mean-pooled spans, with the sides concatenated.  # [probes, n, sides * width]"""
    sources = torch.tensor([probe.sources[0] for probe in probes], device=bank.device)
    return mean_pooled_sides(bank, data.spans).index_select(0, sources)


def _noise(device: torch.device, seed: int) -> Noise:
    """Standard normal noise, the same for all probes of a seed."""
    random = torch.Generator(device).manual_seed(seed)
    return lambda like: torch.randn(like.shape[1:], generator=random, device=device)


def _batches(n_targets: int, batch_size: int, steps: int, seed: int) -> Iterator[Tensor]:
    """`steps` batches of target indices; each epoch has a new random order."""
    random = torch.Generator().manual_seed(seed)
    done = 0
    while done < steps:
        for indices in torch.split(torch.randperm(n_targets, generator=random), batch_size):
            if done == steps:
                return
            yield indices
            done += 1
