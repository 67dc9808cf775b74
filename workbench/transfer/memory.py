"""The most memory that a stretch of work takes: of a GPU by torch, else of the process by Linux.

Where the system cannot tell, there is no number. Costs reading a small file.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

MEBI = 2**20
_SELF = Path("/proc/self")


@dataclass
class Peak:
    """MiB at most, told when the stretch is over; NaN where nobody knows."""

    value: float = math.nan


@contextmanager
def peak(device: torch.device) -> Iterator[Peak]:
    """Watch a stretch of work."""
    found = Peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield found
        found.value = torch.cuda.max_memory_allocated(device) / MEBI
        return
    known = _reset()
    yield found
    found.value = _highest() if known else math.nan


def _reset() -> bool:
    """Let the system count from here on."""
    try:
        (_SELF / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _highest() -> float:
    try:
        lines = (_SELF / "status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration, ValueError):
        return math.nan
