"""Optimisers for many probes at once: Adam with early stopping, and L-BFGS to the optimum.

The probes lie in stacked tensors, one row per probe. With Adam, a probe's learning rate is halved
after an epoch without gain; a probe that has stopped leaves the stack and costs nothing more; what
is kept of each is a copy of its best epoch. `probe_training` trains on batches of targets and stops
by a score; `fitted` trains on whole sentences and stops by the dev loss, and says which probes
still gained when their epochs ran out. `optimal` is for convex probes: it takes each to the optimum
of its penalised loss, with the weight decay that is best on dev. Costs: Adam four numbers in memory
for each of the probes' own, and a pass over train and dev per epoch; L-BFGS 2 x 10 numbers for each
of theirs, and 50 to 200 passes over train in all.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.optim.adam import adam

Parameters = dict[str, Tensor]  # [probes, ...] each
EPOCHS = 60  # maximum, of `fitted`
PATIENCE = 4  # epochs without gain, after which a probe stops
GAIN = 1e-3  # what counts as one, as a share of the loss
DECAYS = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # weight decays tried, per mean loss
ROUGH, EXACT = 1e-2, 1e-3  # largest gradient when weight decays are compared, and at the optimum
STEPS = 500  # maximum, of L-BFGS
HISTORY = 10  # steps that L-BFGS remembers
ARMIJO, SHORTENINGS = 1e-4, 12  # of its line search: the gain a step must have, and tries
ROUNDING = 1e-7  # of losses in single precision
NONE: Mapping[str, float] = {}
BETAS, TINY = (0.9, 0.999), 1e-8


@dataclass
class Best:
    """The best epoch of each probe, by value."""

    own: Parameters
    score: Tensor  # [probes]
    loss: Tensor  # [probes]
    epoch: Tensor  # [probes]

    @classmethod
    def of(cls, own: Parameters) -> "Best":
        first = next(iter(own.values()))
        number, device = len(first), first.device
        return cls(
            {name: value.detach().clone() for name, value in own.items()},
            torch.full((number,), -torch.inf, dtype=torch.double, device=device),
            torch.full((number,), torch.inf, device=device),
            torch.zeros(number, dtype=torch.long, device=device),
        )

    def see(self, places: Tensor, own: Parameters, score: Tensor, loss: Tensor, at: int) -> None:
        """Keep these probes where they are better than ever; a tie is broken by the loss."""
        before, loss_before = self.score[places], self.loss[places]
        ahead = (score > before) | ((score == before) & (loss < loss_before))
        better = ahead.nonzero()[:, 0]  # as a mask it would be asked for every parameter
        chosen = places[better]
        for name, value in own.items():
            self.own[name][chosen] = value.detach()[better]  # copied: what is trained goes on
        self.score[chosen], self.loss[chosen] = score[better].double(), loss[better]
        self.epoch[chosen] = at


@dataclass
class Learning:
    """The probes that still learn, and the best that each has been."""

    places: Tensor  # [alive], among all
    own: Parameters
    mean: Parameters
    square: Parameters
    rate: Tensor  # [alive]
    since: Tensor  # [alive], epochs without gain
    steps: Parameters  # one number of each parameter: how often it was moved
    best: Best

    @classmethod
    def of(cls, own: Parameters, rate: float) -> "Learning":
        first = next(iter(own.values()))
        number, device = len(first), first.device
        return cls(
            torch.arange(number, device=device),
            {name: _dense(value.detach()).clone() for name, value in own.items()},
            {name: torch.zeros_like(_dense(value)) for name, value in own.items()},
            {name: torch.zeros_like(_dense(value)) for name, value in own.items()},
            torch.full((number,), rate, device=device),
            torch.zeros(number, dtype=torch.long, device=device),
            {name: torch.zeros((), device=device) for name in own},
            Best.of(own),
        )

    def __len__(self) -> int:
        return len(self.places)

    def leaves(self) -> Parameters:
        """What gradients are asked of; shares memory with `own`."""
        return {name: value.detach().requires_grad_() for name, value in self.own.items()}

    @torch.no_grad()
    def step(self, slopes: Mapping[str, Tensor], quicker: Mapping[str, float] = NONE) -> None:
        """One step of Adam; `quicker` says how many times its rate a parameter moves.

        torch's fused kernel knows one rate, so it gives a step of rate one, which is taken at each
        probe's own. The kernel reads memory in order and ignores strides; a gradient that comes
        from `einsum` is often a transposed view, so every tensor is made contiguous first.
        """
        names = list(slopes)
        moves = [torch.zeros_like(self.own[name]) for name in names]
        gradients = [_dense(slopes[name]) for name in names]
        for name in names:
            for tensor in (self.own[name], self.mean[name], self.square[name]):
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
            rate = quicker.get(name, 1.0) * self.rate
            self.own[name].addcmul_(move, rate.view(-1, *[1] * (move.ndim - 1)))

    def judged(
        self,
        score: Tensor,
        loss: Tensor,
        worth: Tensor,
        patience: int,
        at: int,
        slower: Tensor,
    ) -> None:
        """End an epoch: keep the best, slow down who did not gain, let go who has stopped.

        `worth` says who gained enough to go on as before; `slower` whose rate is halved.
        [alive] each
        """
        self.best.see(self.places, self.own, score, loss, at)
        self.since = torch.where(worth, 0, self.since + 1)
        self.rate = torch.where(slower, self.rate / 2, self.rate)
        alive = (self.since < patience).nonzero()[:, 0]
        if len(alive) == len(self):
            return
        for each in (self.own, self.mean, self.square):
            each.update({name: value[alive] for name, value in each.items()})
        self.places, self.rate, self.since = self.places[alive], self.rate[alive], self.since[alive]


def _dense(tensor: Tensor) -> Tensor:
    """The same values, laid out in memory as the shape says."""
    return tensor.contiguous()


# --- whole sentences, by the loss -----------------------------------------------------------------

B = TypeVar("B")
Weights = Sequence[Tensor]  # [probes, ...] each
Loss = Callable[[Weights, Tensor, B], tuple[Tensor, int]]
OnProgress = Callable[[int, int], object]  # done, of a maximum of


class Fitted(NamedTuple):
    """Each probe at its best epoch on dev."""

    weights: list[Tensor]  # [probes, ...] each
    losses: Tensor  # [probes], on dev
    epochs: Tensor  # [probes], the best epoch
    converged: Tensor  # [probes], bool: stopped because dev gained no more, not by the last epoch


def fitted(
    weights: Weights,
    loss: "Loss[B]",
    train: Callable[[int], Iterable[B]],
    dev: Sequence[B],
    rate: float,
    on_progress: OnProgress = lambda done, most: None,
    epochs: int = EPOCHS,
) -> Fitted:
    """Train every probe of a stack with Adam until it gains no more on dev.

    `loss` gets the weights of the probes that still run, their rows, and a batch; it returns each
    one's sum over the batch, [probes], and how many were summed. `train` makes the batches of an
    epoch.
    """
    now = Learning.of({str(place): part for place, part in enumerate(weights)}, rate)
    # the loss that must be beaten: it falls only with a gain, so small gains add up
    mark = torch.full_like(now.best.loss, torch.inf)
    for epoch in range(1, epochs + 1):
        for batch in train(epoch):
            leaves = now.leaves()
            sums, number = loss([*leaves.values()], now.places, batch)
            gradients = torch.autograd.grad(sums.sum() / max(number, 1), [*leaves.values()])
            now.step(dict(zip(leaves, gradients, strict=True)))
        with torch.no_grad():
            found = [loss([*now.own.values()], now.places, batch) for batch in dev]
            total = torch.stack([sums for sums, _ in found]).sum(0)
            losses = total / max(sum(number for _, number in found), 1)
        gained = losses < mark[now.places] * (1 - GAIN)
        mark[now.places[gained]] = losses[gained]
        worse = losses >= now.best.loss[now.places]  # a small gain at a lower rate is none at all
        now.judged(-losses.double(), losses, gained, PATIENCE, epoch, worse)
        on_progress(epoch, epochs)
        if not len(now):
            break
    on_progress(epochs, epochs)
    converged = torch.ones_like(now.best.epoch, dtype=torch.bool)
    converged[now.places] = False
    return Fitted([*now.best.own.values()], now.best.loss, now.best.epoch, converged)


# --- convex probes, to the optimum ----------------------------------------------------------------


class Optimum(NamedTuple):
    """Each probe at the optimum of its loss, with the weight decay that is best on dev."""

    weights: list[Tensor]  # [probes, ...] each
    losses: Tensor  # [probes], on dev
    decays: Tensor  # [probes]
    converged: Tensor  # [probes], bool: no gradient over EXACT is left


def optimal(
    weights: Weights,
    loss: "Loss[B]",
    train: Sequence[B],
    dev: Sequence[B],
    on_progress: OnProgress = lambda done, most: None,
    steps: int = STEPS,
    choices: Sequence[float] = DECAYS,
) -> Optimum:
    """Take every probe of a stack to the optimum of its mean loss plus decay / 2 · |weights|².

    The weight decays of `choices` are tried from the strongest down, each from the weights of the
    one before, as long as dev gains; then each probe is trained to the optimum at its own. `loss`
    is as for `fitted`, and must be convex in the weights.
    """
    shapes = [part.shape[1:] for part in weights]
    sizes = [shape.numel() for shape in shapes]
    flat = torch.cat([part.detach().flatten(1) for part in weights], dim=1)  # [probes, numbers]

    def parts(rows: Tensor) -> list[Tensor]:
        own = zip(torch.split(rows, sizes, dim=1), shapes, strict=True)
        return [part.reshape(len(rows), *shape) for part, shape in own]

    def objective(rows: Tensor, which: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        """Penalised mean loss and its gradient.  # [rows], [rows, numbers]"""
        total, number = torch.zeros(len(rows), dtype=torch.double, device=rows.device), 0
        gradient = torch.zeros_like(rows)
        for batch in train:
            leaf = rows.detach().requires_grad_()
            sums, several = loss(parts(leaf), which, batch)
            gradient += torch.autograd.grad(sums.sum(), leaf)[0]
            total, number = total + sums.detach().double(), number + several
        penalty = decay.double() / 2 * rows.double().square().sum(1)
        return total / max(number, 1) + penalty, gradient / max(number, 1) + decay[:, None] * rows

    @torch.no_grad()
    def dev_loss(rows: Tensor, which: Tensor) -> Tensor:
        found = [loss(parts(rows), which, batch) for batch in dev]
        total = torch.stack([sums for sums, _ in found]).sum(0)
        return total / max(sum(number for _, number in found), 1)

    def trained(rows: Tensor, which: Tensor, decay: Tensor, tolerance: float) -> "Minimum":
        def of_rows(own: Tensor, running: Tensor) -> tuple[Tensor, Tensor]:
            return objective(own, which[running], decay[running])

        return minimised(of_rows, rows, tolerance, steps, on_progress)

    best, losses = flat.clone(), torch.full((len(flat),), torch.inf, device=flat.device)
    decays = torch.full_like(losses, choices[0])
    which, now = torch.arange(len(flat), device=flat.device), flat
    for decay in choices:
        now = trained(now, which, torch.full_like(losses[which], decay), ROUGH).weights
        found = dev_loss(now, which)
        gained = found < losses[which]
        which, now = which[gained], now[gained]
        best[which], losses[which], decays[which] = now, found[gained], decay
        if not len(which):
            break
    every = torch.arange(len(flat), device=flat.device)
    end = trained(best, every, decays, EXACT)
    return Optimum(parts(end.weights), dev_loss(end.weights, every), decays, end.converged)


class Minimum(NamedTuple):
    weights: Tensor  # [probes, numbers]
    converged: Tensor  # [probes], bool
    steps: int  # of the function that took most


def minimised(
    objective: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    tolerance: float = EXACT,
    steps: int = STEPS,
    on_progress: OnProgress = lambda done, most: None,
) -> Minimum:
    """L-BFGS for many independent convex functions at once, each with its own step length.

    `objective` gets the weights of some functions, [some, numbers], and their rows, [some]; it
    returns their values and gradients. A function is at its minimum when no part of its gradient
    exceeds the tolerance; it then costs nothing more.
    """
    kept = start.detach().clone()
    converged = torch.zeros(len(kept), dtype=torch.bool, device=kept.device)
    running = torch.arange(len(kept), device=kept.device)
    at = kept.clone()
    value, gradient = objective(at, running)
    # what was moved, how the gradient changed, and 1 over the product of both: latest last
    moves: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=HISTORY)
    scale = 1 / gradient.norm(dim=1).clamp(min=1.0)  # [running], the first guess at 1 / curvature
    step = 0
    for step in range(steps):
        on_progress(step, steps)
        is_done = gradient.abs().amax(1) <= tolerance
        done = is_done.nonzero()[:, 0]
        if len(done):
            kept[running[done]], converged[running[done]] = at[done], True
            stay = (~is_done).nonzero()[:, 0]
            running, at, scale = running[stay], at[stay], scale[stay]
            value, gradient = value[stay], gradient[stay]
            rest = [tuple(part[stay] for part in move) for move in moves]
            moves = deque(((a, b, c) for a, b, c in rest), maxlen=HISTORY)
            if not len(running):
                break
        direction = -_newton(gradient, moves, scale)
        descent = (gradient * direction).sum(1)
        direction = torch.where((descent < 0)[:, None], direction, -gradient)
        descent = torch.where(descent < 0, descent, -gradient.square().sum(1))
        before, slope, length = at, gradient.clone(), torch.ones_like(descent)
        at, open_ = at.clone(), torch.arange(len(at), device=at.device)  # open: not moved yet
        for _ in range(SHORTENINGS):
            tried = before[open_] + length[open_, None] * direction[open_]
            new, steepness = objective(tried, running[open_])
            enough = ARMIJO * (length * descent).double() + ROUNDING * value.abs()
            is_better = new <= value[open_] + enough[open_]
            better = is_better.nonzero()[:, 0]  # one look at the device, where masks take one each
            chosen = open_[better]
            at[chosen], gradient[chosen], value[chosen] = (
                tried[better],
                steepness[better],
                new[better],
            )
            if len(better) == len(open_):
                open_ = open_[:0]
                break
            open_ = open_[(~is_better).nonzero()[:, 0]]
            length[open_] /= 3
        if len(open_) == len(running):
            break  # no step lowers any of them: this is as low as single precision goes
        moved, turned = at - before, gradient - slope
        product = (moved * turned).sum(1)
        curved = product > torch.finfo(product.dtype).tiny
        inverse = torch.where(curved, 1 / product, 0.0)  # where nothing moved it changes nothing
        moves.append((moved, turned, inverse))
        scale = torch.where(curved, product / turned.square().sum(1), scale)
    kept[running] = at
    converged[running] = gradient.abs().amax(1) <= tolerance
    return Minimum(kept, converged, step)


def _newton(
    gradient: Tensor, moves: "deque[tuple[Tensor, Tensor, Tensor]]", scale: Tensor
) -> Tensor:
    """The inverse Hessian, as far as the moves tell it, times the gradient.  # [probes, numbers]"""
    found, shares = gradient, []
    for moved, turned, inverse in reversed(moves):
        share = inverse * (moved * found).sum(1)
        found = found - share[:, None] * turned
        shares.append(share)
    found = scale[:, None] * found
    for (moved, turned, inverse), share in zip(moves, reversed(shares), strict=True):
        found = found + (share - inverse * (turned * found).sum(1))[:, None] * moved
    return found
