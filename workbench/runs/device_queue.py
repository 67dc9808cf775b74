"""A line before each device of this machine: one job at a time, in the order they came.

A job draws a numbered ticket and holds its lock; the first in line whose device is free goes. A job
that dies frees ticket and device, for the system frees its locks. A GPU's place is named by its
UUID, whatever index the process knows it by. Waiting costs a look at a folder five times a second.
"""

import os
import re
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import open_to_add, read_regular
from workbench.core.machine import require_cuda
from workbench.runs import locks

# --- GPUs by UUID ---------------------------------------------------------------------------------
#
# The GPUs of this machine by UUID, so that all processes mean the same card by the same name.
#
# `cuda:1` is the second card that this process may see; `CUDA_VISIBLE_DEVICES` decides which one
# that is. The driver's library (NVML) tells UUIDs without CUDA, in the order of `nvidia-smi`;
# that is also CUDA's order where all cards are alike. A process of a run's own is left with its
# card alone, which is `cuda:0` in there, so the other cards get neither a context nor a byte.
# Costs milliseconds.

VISIBLE = "CUDA_VISIBLE_DEVICES"
_SHORT = len("GPU-01234567")  # of a UUID: enough to tell the cards of a machine apart


@dataclass(frozen=True)
class Card:
    """A GPU that this process may see."""

    index: int  # of `cuda:1`, in this process
    key: str  # its name for all processes of the machine: a UUID, or its number where none is known
    has_uuid: bool

    @property
    def device(self) -> str:
        return f"cuda:{self.index}"

    @property
    def title(self) -> str:
        """The card as a user knows it."""
        if not self.has_uuid:
            return self.device
        short = self.key if self.key.startswith("MIG-") else self.key[:_SHORT]
        return f"{self.device} ({short})"


def fitting(device: str) -> list[Card]:
    """The cards that would do for a device: `cuda` is any that is visible, `cuda:1` that one."""
    found = visible()
    if device == "cuda":
        return found
    index = int(device.partition(":")[2])
    if index >= len(found):
        raise WorkbenchError(
            f"there is no {device}: this process sees {len(found)} GPUs.",
            where=f"{VISIBLE}={os.environ[VISIBLE]}" if VISIBLE in os.environ else "",
            remedy="Say cuda for any of them; workbench doctor lists them.",
        )
    return [found[index]]


def visible() -> list[Card]:
    """Every card that this process may see, in its own order; CUDA is not started for it."""
    import torch

    named: list[int] | list[str] = torch.cuda._parse_visible_devices()
    if _is_running():
        keys = [_told_by_cuda(index) for index in range(torch.cuda.device_count())]
    elif (known := _told_by_driver()) is not None:
        keys = list(_resolved(named, known))
    elif named and isinstance(named[0], str):
        keys = [str(one) for one in named]
    else:
        keys = [str(one) for one in named[: torch.cuda.device_count()]]
    return [Card(index, key, not key.isdecimal()) for index, key in enumerate(keys or ["0"])]


def _is_running() -> bool:
    """Whether CUDA has been started in this process."""
    import torch

    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _told_by_driver() -> list[str] | None:
    """The UUID of every card of the machine; None where the driver's library does not tell."""
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.cuda._raw_device_uuid_nvml()
    except (OSError, AttributeError):
        return None


def _told_by_cuda(index: int) -> str:
    """The UUID of a card where CUDA runs already; part of a card (MIG) goes by its own name."""
    import torch

    named = [str(one) for one in torch.cuda._parse_visible_devices()][index : index + 1]
    if named and named[0].startswith("MIG-"):
        return named[0]
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    return f"GPU-{uuid}" if uuid is not None else str(index)


def _resolved(named: list[int] | list[str], known: list[str]) -> Iterator[str]:
    """The UUIDs of what the environment names; CUDA reads it up to the first that is not there."""
    for one in named:
        if isinstance(one, int):
            found = known[one : one + 1]
        elif one.startswith("MIG-"):
            found = [one]
        else:
            found = [uuid for uuid in known if uuid.startswith(one)]  # may be shortened
        if len(found) != 1:
            return
        yield found[0]


@contextmanager
def on(card: Card, alone: bool) -> Iterator[str]:
    """Compute on this card through the block; what torch calls it in there.

    `alone` where the process is the run's own: it loses sight of the other cards for good.
    """
    import torch

    if alone and card.has_uuid and not _is_running():
        os.environ[VISIBLE] = card.key
        yield "cuda:0"
        return
    require_cuda()
    with torch.cuda.device(card.index):
        yield card.device


# --- waiting for a device -------------------------------------------------------------------------

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
    return [Slot(_name(card), card) for card in fitting(device)]


def _name(card: Card) -> str:
    """A name that can be a file's: that of a MIG device may have slashes."""
    return re.sub(r"[^\w.-]", "-", card.key if card.has_uuid else f"cuda-{card.key}")


@contextmanager
def turn(device: str, waiting: Callable[[int], None]) -> Iterator[Slot]:
    """Wait for a device and hold it through the block; `waiting` hears how many are before."""
    folder = machine.home() / "queue" / socket.gethostname()
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
