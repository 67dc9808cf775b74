"""Out of memory: a batch that does not fit is computed in halves, whatever is computed of it.

`in_halves` calls a function for a batch and, where the device's memory does not suffice, for its
halves, and theirs; a `Limit` remembers what did not fit, so that the batches after it are not tried
in vain. What the function made before it failed is dropped, so it must change nothing outside until
it can no longer fail. Costs nothing where memory suffices.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError

ANY = 1 << 62  # pieces: no limit is known yet


@dataclass
class Limit:
    """The most pieces in a batch; it sinks where memory does not suffice."""

    pieces: int = ANY
    halvings: int = 0

    def halve(self, failed: int) -> None:
        """A batch of so many pieces was too large."""
        self.halvings += 1
        self.pieces = max(1, min(self.pieces, failed // 2))


class Rows(Protocol):
    """A batch whose rows can be computed apart."""

    @property
    def pieces(self) -> int:
        """In all rows, padding included."""
        ...

    def __len__(self) -> int: ...

    def halves(self) -> tuple[Self, Self]: ...


@dataclass(frozen=True)
class Places:
    """Texts, or whatever else has numbers, that are computed together: so many pieces each."""

    places: Sequence[int]
    longest: int  # pieces of each, padding included

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
    """What `run` makes of a batch, or of each part of it that fits into memory.

    `within` other halves, what cannot be halved any more is for those to halve.
    """
    if batch.pieces <= limit.pieces or len(batch) < 2:
        found: list[T] = []
        with suppress(torch.OutOfMemoryError):  # whose traceback holds all that was made
            found.append(run(batch))
        if found:
            yield batch, found.pop()
            return
        if len(batch) < 2 and within:
            raise torch.OutOfMemoryError("not even one fits")
        if len(batch) < 2:
            raise WorkbenchError(
                f"one document of {batch.pieces} pieces does not fit into memory.",
                remedy="Use a smaller model or a lower precision, close other programs, or read "
                "the corpus by sentences.",
            )
        limit.halve(batch.pieces)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    for half in batch.halves():
        yield from in_halves(run, half, limit, within=within)


Part = tuple[Tensor, Tensor | int, Sequence[Tensor | None]]  # mean loss, of how many, its gradients


def averaged(parts: Iterable[Part], weights: Sequence[Tensor]) -> Tensor:
    """The mean loss of all parts of a step, whose gradient is left in the weights.

    A part in which nothing is asked counts for nothing. Gradients are laid out in memory as their
    weights are, which fused optimisers take for granted, and no two weights share one.
    """
    loss, number, first = torch.zeros(()), torch.zeros(()), True
    for own, several, slopes in parts:
        number = several + number.to(own.device)
        share = several / number.clamp(min=1)
        loss = own if first else loss * (1 - share) + own * share
        seen: set[int] = set()
        for weight, slope in zip(weights, slopes, strict=True):
            here = share.to(weight.device)
            if not first and weight.grad is not None:
                weight.grad = weight.grad * (1 - here)
            if slope is None:
                continue
            dense = slope.contiguous() if first else (slope * here).contiguous()
            if dense.data_ptr() in seen:  # of a sum of two weights autograd returns one tensor
                dense = dense.clone()
            seen.add(dense.data_ptr())
            weight.grad = dense if weight.grad is None else weight.grad + dense
        first = False
    return loss
