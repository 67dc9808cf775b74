"""Work in the background waits while a page is drawn, so that visitors do not wait for it.

Threads of one process take turns in Python: an index that is being made would make every page take
seconds. Costs: nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock

LONGEST = 1.0  # seconds that a step of the work waits for a page
_lock = Lock()
_drawn = 0  # pages that are being drawn
_free = Event()
_free.set()


@contextmanager
def drawing() -> Iterator[None]:
    """While a page is drawn."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


@contextmanager
def waiting() -> Iterator[None]:
    """While a page that is drawn waits for work in the background."""
    _count(-1)
    try:
        yield
    finally:
        _count(1)


def let_pages_be_drawn() -> None:
    """Wait, between two steps of work in the background, until no page is being drawn."""
    _free.wait(LONGEST)


def _count(change: int) -> None:
    global _drawn
    with _lock:
        _drawn += change
        _free.clear() if _drawn > 0 else _free.set()
