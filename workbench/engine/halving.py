"""Out of memory: a batch that does not fit is computed in halves, whatever is computed of it.

`in_halves` calls a function for a batch and, where the device's memory does not suffice, for its
halves, and theirs; a `Limit` remembers what did not fit, so that the batches after it are not tried
in vain. What the function made before it failed is dropped, so it must change nothing outside until
it can no longer fail. Costs nothing where memory suffices.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch

from workbench.errors import WorkbenchError

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


R = TypeVar("R", bound=Rows)
T = TypeVar("T")


def in_halves(run: Callable[[R], T], batch: R, limit: Limit) -> Iterator[tuple[R, T]]:
    """What `run` makes of a batch, or of each part of it that fits into memory."""
    if batch.pieces <= limit.pieces or len(batch) < 2:
        found: list[T] = []
        with suppress(torch.OutOfMemoryError):  # whose traceback holds all that was made
            found.append(run(batch))
        if found:
            yield batch, found.pop()
            return
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
        yield from in_halves(run, half, limit)
