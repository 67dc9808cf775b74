"""This machine: its memory, its GPU, what a stretch of work takes, and where things are kept.

A process that opens files of strangers limits its memory before it reads them. Where the system has
no such limit (Windows; macOS has it and does not keep it) nothing happens. torch is imported only
when a GPU is asked about. Costs a system call, or reading a small file.
"""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    import torch

UNKNOWN = 8 << 30  # bytes taken for granted where the system does not tell
MEBI = 2**20
_SELF = Path("/proc/self")
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


# --- devices, and what a stretch of work takes ----------------------------------------------------


def require_cuda() -> None:
    """An error where torch sees no GPU."""
    import torch

    if not torch.cuda.is_available():
        raise WorkbenchError(
            "no CUDA device was found.", remedy="Use cpu, or see workbench doctor."
        )


def free_memory(device: "torch.device") -> int:
    """Bytes that this process can still have on a card: torch keeps some that it does not use."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return int(free)
    spare = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free) + int(spare)


def peak_memory(device: str) -> dict[str, int]:
    """The most bytes this process has held, of the processor's memory and of its own GPU's."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    peak = {"cpu": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
    torch = sys.modules.get("torch")
    if torch is not None and device.startswith("cuda"):
        peak["cuda"] = int(torch.cuda.max_memory_allocated(device))
    return peak


@dataclass
class Stretch:
    """What a stretch of work took, known when it is over."""

    seconds: float = math.nan
    memory: float = math.nan  # MiB at most; NaN where the system cannot tell


@contextmanager
def stretch(device: "torch.device") -> Iterator[Stretch]:
    """Time a stretch of work, and watch its memory: of a GPU by torch, else the process by Linux.

    A GPU has done all of it when the time is taken.
    """
    found = Stretch()
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.synchronize(device)
        started = perf_counter()
        yield found
        torch.cuda.synchronize(device)
        found.seconds = perf_counter() - started
        found.memory = torch.cuda.max_memory_allocated(device) / MEBI
        return
    known, started = _reset(), perf_counter()
    yield found
    found.seconds = perf_counter() - started
    found.memory = _highest() if known else math.nan


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


# --- places: where things are kept ----------------------------------------------------------------
#
# Where things are kept on this machine, and where the app's own files lie. Costs a few lookups.

ALLOWED = "WORKBENCH_ALLOWED"  # folders, where only some may be read; set by an app that is shared


def home() -> Path:
    """Where what is fetched lies, and may be deleted: `WORKBENCH_HOME`, else the user's cache."""
    if named := os.environ.get("WORKBENCH_HOME"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "workbench"


def runs() -> Path:
    """The folder of runs: `WORKBENCH_RUNS`, else `runs` where one works: a study keeps its own."""
    if named := os.environ.get("WORKBENCH_RUNS"):
        return Path(named).expanduser().absolute()
    return Path.cwd() / "runs"


def require_allowed(path: Path) -> Path:
    """The path, unless only some folders may be read here and it lies in none of them.

    An app that listens beyond its own machine limits what is typed to the folders it was started
    with, and to its own: runs, what it has fetched or been sent, and what comes with Workbench.
    """
    named = os.environ.get(ALLOWED)
    if named is None:
        return path
    folders = [Path(folder) for folder in named.split(os.pathsep) if folder]
    folders += [home(), runs(), Path(__file__).resolve().parents[1]]
    real = path.expanduser().resolve()
    if not any(real.is_relative_to(folder.resolve()) for folder in folders):
        raise WorkbenchError(
            "this app may not read here.",
            where=str(path),
            remedy="Upload the file, or start the app with --allow FOLDER.",
        )
    return path


def app_file() -> Path:
    """The app's script, with its `pages` beside it: inside an installed wheel, or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "app", package.parent):
        if (folder / "streamlit_app.py").is_file() and (folder / "pages").is_dir():
            return folder / "streamlit_app.py"
    raise WorkbenchError(
        "the app's files are not there.",
        where=str(package),
        remedy="Install Workbench anew; in its checkout run: pip install --no-deps -e .",
    )
