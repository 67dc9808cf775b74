"""Adam for many probes at once: each at its own rate, until it gains no more.

The probes lie in stacked tensors, a row each. A rate halves after an epoch without gain; a probe
that has gone without for long enough leaves the stack and costs nothing more; what is kept of each
is a copy of its best epoch. `stack` trains by batches of targets and stops by a score; `fitted`, of
whole sentences, stops by the loss. Costs four numbers in memory for each of the probes' own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.optim.adam import adam

Parameters = dict[str, Tensor]  # [probes, ...] each
EPOCHS = 40  # at most, of `fitted`
PATIENCE = 3  # epochs without gain, after which a probe is done
GAIN = 3e-3  # what counts as one, as a share of the loss
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
        better = (score > before) | ((score == before) & (loss < loss_before))
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

    def judged(self, score: Tensor, loss: Tensor, worth: Tensor, patience: int, at: int) -> None:
        """End an epoch: keep the best, slow down who did not gain, let go who has stopped.

        `worth` says who gained enough to go on as before.  # [alive] each
        """
        self.best.see(self.places, self.own, score, loss, at)
        self.since = torch.where(worth, 0, self.since + 1)
        self.rate = torch.where(worth, self.rate, self.rate / 2)
        alive = self.since < patience
        if bool(alive.all()):
            return
        for each in (self.own, self.mean, self.square):
            each.update({name: value[alive] for name, value in each.items()})
        self.places, self.rate, self.since = self.places[alive], self.rate[alive], self.since[alive]


def _dense(tensor: Tensor) -> Tensor:
    """The same values, laid out in memory as the shape says."""
    return tensor.contiguous()


# --- by the loss alone ----------------------------------------------------------------------------

B = TypeVar("B")
Weights = Sequence[Tensor]  # [probes, ...] each
Loss = Callable[[Weights, Tensor, B], tuple[Tensor, int]]
Told = Callable[[int, int], object]  # epochs done, and at most


class Fitted(NamedTuple):
    """Each probe as it was when dev was best."""

    weights: list[Tensor]  # [probes, ...] each
    losses: Tensor  # [probes], on dev
    epochs: Tensor  # [probes], how many it took


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
    now = Learning.of({str(place): part for place, part in enumerate(weights)}, rate)
    for epoch in range(1, epochs + 1):
        for batch in train(epoch):
            leaves = now.leaves()
            sums, number = loss([*leaves.values()], now.places, batch)
            slopes = torch.autograd.grad(sums.sum() / max(number, 1), [*leaves.values()])
            now.step(dict(zip(leaves, slopes, strict=True)))
        with torch.no_grad():
            found = [loss([*now.own.values()], now.places, batch) for batch in dev]
            total = torch.stack([sums for sums, _ in found]).sum(0)
            losses = total / max(sum(number for _, number in found), 1)
        worth = losses < now.best.loss[now.places] * (1 - GAIN)
        now.judged(-losses.double(), losses, worth, PATIENCE, epoch)
        told(epoch, epochs)
        if not len(now):
            break
    told(epochs, epochs)
    return Fitted([*now.best.own.values()], now.best.loss, now.best.epoch)
