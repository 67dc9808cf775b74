"""Linear probes of single layers, trained to their optimum: logistic regression with a ridge.

The problem is convex, so it has one solution: no seed, no learning rate, no early stopping. All
ridge strengths, the task and its control task share the features of a layer, so a step is two
matrix products for all of them. Each strength is solved roughly, the best two on dev are trained to
the optimum for each probe, and the better of these is chosen. Features are standardised and rotated
to their principal axes. This does not change the ridge, and makes the curvature nearly diagonal:
L-BFGS with that diagonal needs tens of steps, where plain gradient methods need thousands for
features of very different scales.

Costs: per step and layer, 4 · targets · features · labels · probes · strengths operations, and one
eigendecomposition of features by features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from workbench.analyses.probes.batched_adam import minimised
from workbench.analyses.probes.probe_training import (
    Data,
    Probe,
    Trained,
    controls_of,
    count_labels,
    f1,
    linear_probes,
    mean_pooled_sides,
    target_losses,
    wide,
)
from workbench.analyses.probes.representations import Bank

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # C of scikit-learn: 1 / (targets · ridge)
FINALISTS = 2  # strengths that are trained to the optimum
STEPS = 200
ROUGH, TOLERANCE = 3e-3, 3e-4  # largest preconditioned gradient: to choose a ridge, at the optimum
CURVATURE = 0.1  # approximate curvature of a target's loss by a logit, for the preconditioner
FLAT = 1e-7  # relative to the largest principal axis; axes with less variance are left out
CHUNK = 4_096


def logistic(
    bank: Bank,
    probes: Sequence[Probe],
    train: Data,
    dev: Data,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> Trained:
    """Each of `probes` with its best ridge strength; every probe reads one layer."""
    sources = sorted({probe.sources[0] for probe in probes})
    sides, labels = len(train.spans), train.labels.shape[2]
    weights = torch.zeros(len(probes), sides * bank.width, labels, device=bank.device)
    bias = torch.zeros(len(probes), labels, device=bank.device)
    converged = torch.zeros(len(probes), dtype=torch.bool, device=bank.device)
    steps = 0
    for done, source in enumerate(sources):
        rows = [row for row, probe in enumerate(probes) if probe.sources[0] == source]
        control = controls_of([probes[row] for row in rows], bank.device)
        layer_probes = _train_layer(bank.only(source), control, train, dev if len(dev) else train)
        weights[rows], bias[rows] = layer_probes.weights, layer_probes.bias
        converged[rows] = layer_probes.converged
        steps = max(steps, layer_probes.steps)
        on_progress(sum(probe.sources[0] in sources[: done + 1] for probe in probes), len(probes))
    out = wide(weights.view(len(probes), sides, bank.width, labels))
    return linear_probes(bank, probes, out, bias, converged, steps)


@dataclass(frozen=True)
class _LayerProbes:
    """The chosen probes of one layer, on its standardised states."""

    weights: Tensor  # [probes, features, labels]
    bias: Tensor  # [probes, labels]
    converged: Tensor  # [probes]
    steps: int


def _train_layer(bank: Bank, control: Tensor, train: Data, dev: Data) -> _LayerProbes:
    """Choose the ridge strength of each probe of a layer and train it to the optimum."""
    features = mean_pooled_sides(bank, train.spans)[0]  # [n, features]
    mean = features.mean(0)
    deviation = features.std(0, correction=0)
    scale = torch.where(deviation > 0, 1 / deviation, 0.0)
    features.sub_(mean).mul_(scale)
    axes, size = _principal_axes(features)  # [features, axes], [axes]
    features = features @ axes
    n_targets, probes = len(train), len(control)
    ridge = torch.tensor([1 / (n_targets * c) for c in STRENGTHS], device=bank.device)
    ridge = ridge.repeat(probes)  # [problems]: each strength for each probe
    of_problem = control.repeat_interleave(len(STRENGTHS))
    problem = _Problem(features, train.labels.to(bank.device), size, train.softmax)
    rough = problem.minimised(of_problem, ridge, ROUGH)

    def on_states(optimum: _Optimum) -> tuple[Tensor, Tensor]:
        """Weights and bias for the bank's states, from those of standardised principal axes."""
        weights = (axes @ optimum.weights[:, 1:]) * scale[:, None]  # [problems, features, labels]
        return weights, optimum.weights[:, 0] - torch.einsum("f,pfl->pl", mean, weights)

    def ranked(optimum: _Optimum, of_problem: Tensor) -> Tensor:
        """Each probe's problems, best on dev first.  # [probes, problems of each]"""
        score, loss = _scored(bank, *on_states(optimum), of_problem, dev)
        by_loss = loss.view(probes, -1).argsort(stable=True)
        by_score = score.view(probes, -1).gather(1, by_loss).argsort(stable=True, descending=True)
        return by_loss.gather(1, by_score)

    probe_rows = torch.arange(probes, device=bank.device)[:, None]
    best = ranked(rough, of_problem)[:, :FINALISTS] + len(STRENGTHS) * probe_rows
    of_finalist = control.repeat_interleave(best.shape[1])
    rows = best.flatten()
    exact = problem.minimised(of_finalist, ridge[rows], TOLERANCE, rough.weights[rows])
    won = (ranked(exact, of_finalist)[:, :1] + best.shape[1] * probe_rows)[:, 0]
    weights, bias = on_states(exact)
    return _LayerProbes(weights[won], bias[won], exact.converged[won], rough.steps + exact.steps)


def _principal_axes(features: Tensor) -> tuple[Tensor, Tensor]:
    """Principal axes of the features, and their variances.  # [features, axes], [axes]"""
    gram = (features.T @ features).double() / len(features)
    size, axes = torch.linalg.eigh(gram)
    varies = size > FLAT * size[-1].clamp(min=torch.finfo(torch.float).tiny)
    return axes[:, varies].float(), size[varies].float()


def _scored(
    bank: Bank, weights: Tensor, bias: Tensor, control: Tensor, dev: Data
) -> tuple[Tensor, Tensor]:
    """Micro-F1 and loss on dev.  # [problems], [problems]"""
    counts = torch.zeros(len(weights), 3, dtype=torch.long, device=bank.device)
    loss = torch.zeros(len(weights), device=bank.device)
    for indices in torch.split(torch.arange(len(dev)), CHUNK):
        part = dev.take(indices)
        logits = (
            mean_pooled_sides(bank, part.spans)[0] @ weights + bias[:, None]
        )  # [problems, n, labels]
        counts += count_labels(logits, part, control).sum(1)
        loss += target_losses(logits, part, control).sum(1)
    return f1(counts), loss / len(dev)


class _Problem:
    """Mean loss + ridge / 2 · |weights|² of many probes on the same features; the bias is free."""

    def __init__(self, features: Tensor, labels: Tensor, size: Tensor, softmax: bool) -> None:
        """features [n, features], labels [2, n, labels], size [features]: their variances"""
        self.inputs = torch.cat([torch.ones_like(features[:, :1]), features], dim=1)
        self.labels, self.size, self.softmax = labels, size, softmax
        self.gold = labels.int().argmax(2)  # [2, n], for softmax

    def minimised(
        self, control: Tensor, ridge: Tensor, tolerance: float, start: Tensor | None = None
    ) -> "_Optimum":
        """The optimum of each probe; control, ridge [problems], start [problems, 1 + f, labels].

        L-BFGS gets the weights divided by `root`, so that the curvature along each is nearly 1.
        """
        labels = self.labels.shape[2]
        curved = CURVATURE * torch.cat([torch.ones_like(self.size[:1]), self.size])
        decay = (
            torch.cat([torch.zeros_like(ridge[:1]), torch.ones_like(self.size)]) * ridge[:, None]
        )
        root = (curved + decay).rsqrt()[..., None]  # [problems, 1 + features, 1]
        shape = (len(ridge), len(curved), labels)
        first = root.new_zeros(shape) if start is None else start / root

        def objective(rows: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            weights = rows.view(-1, *shape[1:]) * root[which]
            value, gradient = self._objective(weights, control[which], ridge[which])
            return value, (gradient * root[which]).flatten(1)

        minimum = minimised(objective, first.flatten(1), tolerance, STEPS)
        return _Optimum(minimum.weights.view(shape) * root, minimum.converged, minimum.steps)

    def _objective(self, at: Tensor, control: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
        """Objective and gradient.  # [problems, 1 + features, labels] -> [problems], likewise"""
        n_targets, labels = len(self.inputs), self.labels.shape[2]
        weights = at.transpose(0, 1).flatten(1)  # [1 + features, problems * labels]
        logits = (self.inputs @ weights).view(n_targets, -1, labels)  # [n, problems, labels]
        if self.softmax:
            gold = self.gold[control].T[..., None]  # [n, problems, 1]
            log = logits.log_softmax(2)
            loss = -log.gather(2, gold)[..., 0].mean(0)
            residual = log.exp_().scatter_add_(2, gold, log.new_full((), -1.0).expand_as(gold))
        else:
            truth = self.labels[control].transpose(0, 1).to(logits.dtype)
            each = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
            loss = each.sum(2).mean(0)
            residual = logits.sigmoid_().sub_(truth)
        gradient = (self.inputs.T @ residual.flatten(1)).view(-1, *residual.shape[1:]) / n_targets
        gradient = gradient.transpose(0, 1).contiguous()  # [problems, 1 + features, labels]
        decay = ridge[:, None, None] * at[:, 1:]
        gradient[:, 1:] += decay
        return loss.double() + 0.5 * (decay * at[:, 1:]).sum((1, 2)).double(), gradient


class _Optimum(NamedTuple):
    weights: Tensor  # [problems, 1 + features, labels], the bias first
    converged: Tensor  # [problems]
    steps: int
