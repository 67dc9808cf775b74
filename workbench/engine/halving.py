"""Out of memory: a batch that does not fit is computed in halves.

`in_halves` calls a function for a batch and, if the device runs out of memory, for its halves,
recursively. A `Limit` remembers the size that failed, so that later batches do not fail again. The
results of a failed call are dropped, so the function must not change outside state before it can no
longer fail. Costs: nothing if memory suffices.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError

ANY = 1 << 62  # pieces; no limit is known yet


@dataclass
class Limit:
    """The maximum number of pieces in a batch; it shrinks when memory runs out."""

    pieces: int = ANY
    halvings: int = 0

    def halve(self, failed: int) -> None:
        """Lower the limit after a batch of `failed` pieces ran out of memory."""
        self.halvings += 1
        self.pieces = max(1, min(self.pieces, failed // 2))


class Rows(Protocol):
    """A batch whose rows can be computed separately."""

    @property
    def pieces(self) -> int:
        """Number of pieces in all rows, padding included."""
        ...

    def __len__(self) -> int: ...

    def halves(self) -> tuple[Self, Self]: ...


@dataclass(frozen=True)
class Places:
    """Indices of texts or other items computed together, each counted with `longest` pieces."""

    places: Sequence[int]
    longest: int  # pieces per item, padding included

    @property
    def pieces(self) -> int:
        return self.longest * len(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def halves(self) -> tuple["Places", "Places"]:
        middle = len(self) // 2
        first, last = self.places[:middle], self.places[middle:]
        return Places(first, self.longest), Places(last, self.longest)


R = TypeVar("R", bound=Rows)
T = TypeVar("T")


def in_halves(
    run: Callable[[R], T], batch: R, limit: Limit, *, within: bool = False
) -> Iterator[tuple[R, T]]:
    """The result of `run` for a batch, or for each part of it that fits into memory.

    With `within`, for a call inside another `in_halves`, a batch of one row that does not fit
    raises an out-of-memory error, so that the outer call halves.
    """
    if batch.pieces <= limit.pieces or len(batch) < 2:
        results: list[T] = []
        with suppress(torch.OutOfMemoryError):  # its traceback holds all tensors of the call
            results.append(run(batch))
        if results:
            yield batch, results.pop()
            return
        if len(batch) < 2 and within:
            raise torch.OutOfMemoryError("a batch of one row does not fit")
        if len(batch) < 2:
            raise WorkbenchError(
                f"one document of {batch.pieces} pieces does not fit into memory.",
                code="out-of-memory",
                remedy="Use a smaller model or a lower precision, close other programs, or read "
                "the corpus by sentences.",
            )
        limit.halve(batch.pieces)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    for half in batch.halves():
        yield from in_halves(run, half, limit, within=within)


# mean loss, number of predictions, gradients
Part = tuple[Tensor, Tensor | int, Sequence[Tensor | None]]


def averaged(parts: Iterable[Part], weights: Sequence[Tensor]) -> Tensor:
    """The mean loss of all parts of a step; its gradient is stored in the weights.

    A part without predictions has no weight. Gradients are contiguous in memory like their weights,
    as fused optimisers require, and no two weights share a gradient tensor.
    """
    loss, total, first = torch.zeros(()), torch.zeros(()), True
    for part_loss, count, gradients in parts:
        total = count + total.to(part_loss.device)
        share = count / total.clamp(min=1)
        loss = part_loss if first else loss * (1 - share) + part_loss * share
        seen: set[int] = set()
        for weight, gradient in zip(weights, gradients, strict=True):
            own_share = share.to(weight.device)
            if not first and weight.grad is not None:
                weight.grad = weight.grad * (1 - own_share)
            if gradient is None:
                continue
            dense = gradient.contiguous() if first else (gradient * own_share).contiguous()
            if dense.data_ptr() in seen:  # autograd returns one tensor for a sum of two weights
                dense = dense.clone()
            seen.add(dense.data_ptr())
            weight.grad = dense if weight.grad is None else weight.grad + dense
        first = False
    return loss
