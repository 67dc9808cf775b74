"""The operating-system process that computes a run: its command, environment and log.

`launch` starts one on this machine, `cluster` on another; the process inherits the lock of the run,
so the lock is held at all times. Costs: a process.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.core.files import open_for_append
from workbench.runs.status import LOG

GRACE = 10.0  # seconds that a cancelled process has to end, before it is killed
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
started: list[subprocess.Popen[bytes]] = []  # the processes of runs that this process started


def spawn(folder: Path, lock: int, share: bool, threads: Mapping[str, str] | None) -> None:
    """Start the process of a run; it inherits the lock, so the lock is held at all times."""
    with open_log(folder, os.O_TRUNC) as log:
        process = subprocess.Popen(
            worker_command(folder, lock, share),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=worker_environment(threads),
            pass_fds=[lock],
            start_new_session=True,
        )
    started[:] = [*(other for other in started if other.returncode is None), process]
    reap_when_ended(process)


def reap_when_ended(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a process in a thread, so that it does not become a zombie when it ends."""
    threading.Thread(target=process.wait, name=f"waits for {process.pid}", daemon=True).start()


def open_log(folder: Path, extra_flags: int = 0) -> Any:
    """Open the file that a run's process prints to, for appending."""
    return os.fdopen(open_for_append(folder / LOG, extra_flags), "ab")


def worker_command(folder: Path, lock: int, share: bool) -> list[str]:
    """Return the command that starts the process of a run, here or on a cluster."""
    command = [sys.executable, "-P", "-m", "workbench.runs.worker", str(folder)]
    return [*command, "--lock", str(lock), *(["--share"] if share else [])]


def worker_environment(threads: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a run's process; `threads` replaces the thread limits."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false"}
    if threads is not None:
        for name in _THREADS:
            environment.pop(name, None)
        environment |= threads
    return environment


def thread_limits() -> dict[str, str]:
    """Return the thread limits in the environment of this process."""
    return {name: os.environ[name] for name in _THREADS if name in os.environ}
