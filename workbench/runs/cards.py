"""The GPUs of this machine by UUID, so that all processes mean the same card by the same name.

`cuda:1` is the second card that this process may see; `CUDA_VISIBLE_DEVICES` decides which one that
is. The driver's library (NVML) tells UUIDs without CUDA, in the order of `nvidia-smi`; that is also
CUDA's order where all cards are alike. A process of a run's own is left with its card alone, which
is `cuda:0` in there, so the other cards get neither a context nor a byte. Costs milliseconds.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from workbench.errors import WorkbenchError

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
    if not torch.cuda.is_available():
        raise WorkbenchError(
            "no CUDA device was found.", remedy="Use cpu, or see workbench doctor."
        )
    with torch.cuda.device(card.index):
        yield card.device
