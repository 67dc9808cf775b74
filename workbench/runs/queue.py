"""A line before each device of this machine: one job at a time, in the order they came.

A job draws a numbered ticket and holds its lock; the first in line whose device is free goes. A job
that dies frees ticket and device, for the system frees its locks. Waiting costs a look at a folder
five times a second.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from workbench import places
from workbench.runs import locks

EVERY = 0.2  # seconds between looks


def slots(device: str) -> list[str]:
    """The places that would do for a device: `cuda` is any GPU, `cuda:1` that one."""
    if device != "cuda":
        return [device]
    import torch

    return [f"cuda:{number}" for number in range(max(1, torch.cuda.device_count()))]


@contextmanager
def turn(device: str, waiting: Callable[[int], None]) -> Iterator[str]:
    """Wait for a device and hold it through the block; `waiting` is told how many are before."""
    folder = places.home() / "queue" / socket.gethostname()
    wanted = slots(device)
    number, ticket = _draw(folder, wanted)
    held: int | None = None
    try:
        told = -1
        while True:
            before = _before(folder, number, wanted)
            for slot in wanted if not before else ():
                held = locks.take(folder / f"{slot.replace(':', '-')}.slot")
                if held is not None:
                    break
            if held is not None:
                break
            if before != told:
                waiting(before)
                told = before
            time.sleep(EVERY)
    finally:
        (folder / f"{number:012d}.ticket").unlink(missing_ok=True)
        os.close(ticket)
    try:
        yield slot
    finally:
        os.close(held)


def _draw(folder: Path, wanted: Sequence[str]) -> tuple[int, int]:
    """A number above all others, and its ticket, which is held."""
    counter = folder / "counter"
    with locks.held(folder / "counter.lock"):
        numbers = [int(path.stem) for path in folder.glob("*.ticket")]
        with suppress(OSError, ValueError):
            numbers.append(int(counter.read_text()))
        number = max(numbers, default=0) + 1
        counter.write_text(str(number))
        path = folder / f"{number:012d}.ticket"
        ticket = locks.take(path)
        assert ticket is not None, "a new number has no other holder"
        os.write(ticket, " ".join(wanted).encode())
    return number, ticket


def _before(folder: Path, number: int, wanted: Sequence[str]) -> int:
    """How many wait for one of these places and came earlier; what the dead left is removed."""
    before = 0
    for path in sorted(folder.glob("*.ticket")):
        if int(path.stem) >= number:
            break
        try:
            overlap = set(path.read_text().split()) & set(wanted)
        except OSError:
            continue
        if not locks.is_held(path):
            path.unlink(missing_ok=True)
        elif overlap:
            before += 1
    return before
