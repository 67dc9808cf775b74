"""Erasing what a linear probe finds: affine maps of states that no linear probe can read.

    eraser = fitted(states, labels)              # LEACE: the least change of the states
    eraser.erased(states)                        # [n, width]
    eraser.map, eraser.offset                    # states @ map + offset: a `Write`

With x the states and z the labels as indicators, LEACE removes from whitened states the directions
of their covariance with z (Belrose et al. 2023): afterwards every class has the same mean, so no
linear classifier beats a constant. A random subspace of as many directions is removed in the same
way. Costs: an eigenvalue decomposition of the covariance, [width, width].
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SHRINKAGE = 0.01  # of the covariance towards a multiple of the identity: few states, many numbers
SMALL = 1e-4  # singular values below this share of the largest one are rounding


@dataclass(frozen=True, eq=False)
class Whitened:
    """States of mean 0 and about unit covariance, and the way back."""

    mean: Tensor  # [width]
    whiten: Tensor  # [width, width], symmetric
    colour: Tensor  # its inverse

    @classmethod
    def of(cls, states: Tensor) -> "Whitened":
        """Of some states.  # [n, width]"""
        x = states.double()
        mean = x.mean(0)
        centred = x - mean
        covariance = centred.T @ centred / max(len(x) - 1, 1)
        width = len(covariance)
        level = covariance.diagonal().mean().clamp(min=1e-12)
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * level * torch.eye(
            width, dtype=x.dtype, device=x.device
        )
        values, vectors = torch.linalg.eigh(covariance)
        root = values.clamp(min=1e-12).sqrt()
        return cls(mean, vectors / root @ vectors.T, vectors * root @ vectors.T)

    def eraser(self, basis: Tensor) -> "Eraser":
        """What removes the span of an orthonormal basis of whitened states.  # [width, rank]"""
        # x -> x - colour B B' whiten (x - mean), for rows: x @ (I - whiten B B' colour) + ...
        removed = self.whiten @ basis @ basis.T @ self.colour  # [width, width], for rows
        identity = torch.eye(len(removed), dtype=removed.dtype, device=removed.device)
        return Eraser((identity - removed).float(), (self.mean @ removed).float(), basis.shape[1])


@dataclass(frozen=True, eq=False)
class Eraser:
    """An affine map of states: `states @ map + offset`."""

    map: Tensor  # [width, width]
    offset: Tensor  # [width]
    rank: int  # directions that it removes

    def erased(self, states: Tensor) -> Tensor:
        """The states without what is removed.  # [n, width]"""
        return states @ self.map.to(states) + self.offset.to(states)


def fitted(states: Tensor, labels: Tensor, whitened: Whitened | None = None) -> Eraser:
    """What removes all that a linear probe finds of the labels.  # [n, width], [n]"""
    space = whitened or Whitened.of(states)
    x = (states.double() - space.mean) @ space.whiten
    kinds = torch.tensor(sorted(set(labels.tolist())), device=labels.device)
    indicators = (labels[:, None] == kinds).to(x)  # [n, labels]
    covariance = x.T @ (indicators - indicators.mean(0)) / max(len(x) - 1, 1)
    basis, values, _ = torch.linalg.svd(covariance, full_matrices=False)
    is_large = values > SMALL * values.max().clamp(min=1e-12)
    return space.eraser(basis[:, is_large][:, : len(kinds) - 1])


def random_eraser(space: Whitened, rank: int, generator: torch.Generator) -> Eraser:
    """What removes a random subspace of whitened states."""
    drawn = torch.randn(len(space.mean), rank, generator=generator, dtype=torch.float64)
    return space.eraser(torch.linalg.qr(drawn.to(space.mean)).Q)


def without(directions: Tensor) -> Eraser:
    """What removes the span of some directions, such as the weights of a probe.  # [n, width]"""
    rows = directions.double().reshape(-1, directions.shape[-1])
    _, values, basis = torch.linalg.svd(rows, full_matrices=False)
    own = basis[values > SMALL * values.max().clamp(min=1e-12)]  # [rank, width]
    identity = torch.eye(own.shape[1], dtype=own.dtype, device=own.device)
    return Eraser((identity - own.T @ own).float(), torch.zeros_like(own[0]).float(), len(own))
