"""The operating-system process that computes a run: its command, environment and log.

`launch` starts one on this machine, `cluster` on another; the process inherits the lock of the run,
so the lock is held at all times. It is forked from the starter where there is one. Costs: a
process.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.core.files import open_for_append
from workbench.runs.processes import resources, starter
from workbench.runs.status import LOG

GRACE = 10.0  # seconds that a cancelled process has to end, before it is killed
WORKER = "workbench.runs.worker"
# the processes of runs that this process started
started: list["subprocess.Popen[bytes] | starter.Forked"] = []


def spawn(folder: Path, lock: int, share: bool, threads: Mapping[str, str] | None) -> None:
    """Start the process of a run; it inherits the lock, so the lock is held at all times."""
    environment = resources.environment(threads)
    process: subprocess.Popen[bytes] | starter.Forked | None
    with open_log(folder, os.O_TRUNC) as log, Path(os.devnull).open("rb") as nothing:
        process = starter.fork(
            WORKER,
            _arguments(folder, share),
            stdin=nothing.fileno(),
            stdout=log.fileno(),
            stderr=log.fileno(),
            lock=lock,
            environment=environment,
        )
        if process is None:
            process = subprocess.Popen(
                worker_command(folder, lock, share),
                stdin=nothing,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=[lock],
                start_new_session=True,
            )
            reap_when_ended(process)
    started[:] = [*(other for other in started if other.poll() is None), process]


def reap_when_ended(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a process in a thread, so that it does not become a zombie when it ends."""
    threading.Thread(target=process.wait, name=f"waits for {process.pid}", daemon=True).start()


def open_log(folder: Path, extra_flags: int = 0) -> Any:
    """Open the file that a run's process prints to, for appending."""
    return os.fdopen(open_for_append(folder / LOG, extra_flags), "ab")


def worker_command(folder: Path, lock: int, share: bool) -> list[str]:
    """Return the command that starts the process of a run, here or on a cluster."""
    return [sys.executable, "-P", "-m", WORKER, *_arguments(folder, share), "--lock", str(lock)]


def _arguments(folder: Path, share: bool) -> list[str]:
    return [os.fspath(folder), *(["--share"] if share else [])]
