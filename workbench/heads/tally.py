"""Sums over the corpus, and over so many drawings of its documents, kept as the pass goes on.

A drawing with replacement gives each document a weight of about Poisson(1); drawn for each document
from the run's seed, they need no second look at any, so memory does not grow with the corpus:
drawings times heads times numbers. The null has a sum for every shuffle instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor


def drawings(order: Sequence[int], number: int, seed: int) -> Tensor:
    """How often each document is in each drawing; the first is the corpus.

    [1 + number, batch]
    """
    drawn = [np.random.default_rng([seed, document, 0]).poisson(1.0, number) for document in order]
    found = np.stack(drawn, 1) if drawn else np.zeros((number, 0))
    return torch.from_numpy(np.concatenate([np.ones((1, found.shape[1])), found])).float()


@dataclass
class Tally:
    """What has been added up, by name and key; what a pass that broke off added does not count."""

    total: dict[str, dict[Any, Tensor]] = field(default_factory=dict)
    _pending: list[tuple[str, object, Tensor]] = field(default_factory=list)

    def add(self, name: str, key: object, numbers: Tensor) -> None:
        self._pending.append((name, key, numbers))

    def close(self, whole: bool) -> None:
        for name, key, numbers in self._pending if whole else ():
            sums = self.total.setdefault(name, {})
            before = sums.get(key)
            sums[key] = numbers.double() if before is None else before.add_(numbers)
        self._pending.clear()


def drawn_sums(weights: Tensor, sums: Tensor) -> Tensor:
    """[drawings, batch], [batch, ...] -> [drawings, ...]"""
    return (weights @ sums.flatten(1).to(weights.dtype)).view(len(weights), *sums.shape[1:])
