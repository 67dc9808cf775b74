"""Linear probes of single layers, trained to their optimum: logistic regression with a ridge.

The problem is convex, so there is one answer: no seed, no learning rate, no early stopping. All
strengths of the ridge, the task and its control share the features of a layer, so that a step is
two matrix products for all of them. Every strength is solved roughly, the best on dev is chosen
probe by probe, and only that one is taken to its optimum. Features are standardised and turned to
their principal axes, which leaves the ridge as it is and makes the curvature nearly diagonal:
L-BFGS with that diagonal needs tens of steps where features of very different sizes would cost
plain gradient methods thousands.

Costs, a step and layer, 4 · targets · features · labels · probes · strengths operations, and one
eigendecomposition of features by features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from probes.batched_adam import minimised
from probes.probe_training import (
    Data,
    Probe,
    Trained,
    averaged_sides,
    controls_of,
    counted,
    f1,
    linear_probes,
    nats_of,
    wide,
)
from probes.representations import Bank

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # C of scikit-learn: 1 / (targets · ridge)
STEPS = 200
ROUGH, TOLERANCE = 3e-3, 3e-4  # largest preconditioned gradient: to choose a ridge, at the optimum
CURVATURE = 0.1  # of a target's loss by a logit, about: the preconditioner's guess
FLAT = 1e-7  # of the largest principal axis; what varies less is left out
CHUNK = 4_096


def logistic(
    bank: Bank,
    probes: Sequence[Probe],
    train: Data,
    dev: Data,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> Trained:
    """The best ridge strength's probe of each of `probes`, which read one layer each."""
    places = sorted({probe.sources[0] for probe in probes})
    sides, labels = len(train.spans), train.labels.shape[2]
    weights = torch.zeros(len(probes), sides * bank.width, labels, device=bank.device)
    bias = torch.zeros(len(probes), labels, device=bank.device)
    converged = torch.zeros(len(probes), dtype=torch.bool, device=bank.device)
    steps = 0
    for done, place in enumerate(places):
        rows = [row for row, probe in enumerate(probes) if probe.sources[0] == place]
        control = controls_of([probes[row] for row in rows], bank.device)
        one = _of_layer(bank.only(place), control, train, dev if len(dev) else train)
        weights[rows], bias[rows] = one.weights, one.bias
        converged[rows] = one.converged
        steps = max(steps, one.steps)
        on_progress(sum(probe.sources[0] in places[: done + 1] for probe in probes), len(probes))
    out = wide(weights.view(len(probes), sides, bank.width, labels))
    return linear_probes(bank, probes, out, bias, converged, steps)


@dataclass(frozen=True)
class _Layer:
    """The chosen probes of one layer, on its standardised states."""

    weights: Tensor  # [probes, features, labels]
    bias: Tensor  # [probes, labels]
    converged: Tensor  # [probes]
    steps: int


def _of_layer(bank: Bank, control: Tensor, train: Data, dev: Data) -> _Layer:
    features = averaged_sides(bank, train.spans)[0]  # [n, features]
    mean = features.mean(0)
    deviation = features.std(0, correction=0)
    scale = torch.where(deviation > 0, 1 / deviation, 0.0)
    features.sub_(mean).mul_(scale)
    axes, size = _principal_axes(features)  # [features, kept], [kept]
    features = features @ axes
    number, probes = len(train), len(control)
    ridge = torch.tensor([1 / (number * c) for c in STRENGTHS], device=bank.device)
    ridge = ridge.repeat(probes)  # [problems]: every strength of each probe
    of_problem = control.repeat_interleave(len(STRENGTHS))
    problem = _Problem(features, train.labels.to(bank.device), size, train.softmax)
    rough = problem.minimised(of_problem, ridge, ROUGH)

    def on_states(found: _Optimum) -> tuple[Tensor, Tensor]:
        """Weights and bias for the bank's states, back from standardised principal axes."""
        weights = (axes @ found.weights[:, 1:]) * scale[:, None]  # [problems, features, labels]
        return weights, found.weights[:, 0] - torch.einsum("f,pfl->pl", mean, weights)

    score, loss = _scored(bank, *on_states(rough), of_problem, dev)
    score, loss = score.view(probes, -1), loss.view(probes, -1)
    best = torch.where(score == score.amax(1, keepdim=True), loss, torch.inf).argmin(1)
    rows = best + len(STRENGTHS) * torch.arange(probes, device=bank.device)
    found = problem.minimised(control, ridge[rows], TOLERANCE, rough.weights[rows])
    weights, bias = on_states(found)
    return _Layer(weights, bias, found.converged, rough.steps + found.steps)


def _principal_axes(features: Tensor) -> tuple[Tensor, Tensor]:
    """Axes that the features vary along, and their variances.  # [features, kept], [kept]"""
    gram = (features.T @ features).double() / len(features)
    size, axes = torch.linalg.eigh(gram)
    kept = size > FLAT * size[-1].clamp(min=torch.finfo(torch.float).tiny)
    return axes[:, kept].float(), size[kept].float()


def _scored(
    bank: Bank, weights: Tensor, bias: Tensor, control: Tensor, dev: Data
) -> tuple[Tensor, Tensor]:
    """Micro-F1 and loss on dev.  # [problems], [problems]"""
    counts = torch.zeros(len(weights), 3, dtype=torch.long, device=bank.device)
    loss = torch.zeros(len(weights), device=bank.device)
    for places in torch.split(torch.arange(len(dev)), CHUNK):
        part = dev.take(places)
        logits = (
            averaged_sides(bank, part.spans)[0] @ weights + bias[:, None]
        )  # [problems, n, labels]
        counts += counted(logits, part, control).sum(1)
        loss += nats_of(logits, part, control).sum(1)
    return f1(counts), loss / len(dev)


class _Problem:
    """Mean loss + ridge / 2 · |weights|², the bias free, of many probes over the same features."""

    def __init__(self, features: Tensor, labels: Tensor, size: Tensor, softmax: bool) -> None:
        """features [n, features], labels [2, n, labels], size [features]: each one's variance"""
        self.inputs = torch.cat([torch.ones_like(features[:, :1]), features], dim=1)
        self.labels, self.size, self.softmax = labels, size, softmax
        self.gold = labels.int().argmax(2)  # [2, n], for softmax

    def minimised(
        self, control: Tensor, ridge: Tensor, tolerance: float, start: Tensor | None = None
    ) -> "_Optimum":
        """The optimum of each probe; control, ridge [problems], start [problems, 1 + f, labels].

        L-BFGS sees the weights divided by `root`, so that curvature is nearly 1 along each of them.
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
            value, gradient = self._valued(weights, control[which], ridge[which])
            return value, (gradient * root[which]).flatten(1)

        found = minimised(objective, first.flatten(1), tolerance, STEPS)
        return _Optimum(found.weights.view(shape) * root, found.converged, found.steps)

    def _valued(self, at: Tensor, control: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
        """Objective and gradient.  # [problems, 1 + features, labels] -> [problems], likewise"""
        number, labels = len(self.inputs), self.labels.shape[2]
        weights = at.transpose(0, 1).flatten(1)  # [1 + features, problems * labels]
        logits = (self.inputs @ weights).view(number, -1, labels)  # [n, problems, labels]
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
        gradient = (self.inputs.T @ residual.flatten(1)).view(-1, *residual.shape[1:]) / number
        gradient = gradient.transpose(0, 1).contiguous()  # [problems, 1 + features, labels]
        decay = ridge[:, None, None] * at[:, 1:]
        gradient[:, 1:] += decay
        return loss.double() + 0.5 * (decay * at[:, 1:]).sum((1, 2)).double(), gradient


class _Optimum(NamedTuple):
    weights: Tensor  # [problems, 1 + features, labels], the bias first
    converged: Tensor  # [problems]
    steps: int
