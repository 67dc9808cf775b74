"""How much memory this machine has, and how much of it a process may use.

A process that opens files of strangers limits itself before it reads them. Where the system has no
such limit (Windows; macOS has it and does not keep it) nothing happens. Costs a system call.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

UNKNOWN = 8 << 30  # bytes taken for granted where the system does not tell
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Bytes of memory of this machine, or of the container that this process lives in."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        found = UNKNOWN
    for file in _CONTAINER:
        with suppress(OSError, ValueError):  # ValueError: it says "max"
            found = min(found, int(Path(file).read_text()))
    return found


def limit_memory(most: int) -> None:
    """From now on, allocations of this process beyond so many bytes fail as a `MemoryError`.

    Only what can be written counts: weights that are mapped from files take no memory of their own.
    """
    if sys.platform == "win32":
        return
    import resource

    with suppress(OSError, ValueError):  # a lower limit holds already, or there is none to set
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def ran_out(error: BaseException) -> bool:
    """Whether an error, or one that it was raised in place of, says that memory ran out."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or "allocate memory" in str(seen):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
