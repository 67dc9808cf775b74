"""Optimisers for many probes at once: Adam with early stopping, and L-BFGS to the optimum.

The probes are rows of stacked tensors. With Adam, a probe's learning rate is halved after an epoch
without gain; a stopped probe leaves the stack and costs nothing more; a copy of its best epoch is
kept. `probe_training` trains on batches of targets and stops by a score. `fitted` trains on whole
sentences, stops by the dev loss, and reports which probes still gained in their last epoch.
`optimal` is for convex probes: it trains each to the optimum of its penalised loss, with the best
weight decay on dev. Costs: Adam, four numbers in memory per parameter, and a pass over train and
dev per epoch; L-BFGS, 2 x 10 numbers per parameter, and 50 to 200 passes over train in all.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.optim.adam import adam

Parameters = dict[str, Tensor]  # [probes, ...] each
EPOCHS = 60  # maximum of `fitted`
PATIENCE = 4  # epochs without gain before early stopping
GAIN = 1e-3  # minimum gain, relative to the loss
DECAYS = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # candidate weight decays, for the mean loss
ROUGH, EXACT = 1e-2, 1e-3  # largest gradient when comparing weight decays, and at the optimum
STEPS = 500  # maximum of L-BFGS
HISTORY = 10  # previous steps that L-BFGS uses
ARMIJO, SHORTENINGS = 1e-4, 12  # line search: minimum gain of a step, and number of tries
ROUNDING = 1e-7  # of losses in single precision
NO_FACTORS: Mapping[str, float] = {}
BETAS, TINY = (0.9, 0.999), 1e-8


@dataclass
class Best:
    """A copy of each probe's parameters at its best epoch."""

    parameters: Parameters
    score: Tensor  # [probes]
    loss: Tensor  # [probes]
    epoch: Tensor  # [probes]

    @classmethod
    def of(cls, parameters: Parameters) -> "Best":
        first = next(iter(parameters.values()))
        n_probes, device = len(first), first.device
        return cls(
            {name: value.detach().clone() for name, value in parameters.items()},
            torch.full((n_probes,), -torch.inf, dtype=torch.double, device=device),
            torch.full((n_probes,), torch.inf, device=device),
            torch.zeros(n_probes, dtype=torch.long, device=device),
        )

    def update(
        self, rows: Tensor, parameters: Parameters, score: Tensor, loss: Tensor, epoch: int
    ) -> None:
        """Copy the probes that improved; with equal scores, the lower loss is better."""
        before, loss_before = self.score[rows], self.loss[rows]
        ahead = (score > before) | ((score == before) & (loss < loss_before))
        better = ahead.nonzero()[:, 0]  # indices: a mask would sync the device per parameter
        chosen = rows[better]
        for name, value in parameters.items():
            self.parameters[name][chosen] = value.detach()[better]  # a copy: training continues
        self.score[chosen], self.loss[chosen] = score[better].double(), loss[better]
        self.epoch[chosen] = epoch


@dataclass
class TrainingState:
    """The probes that still train, the state of Adam, and the best epoch of every probe."""

    rows: Tensor  # [running], among all probes
    parameters: Parameters
    mean: Parameters
    square: Parameters
    learning_rate: Tensor  # [running]
    without_gain: Tensor  # [running], epochs
    steps: Parameters  # number of updates of each parameter
    best: Best

    @classmethod
    def of(cls, parameters: Parameters, learning_rate: float) -> "TrainingState":
        first = next(iter(parameters.values()))
        n_probes, device = len(first), first.device
        return cls(
            torch.arange(n_probes, device=device),
            {name: _dense(value.detach()).clone() for name, value in parameters.items()},
            {name: torch.zeros_like(_dense(value)) for name, value in parameters.items()},
            {name: torch.zeros_like(_dense(value)) for name, value in parameters.items()},
            torch.full((n_probes,), learning_rate, device=device),
            torch.zeros(n_probes, dtype=torch.long, device=device),
            {name: torch.zeros((), device=device) for name in parameters},
            Best.of(parameters),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def leaves(self) -> Parameters:
        """Parameters that require gradients; they share memory with `parameters`."""
        return {name: value.detach().requires_grad_() for name, value in self.parameters.items()}

    @torch.no_grad()
    def step(
        self, by_name: Mapping[str, Tensor], rate_factors: Mapping[str, float] = NO_FACTORS
    ) -> None:
        """One step of Adam; `by_name` are gradients, `rate_factors` multiply the learning rate.

        torch's fused kernel has one learning rate for all probes, so it computes a step of rate 1,
        which is scaled by each probe's own. The kernel reads memory in order and ignores strides. A
        gradient from `einsum` is often a transposed view, so tensors are made contiguous first.
        """
        names = list(by_name)
        moves = [torch.zeros_like(self.parameters[name]) for name in names]
        gradients = [_dense(by_name[name]) for name in names]
        for name in names:
            for tensor in (self.parameters[name], self.mean[name], self.square[name]):
                assert tensor.is_contiguous(), f"{name} is strided: {tensor.stride()}"
        adam(
            moves,
            gradients,
            [self.mean[name] for name in names],
            [self.square[name] for name in names],
            [],
            [self.steps[name] for name in names],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=1.0,
            weight_decay=0.0,
            eps=TINY,
            maximize=False,
        )
        for name, move in zip(names, moves, strict=True):
            rate = rate_factors.get(name, 1.0) * self.learning_rate
            self.parameters[name].addcmul_(move, rate.view(-1, *[1] * (move.ndim - 1)))

    def end_epoch(
        self,
        score: Tensor,
        loss: Tensor,
        gained: Tensor,
        patience: int,
        epoch: int,
        halve: Tensor,
    ) -> None:
        """End an epoch: copy the best probes, halve learning rates, and remove stopped probes.

        `gained` is the mask of probes that gained, `halve` of those whose learning rate is halved.
        [running] each
        """
        self.best.update(self.rows, self.parameters, score, loss, epoch)
        self.without_gain = torch.where(gained, 0, self.without_gain + 1)
        self.learning_rate = torch.where(halve, self.learning_rate / 2, self.learning_rate)
        running = (self.without_gain < patience).nonzero()[:, 0]
        if len(running) == len(self):
            return
        for each in (self.parameters, self.mean, self.square):
            each.update({name: value[running] for name, value in each.items()})
        self.rows, self.learning_rate = self.rows[running], self.learning_rate[running]
        self.without_gain = self.without_gain[running]


def _dense(tensor: Tensor) -> Tensor:
    """The same values in contiguous memory."""
    return tensor.contiguous()


# --- training on whole sentences, with early stopping by the dev loss -----------------------------

B = TypeVar("B")
Weights = Sequence[Tensor]  # [probes, ...] each
Loss = Callable[[Weights, Tensor, B], tuple[Tensor, int]]
OnProgress = Callable[[int, int], object]  # done, total


class Fitted(NamedTuple):
    """Each probe at its best epoch on dev."""

    weights: list[Tensor]  # [probes, ...] each
    losses: Tensor  # [probes], on dev
    epochs: Tensor  # [probes], the best epoch
    converged: Tensor  # [probes], bool: early stopping on dev ended its training


def fitted(
    weights: Weights,
    loss: "Loss[B]",
    train: Callable[[int], Iterable[B]],
    dev: Sequence[B],
    learning_rate: float,
    on_progress: OnProgress = lambda done, most: None,
    epochs: int = EPOCHS,
) -> Fitted:
    """Train every probe of a stack with Adam until it gains no more on dev.

    `loss` gets the weights of the running probes, their rows, and a batch. It returns the sum of
    losses over the batch for each probe, [probes], and the number of items. `train` returns the
    batches of an epoch.
    """
    state = TrainingState.of(
        {str(index): part for index, part in enumerate(weights)}, learning_rate
    )
    # the loss to improve on: it falls only with a gain, so small gains add up
    reference = torch.full_like(state.best.loss, torch.inf)
    for epoch in range(1, epochs + 1):
        for batch in train(epoch):
            leaves = state.leaves()
            sums, count = loss([*leaves.values()], state.rows, batch)
            gradients = torch.autograd.grad(sums.sum() / max(count, 1), [*leaves.values()])
            state.step(dict(zip(leaves, gradients, strict=True)))
        with torch.no_grad():
            parts = [loss([*state.parameters.values()], state.rows, batch) for batch in dev]
            total = torch.stack([sums for sums, _ in parts]).sum(0)
            losses = total / max(sum(count for _, count in parts), 1)
        gained = losses < reference[state.rows] * (1 - GAIN)
        reference[state.rows[gained]] = losses[gained]
        worse = losses >= state.best.loss[state.rows]  # halve the learning rate only if worse
        state.end_epoch(-losses.double(), losses, gained, PATIENCE, epoch, worse)
        on_progress(epoch, epochs)
        if not len(state):
            break
    on_progress(epochs, epochs)
    converged = torch.ones_like(state.best.epoch, dtype=torch.bool)
    converged[state.rows] = False
    return Fitted([*state.best.parameters.values()], state.best.loss, state.best.epoch, converged)


# --- convex probes, to the optimum ----------------------------------------------------------------


class Optimum(NamedTuple):
    """Each probe at the optimum of its loss, with the best weight decay on dev."""

    weights: list[Tensor]  # [probes, ...] each
    losses: Tensor  # [probes], on dev
    decays: Tensor  # [probes]
    converged: Tensor  # [probes], bool: all gradients are at most EXACT


def optimal(
    weights: Weights,
    loss: "Loss[B]",
    train: Sequence[B],
    dev: Sequence[B],
    steps: int = STEPS,
    choices: Sequence[float] = DECAYS,
) -> Optimum:
    """Train every probe of a stack to the optimum of its mean loss plus decay / 2 · |weights|².

    The weight decays of `choices` are tried from strong to weak, each from the previous weights, as
    long as dev gains. Then each probe is trained to the optimum with its best decay. `loss` is as
    for `fitted`, and must be convex in the weights.
    """
    shapes = [part.shape[1:] for part in weights]
    sizes = [shape.numel() for shape in shapes]
    flat = torch.cat([part.detach().flatten(1) for part in weights], dim=1)  # [probes, numbers]

    def parts(rows: Tensor) -> list[Tensor]:
        split = zip(torch.split(rows, sizes, dim=1), shapes, strict=True)
        return [part.reshape(len(rows), *shape) for part, shape in split]

    def objective(rows: Tensor, which: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        """Penalised mean loss and its gradient.  # [rows], [rows, numbers]"""
        total, count = torch.zeros(len(rows), dtype=torch.double, device=rows.device), 0
        gradient = torch.zeros_like(rows)
        for batch in train:
            leaf = rows.detach().requires_grad_()
            sums, n_items = loss(parts(leaf), which, batch)
            gradient += torch.autograd.grad(sums.sum(), leaf)[0]
            total, count = total + sums.detach().double(), count + n_items
        penalty = decay.double() / 2 * rows.double().square().sum(1)
        return total / max(count, 1) + penalty, gradient / max(count, 1) + decay[:, None] * rows

    @torch.no_grad()
    def dev_loss(rows: Tensor, which: Tensor) -> Tensor:
        each = [loss(parts(rows), which, batch) for batch in dev]
        total = torch.stack([sums for sums, _ in each]).sum(0)
        return total / max(sum(count for _, count in each), 1)

    def trained(rows: Tensor, which: Tensor, decay: Tensor, tolerance: float) -> "Minimum":
        def of_rows(weights: Tensor, running: Tensor) -> tuple[Tensor, Tensor]:
            return objective(weights, which[running], decay[running])

        return minimised(of_rows, rows, tolerance, steps)

    best, losses = flat.clone(), torch.full((len(flat),), torch.inf, device=flat.device)
    decays = torch.full_like(losses, choices[0])
    which, current = torch.arange(len(flat), device=flat.device), flat
    for decay in choices:
        current = trained(current, which, torch.full_like(losses[which], decay), ROUGH).weights
        dev_losses = dev_loss(current, which)
        gained = dev_losses < losses[which]
        which, current = which[gained], current[gained]
        best[which], losses[which], decays[which] = current, dev_losses[gained], decay
        if not len(which):
            break
    every = torch.arange(len(flat), device=flat.device)
    end = trained(best, every, decays, EXACT)
    return Optimum(parts(end.weights), dev_loss(end.weights, every), decays, end.converged)


class Minimum(NamedTuple):
    weights: Tensor  # [probes, numbers]
    converged: Tensor  # [probes], bool
    steps: int  # maximum over the functions


def minimised(
    objective: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    tolerance: float = EXACT,
    steps: int = STEPS,
) -> Minimum:
    """L-BFGS for many independent convex functions at once, each with its own step length.

    `objective` gets the weights of some functions, [some, numbers], and their rows, [some]. It
    returns their values and gradients. A function has converged when no part of its gradient is
    above the tolerance; it then costs nothing more.
    """
    result = start.detach().clone()
    converged = torch.zeros(len(result), dtype=torch.bool, device=result.device)
    running = torch.arange(len(result), device=result.device)
    at = result.clone()
    value, gradient = objective(at, running)
    # change of the weights, change of the gradient, 1 / product of both: latest last
    moves: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=HISTORY)
    scale = 1 / gradient.norm(dim=1).clamp(min=1.0)  # [running], the first guess at 1 / curvature
    step = 0
    for step in range(steps):  # noqa: B007 (the last one is returned)
        is_done = gradient.abs().amax(1) <= tolerance
        done = is_done.nonzero()[:, 0]
        if len(done):
            result[running[done]], converged[running[done]] = at[done], True
            stay = (~is_done).nonzero()[:, 0]
            running, at, scale = running[stay], at[stay], scale[stay]
            value, gradient = value[stay], gradient[stay]
            running_moves = [tuple(part[stay] for part in move) for move in moves]
            moves = deque(((a, b, c) for a, b, c in running_moves), maxlen=HISTORY)
            if not len(running):
                break
        direction = -_newton(gradient, moves, scale)
        descent = (gradient * direction).sum(1)
        direction = torch.where((descent < 0)[:, None], direction, -gradient)
        descent = torch.where(descent < 0, descent, -gradient.square().sum(1))
        before, old_gradient, length = at, gradient.clone(), torch.ones_like(descent)
        at, open_ = at.clone(), torch.arange(len(at), device=at.device)  # open: not moved yet
        for _ in range(SHORTENINGS):
            tried = before[open_] + length[open_, None] * direction[open_]
            new, new_gradient = objective(tried, running[open_])
            enough = ARMIJO * (length * descent).double() + ROUNDING * value.abs()
            is_better = new <= value[open_] + enough[open_]
            better = is_better.nonzero()[:, 0]  # indices: each mask would sync the device
            chosen = open_[better]
            at[chosen], gradient[chosen], value[chosen] = (
                tried[better],
                new_gradient[better],
                new[better],
            )
            if len(better) == len(open_):
                open_ = open_[:0]
                break
            open_ = open_[(~is_better).nonzero()[:, 0]]
            length[open_] /= 3
        if len(open_) == len(running):
            break  # no step lowers any function: the limit of single precision
        moved, turned = at - before, gradient - old_gradient
        product = (moved * turned).sum(1)
        curved = product > torch.finfo(product.dtype).tiny
        inverse = torch.where(curved, 1 / product, 0.0)  # 0: no effect where nothing moved
        moves.append((moved, turned, inverse))
        scale = torch.where(curved, product / turned.square().sum(1), scale)
    result[running] = at
    converged[running] = gradient.abs().amax(1) <= tolerance
    return Minimum(result, converged, step)


def _newton(
    gradient: Tensor, moves: "deque[tuple[Tensor, Tensor, Tensor]]", scale: Tensor
) -> Tensor:
    """The approximate inverse Hessian times the gradient.  # [probes, numbers]"""
    product, shares = gradient, []
    for moved, turned, inverse in reversed(moves):
        share = inverse * (moved * product).sum(1)
        product = product - share[:, None] * turned
        shares.append(share)
    product = scale[:, None] * product
    for (moved, turned, inverse), share in zip(moves, reversed(shares), strict=True):
        product = product + (share - inverse * (turned * product).sum(1))[:, None] * moved
    return product
