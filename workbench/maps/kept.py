"""What was made is kept until there is too much of it: the least lately used goes first.

    KEPT.get(key, make)     # made once, by whoever asks first; others wait for it

Bounded by bytes, not by number; what alone is larger than the bound is kept until the next comes.
Safe among threads. Costs nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes held."""
        ...


T = TypeVar("T", bound=Sized)


class Kept(Generic[T]):
    """Values by key, at most so many bytes of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this key, made where it is not there."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
            value = make()
            self._held[key] = value
            while len(self._held) > 1 and self.size > self.most:
                self._held.popitem(last=False)
            return value

    @property
    def size(self) -> int:
        """Bytes held in all."""
        with self._lock:
            return sum(value.size for value in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._held.clear()
