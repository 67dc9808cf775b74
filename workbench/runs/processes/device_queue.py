"""A queue for each device of this machine: one job at a time, in order of arrival.

A job takes a numbered ticket and holds its lock; the first job in the queue whose device is free
starts. A job that dies frees its ticket and its device, because the system frees its locks. A GPU
is identified by its UUID, so all processes share its queue. Costs: a check of a folder five times a
second while waiting.
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
from typing import NamedTuple

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import open_for_append, read_regular
from workbench.core.machine import require_cuda
from workbench.runs.processes import locks

# --- GPUs by UUID ---------------------------------------------------------------------------------
#
# The GPUs of this machine by UUID, so that all processes use the same name for a GPU.
#
# `cuda:1` is the second GPU that this process can see; `CUDA_VISIBLE_DEVICES` decides which one
# that is. The driver's library (NVML) reports UUIDs without CUDA, in the order of `nvidia-smi`;
# that is also CUDA's order if all GPUs are of one type. The process of a run sees only its own
# GPU, as `cuda:0`, so it creates no context and uses no memory on other GPUs. Costs: milliseconds.

VISIBLE = "CUDA_VISIBLE_DEVICES"
_SHORT = len("GPU-01234567")  # of a UUID: identifies a GPU on one machine


@dataclass(frozen=True)
class Card:
    """A GPU that this process can see."""

    index: int  # of `cuda:1`, in this process
    key: str  # its name in all processes of the machine: its UUID if known, else its index
    has_uuid: bool

    @property
    def device(self) -> str:
        return f"cuda:{self.index}"

    @property
    def title(self) -> str:
        """Return the name of the GPU for users."""
        if not self.has_uuid:
            return self.device
        short = self.key if self.key.startswith("MIG-") else self.key[:_SHORT]
        return f"{self.device} ({short})"


def fitting(device: str) -> list[Card]:
    """Return the GPUs that match a device: `cuda` is any visible GPU, `cuda:1` the second."""
    cards = visible()
    if device == "cuda":
        return cards
    index = int(device.partition(":")[2])
    if index >= len(cards):
        raise WorkbenchError(
            f"there is no {device}: this process sees {len(cards)} GPUs.",
            code="no-gpu",
            where=f"{VISIBLE}={os.environ[VISIBLE]}" if VISIBLE in os.environ else "",
            remedy="Use cuda for any of them; workbench doctor lists them.",
        )
    return [cards[index]]


def visible() -> list[Card]:
    """Return all GPUs that this process can see, in its order, without starting CUDA."""
    import torch

    named: list[int] | list[str] = torch.cuda._parse_visible_devices()
    if _is_running():
        keys = [_uuid_from_cuda(index) for index in range(torch.cuda.device_count())]
    elif (known := _uuids_from_driver()) is not None:
        keys = list(_resolved(named, known))
    elif named and isinstance(named[0], str):
        keys = [str(one) for one in named]
    else:
        keys = [str(one) for one in named[: torch.cuda.device_count()]]
    return [Card(index, key, not key.isdecimal()) for index, key in enumerate(keys or ["0"])]


def _is_running() -> bool:
    """Return whether CUDA is started in this process."""
    import torch

    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _uuids_from_driver() -> list[str] | None:
    """Return the UUIDs of all GPUs of the machine; None if the driver does not report them."""
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):
            return torch.cuda._raw_device_uuid_nvml()
    except (OSError, AttributeError):
        return None


def _uuid_from_cuda(index: int) -> str:
    """Return the UUID of a GPU if CUDA is started; a part of a GPU (MIG) has its own name."""
    import torch

    named = [str(one) for one in torch.cuda._parse_visible_devices()][index : index + 1]
    if named and named[0].startswith("MIG-"):
        return named[0]
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    return f"GPU-{uuid}" if uuid is not None else str(index)


def _resolved(named: list[int] | list[str], known: list[str]) -> Iterator[str]:
    """Yield the UUIDs of the GPUs in the environment; as in CUDA, up to the first unknown one."""
    for one in named:
        if isinstance(one, int):
            matches = known[one : one + 1]
        elif one.startswith("MIG-"):
            matches = [one]
        else:
            matches = [uuid for uuid in known if uuid.startswith(one)]  # may be shortened
        if len(matches) != 1:
            return
        yield matches[0]


@contextmanager
def on(card: Card, alone: bool) -> Iterator[str]:
    """Use this GPU during the block; yield its name in torch.

    `alone`: the process belongs to one run, and no longer sees other GPUs, also after the block.
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

EVERY = 0.2  # seconds between checks


@dataclass(frozen=True)
class Slot:
    """A device that one job at a time uses: the CPU, or a GPU."""

    name: str  # the same in every process of the machine
    card: Card | None = None

    @property
    def title(self) -> str:
        """Return the name of the device for users."""
        return self.card.title if self.card else self.name


def slots(device: str) -> list[Slot]:
    """Return the slots that match a device: `cuda` is any GPU, `cuda:1` the second."""
    if not device.startswith("cuda"):
        return [Slot(device)]
    return [Slot(_name(card), card) for card in fitting(device)]


def _name(card: Card) -> str:
    """Return a name that is valid as a file name; names of MIG devices may have slashes."""
    return re.sub(r"[^\w.-]", "-", card.key if card.has_uuid else f"cuda-{card.key}")


class Ahead(NamedTuple):
    """The jobs before another in a queue, by the folders of their runs; "" for other jobs."""

    running: tuple[str, ...]
    queued: tuple[str, ...]


@contextmanager
def turn(device: str, waiting: Callable[[Ahead], None], job: str = "") -> Iterator[Slot]:
    """Wait for a device and hold it during the block; `waiting` gets the jobs ahead.

    `job` is the folder of the run that waits, for those behind it.
    """
    folder = machine.home() / "queue" / socket.gethostname()
    try:
        slot, held = _waited(folder, slots(device), waiting, job)
    except OSError as error:
        raise WorkbenchError(
            f"the run cannot queue for {device}: {error.strerror or error}.",
            code="file-unwritable",
            where=str(folder),
            remedy="Set WORKBENCH_HOME to a folder you may write to. Or add --share: the run then "
            "does not queue.",
        ) from None
    try:
        yield slot
    finally:
        with suppress(OSError):
            os.ftruncate(held, 0)
        os.close(held)


def _waited(
    folder: Path, options: Sequence[Slot], waiting: Callable[[Ahead], None], job: str
) -> tuple[Slot, int]:
    """Wait until one of the slots is free for this job; return it and its lock."""
    names = [slot.name for slot in options]
    number, ticket = _draw(folder, names, job)
    try:
        while True:
            queued = _before(folder, number, names)
            for slot in options if not queued else ():
                held = locks.take(folder / f"{slot.name}.slot")
                if held is not None:
                    os.ftruncate(held, 0)  # of a job that was killed
                    os.write(held, os.fsencode(job))
                    return slot, held
            waiting(Ahead(tuple(_running(folder, names)), queued))
            time.sleep(EVERY)
    finally:
        (folder / f"{number:012d}.ticket").unlink(missing_ok=True)
        os.close(ticket)


def _running(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield the jobs that hold these slots."""
    for name in names:
        path = folder / f"{name}.slot"
        if locks.is_held(path):
            with suppress(OSError):
                yield os.fsdecode(read_regular(path))


def _draw(folder: Path, names: Sequence[str], job: str) -> tuple[int, int]:
    """Take a ticket with the next number; return the number and the lock of the ticket."""
    counter = folder / "counter"
    with locks.held(folder / "counter.lock"):
        numbers = [number for number, _ in _tickets(folder)]
        with suppress(OSError, ValueError):
            numbers.append(int(read_regular(counter)))
        number = max(numbers, default=0) + 1
        with os.fdopen(open_for_append(counter, os.O_TRUNC), "w") as file:
            file.write(str(number))
        ticket = locks.take(folder / f"{number:012d}.ticket")
        assert ticket is not None, "a new number has no other holder"
        os.write(ticket, os.fsencode(f"{' '.join(names)}\n{job}"))
    return number, ticket


def _tickets(folder: Path) -> list[tuple[int, Path]]:
    """Return all tickets, in order."""
    paths = folder.glob("*.ticket")
    return sorted((int(path.stem), path) for path in paths if path.stem.isdecimal())


def _before(folder: Path, number: int, names: Sequence[str]) -> tuple[str, ...]:
    """Return the jobs ahead in the queues of these slots; remove tickets of dead jobs."""
    before = []
    for other, path in _tickets(folder):
        if other >= number:
            break
        try:
            theirs, _, job = os.fsdecode(read_regular(path)).partition("\n")
        except OSError:
            continue
        if not locks.is_held(path):
            with suppress(OSError):
                path.unlink()
        elif set(theirs.split()) & set(names):
            before.append(job)
    return tuple(before)
