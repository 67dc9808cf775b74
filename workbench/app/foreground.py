"""Work in the background waits while a page is drawn, so that visitors do not wait for it.

Threads of one process take turns in Python: an index that is being made would make every page take
seconds. Costs: nothing.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

LONGEST = 1.0  # seconds that a step of the work waits for pages
SENDING = 0.3  # seconds after a page is drawn in which it is sent to the browser
_lock = Lock()
_drawn = 0  # pages that are being drawn
_ended = 0.0  # when the last one was


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
    _count(-1, ended=0.0)
    try:
        yield
    finally:
        _count(1)


def let_pages_be_drawn() -> None:
    """Wait, between two steps of work in the background, until no page is being drawn."""
    until = time.monotonic() + LONGEST
    while (_drawn or time.monotonic() - _ended < SENDING) and time.monotonic() < until:
        time.sleep(0.01)


def _count(change: int, ended: float | None = None) -> None:
    global _drawn, _ended
    with _lock:
        _drawn += change
        _ended = time.monotonic() if ended is None else ended
