"""A line before each device of this machine: one job at a time, in the order they came.

A job draws a numbered ticket and holds its lock; the first in line whose device is free goes. A job
that dies frees ticket and device, for the system frees its locks. A GPU's place is named by its
UUID, whatever index the process knows it by. Waiting costs a look at a folder five times a second.
"""

import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workbench import places
from workbench.errors import WorkbenchError
from workbench.files import open_to_add, read_regular
from workbench.runs import cards, locks
from workbench.runs.cards import Card

EVERY = 0.2  # seconds between looks


@dataclass(frozen=True)
class Slot:
    """A place that one job at a time holds: the processor, or a card."""

    name: str  # the same in every process of the machine
    card: Card | None = None

    @property
    def title(self) -> str:
        """What a user knows it by."""
        return self.card.title if self.card else self.name


def slots(device: str) -> list[Slot]:
    """The places that would do for a device: `cuda` is any GPU, `cuda:1` that one."""
    if not device.startswith("cuda"):
        return [Slot(device)]
    return [Slot(_name(card), card) for card in cards.fitting(device)]


def _name(card: Card) -> str:
    """A name that can be a file's: that of a MIG device may have slashes."""
    return re.sub(r"[^\w.-]", "-", card.key if card.has_uuid else f"cuda-{card.key}")


@contextmanager
def turn(device: str, waiting: Callable[[int], None]) -> Iterator[Slot]:
    """Wait for a device and hold it through the block; `waiting` hears how many are before."""
    folder = places.home() / "queue" / socket.gethostname()
    try:
        slot, held = _waited(folder, slots(device), waiting)
    except OSError as error:
        raise WorkbenchError(
            f"cannot wait for {device} here: {error.strerror or error}.",
            where=str(folder),
            remedy="Name a folder you may write to in WORKBENCH_HOME, or run it with --share.",
        ) from None
    try:
        yield slot
    finally:
        os.close(held)


def _waited(
    folder: Path, wanted: Sequence[Slot], waiting: Callable[[int], None]
) -> tuple[Slot, int]:
    """The place that became free for us, and its lock."""
    names = [slot.name for slot in wanted]
    number, ticket = _draw(folder, names)
    try:
        while True:
            before = _before(folder, number, names)
            for slot in wanted if not before else ():
                held = locks.take(folder / f"{slot.name}.slot")
                if held is not None:
                    return slot, held
            waiting(before)
            time.sleep(EVERY)
    finally:
        (folder / f"{number:012d}.ticket").unlink(missing_ok=True)
        os.close(ticket)


def _draw(folder: Path, wanted: Sequence[str]) -> tuple[int, int]:
    """A number above all others, and its ticket, which is held."""
    counter = folder / "counter"
    with locks.held(folder / "counter.lock"):
        numbers = [number for number, _ in _tickets(folder)]
        with suppress(OSError, ValueError):
            numbers.append(int(read_regular(counter)))
        number = max(numbers, default=0) + 1
        with os.fdopen(open_to_add(counter, os.O_TRUNC), "w") as file:
            file.write(str(number))
        ticket = locks.take(folder / f"{number:012d}.ticket")
        assert ticket is not None, "a new number has no other holder"
        os.write(ticket, " ".join(wanted).encode())
    return number, ticket


def _tickets(folder: Path) -> list[tuple[int, Path]]:
    """All tickets, in order."""
    paths = folder.glob("*.ticket")
    return sorted((int(path.stem), path) for path in paths if path.stem.isdecimal())


def _before(folder: Path, number: int, wanted: Sequence[str]) -> int:
    """How many wait for one of these places and came earlier; what the dead left is removed."""
    before = 0
    for other, path in _tickets(folder):
        if other >= number:
            break
        try:
            overlap = set(read_regular(path).decode().split()) & set(wanted)
        except (OSError, ValueError):
            continue
        if not locks.is_held(path):
            with suppress(OSError):
                path.unlink()
        elif overlap:
            before += 1
    return before
