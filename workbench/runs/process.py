"""The operating-system process that computes a run: its command, environment and log.

`launch` starts one on this machine, `cluster` on another; both inherit the run's lock to it, so
there is no moment at which nobody holds it. Costs a process.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.core.files import open_to_add
from workbench.runs.status import LOG

GRACE = 10.0  # seconds a cancelled process has to end by itself
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
started: list[subprocess.Popen[bytes]] = []  # the processes of runs that were begun here


def spawn(folder: Path, lock: int, share: bool, threads: Mapping[str, str] | None) -> None:
    """Start the run's process; it inherits the lock, so there is no moment without one."""
    with opened_log(folder, os.O_TRUNC) as log:
        process = subprocess.Popen(
            worker_command(folder, lock, share),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=worker_environment(threads),
            pass_fds=[lock],
            start_new_session=True,
        )
    started[:] = [*(one for one in started if one.returncode is None), process]
    reap_when_ended(process)


def reap_when_ended(process: "subprocess.Popen[bytes]") -> None:
    """Clear the system's record of a process as soon as it ends; nobody else here waits for it."""
    threading.Thread(target=process.wait, name=f"waits for {process.pid}", daemon=True).start()


def opened_log(folder: Path, how: int = 0) -> Any:
    """Where a run's process prints, open for adding to it."""
    return os.fdopen(open_to_add(folder / LOG, how), "ab")


def worker_command(folder: Path, lock: int, share: bool) -> list[str]:
    """How a run's process is started, here or on a cluster's machine."""
    command = [sys.executable, "-P", "-m", "workbench.runs.worker", str(folder)]
    return [*command, "--lock", str(lock), *(["--share"] if share else [])]


def worker_environment(threads: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a run's process finds around it; `threads` replaces how many it may use."""
    found = {**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false"}
    if threads is not None:
        for name in _THREADS:
            found.pop(name, None)
        found |= threads
    return found


def own_threads() -> dict[str, str]:
    """How many threads this process was told to use."""
    return {name: os.environ[name] for name in _THREADS if name in os.environ}
