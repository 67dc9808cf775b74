"""This machine: its memory, its GPU, the time and memory of a computation, and where files are.

A process that opens untrusted files limits its memory before it reads them. On systems without such
a limit (Windows; macOS does not enforce it) nothing happens. torch is imported only for questions
about a GPU. Costs: a system call, or reading a small file.
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

UNKNOWN = 8 << 30  # bytes assumed where the system does not report its memory
MEBI = 2**20
_SELF = Path("/proc/self")
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine_memory() -> int:
    """Return the memory of this machine in bytes, or of the container of this process."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        memory = UNKNOWN
    for file in _CONTAINER:
        with suppress(OSError, ValueError):  # ValueError: the file contains "max"
            memory = min(memory, int(Path(file).read_text()))
    return memory


def limit_memory(maximum: int) -> None:
    """Limit the memory of this process in bytes: allocations beyond it raise a `MemoryError`.

    Only writable memory counts; weights that are memory-mapped from files do not.
    """
    if sys.platform == "win32":
        return
    import resource

    with suppress(OSError, ValueError):  # a lower limit is set already, or none can be set
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard != resource.RLIM_INFINITY:
            maximum = min(maximum, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (maximum, maximum))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, says that memory ran out."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError) or "allocate memory" in str(cause):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


# --- devices, and the time and memory of a computation --------------------------------------------

_GPU_FILES = ("nvidiactl", "nvidia0", "dxg", "kfd")  # of NVIDIA, also in WSL, and of AMD


def has_no_gpu() -> bool:
    """Return whether torch certainly finds no GPU here; torch is not imported."""
    if sys.platform == "darwin":
        return True
    if sys.platform != "linux" or any(Path("/dev", name).exists() for name in _GPU_FILES):
        return False
    from ctypes import CDLL

    try:
        CDLL("libcuda.so.1")
    except OSError:
        return True
    return False


def require_cuda() -> None:
    """Raise an error if torch sees no GPU."""
    import torch

    if not torch.cuda.is_available():
        raise WorkbenchError(
            "no CUDA device was found.", code="no-gpu", remedy="Use cpu, or see workbench doctor."
        )


def free_memory(device: "torch.device") -> int:
    """Return the GPU memory in bytes that this process can use, with what torch has reserved."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return int(free)
    reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free) + int(reserved)


def peak_memory(device: str) -> dict[str, int]:
    """Return the peak memory of this process in bytes, on the CPU and on its GPU."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    peak = {"cpu": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
    torch = sys.modules.get("torch")
    if torch is not None and device.startswith("cuda"):
        peak["cuda"] = int(torch.cuda.max_memory_allocated(device))
    return peak


@dataclass
class Stretch:
    """The time and memory of a computation, set when it ends."""

    seconds: float = math.nan
    memory: float = math.nan  # peak in MiB; NaN where the system does not report it


@contextmanager
def stretch(device: "torch.device") -> Iterator[Stretch]:
    """Measure the time and peak memory of the block: GPU memory by torch, else process memory.

    GPUs are synchronised before the time is read.
    """
    measured = Stretch()
    if device.type == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.synchronize(device)
        started = perf_counter()
        yield measured
        torch.cuda.synchronize(device)
        measured.seconds = perf_counter() - started
        measured.memory = torch.cuda.max_memory_allocated(device) / MEBI
        return
    is_known, started = _reset_peak(), perf_counter()
    yield measured
    measured.seconds = perf_counter() - started
    measured.memory = _peak() if is_known else math.nan


def _reset_peak() -> bool:
    """Reset the peak memory that Linux reports for this process; return whether that worked."""
    try:
        (_SELF / "clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak() -> float:
    """Return the peak memory of this process in MiB."""
    try:
        lines = (_SELF / "status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration, ValueError):
        return math.nan


# --- folders of Workbench on this machine ---------------------------------------------------------
#
# Costs: a few lookups.

ALLOWED = "WORKBENCH_ALLOWED"  # the folders that a shared app may read; unset: all


def home() -> Path:
    """Return the folder of downloads and caches: `WORKBENCH_HOME`, else in the user's cache."""
    if named := os.environ.get("WORKBENCH_HOME"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "workbench"


def runs() -> Path:
    """Return the folder of runs: `WORKBENCH_RUNS`, else `runs` in the current folder."""
    if named := os.environ.get("WORKBENCH_RUNS"):
        return Path(named).expanduser().absolute()
    return Path.cwd() / "runs"


def require_allowed(path: Path) -> Path:
    """Return the path, or raise an error if this app may not read it.

    An app that serves other machines reads only the folders it was started with, and its own: runs,
    downloads, uploads, and the files that come with Workbench.
    """
    named = os.environ.get(ALLOWED)
    if named is None:
        return path
    folders = [Path(folder) for folder in named.split(os.pathsep) if folder]
    folders += [home(), runs(), Path(__file__).resolve().parents[1]]
    real = path.expanduser().resolve()
    if not any(real.is_relative_to(folder.resolve()) for folder in folders):
        raise WorkbenchError(
            "this app may not read this path.",
            code="path-not-allowed",
            where=str(path),
            remedy="Upload the file, or start the app with --allow FOLDER.",
        )
    return path


def app_file() -> Path:
    """Return the path of the app's script: inside an installed wheel, or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "app", package.parent):
        if (folder / "streamlit_app.py").is_file() and (folder / "pages").is_dir():
            return folder / "streamlit_app.py"
    raise WorkbenchError(
        "the app's files are missing.",
        code="installation-incomplete",
        where=str(package),
        remedy="Install Workbench again; in its checkout run: pip install --no-deps -e .",
    )
