"""What the process of a run may use of this machine: its environment, priority and threads.

Runs on a CPU give way to whatever a user does meanwhile: they have a lower priority, and those that
do not wait for their turn use the cores that no other run computes on. Limits that the user set are
kept. Costs: a few system calls, and a small file while a run computes.
"""

import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.runs.processes import locks

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
NICE = 5  # of 19; the priority of a run on a CPU
PRIORITY = os.nice(0)  # of this process, before it is lowered
_AUTOGROUP = Path("/proc/self/autogroup")


def environment(threads: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a run's process; `threads` replaces the thread limits."""
    variables = {**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false"}
    if threads is not None:
        for name in THREADS:
            variables.pop(name, None)
        variables |= threads
    return variables


def thread_limits() -> dict[str, str]:
    """Return the thread limits in the environment of this process."""
    return {name: os.environ[name] for name in THREADS if name in os.environ}


def lower_priority() -> None:
    """Lower the priority of this process, and of the session that Linux schedules it with."""
    with suppress(OSError):
        lowered = os.nice(max(0, NICE - os.nice(0)))
        for _ in range(5):  # Linux takes one such change every tenth of a second
            with suppress(BlockingIOError):
                _AUTOGROUP.write_text(str(lowered))  # else it counts within its session only
                return
            time.sleep(0.1)


def n_threads() -> int:
    """Return the number of threads that this process computes with."""
    if torch := sys.modules.get("torch"):
        return int(torch.get_num_threads())
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return int(limit) if limit.isdecimal() else n_cores()


def set_threads(n_threads: int) -> None:
    """Compute with this number of threads from here on, in the libraries that are imported."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(n_threads)
    _set_threads_of_others(n_threads, n_threads)


def restore_threads() -> None:
    """Compute with the threads that the environment names, in a process forked from another.

    Libraries read those variables when they are imported, which was in the other process.
    """
    limits = {name: int(text) for name, text in thread_limits().items() if text.isdecimal()}
    openmp = limits.get("OMP_NUM_THREADS") or limits.get("MKL_NUM_THREADS")
    if openmp and (torch := sys.modules.get("torch")):
        torch.set_num_threads(openmp)
    _set_threads_of_others(limits.get("OPENBLAS_NUM_THREADS") or openmp or n_cores(), openmp)


def _set_threads_of_others(blas: int, openmp: int | None = None) -> None:
    """Set the threads of BLAS and OpenMP libraries that other packages than torch have loaded."""
    if "numpy" not in sys.modules:
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(blas, "blas")
    if openmp:
        threadpool_limits(openmp, "openmp")


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def computing(gives_way: bool) -> Iterator[None]:
    """Count this process during the block among those that compute runs on the CPU.

    One that gives way uses only the cores that the others leave, at least one, unless the user set
    a limit. The last digits of some results depend on the number of threads, so a run that
    waited for its turn always computes with the same number.
    """
    folder = machine.home() / "queue" / socket.gethostname() / "computing"
    held = None
    try:
        with suppress(OSError, WorkbenchError):  # a read-only home: the others are not known
            folder.mkdir(parents=True, exist_ok=True)
            held = locks.take(folder / str(os.getpid()))
            free = max(1, n_cores() - _n_others(folder))
            if gives_way and not thread_limits() and free < n_threads():
                set_threads(free)
        yield
    finally:
        if held is not None:
            with suppress(OSError):
                (folder / str(os.getpid())).unlink()
            os.close(held)


def _n_others(folder: Path) -> int:
    """Return how many other processes compute now; forget those that have died."""
    others = 0
    for path in folder.iterdir():
        if path.name == str(os.getpid()):
            continue
        if locks.is_held(path):
            others += 1
        else:
            with suppress(OSError):
                path.unlink()
    return others
