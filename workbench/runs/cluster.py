"""The same process on a Dask cluster: a worker's machine starts it, watches it, and can end it.

The folder of runs must be on storage that every machine sees under the same path. A job on a GPU
asks the cluster for the resource `GPU=1`. Where a worker dies, the cluster gives the job to another,
which goes on from its last checkpoint. Costs a connection, and a look at the folder twice a second.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.errors import WorkbenchError
from workbench.runs import events, locks, spec, status
from workbench.runs.journal import CANCEL
from workbench.runs.launch import GRACE, own_threads, worker_command, worker_environment
from workbench.runs.status import LOCK, LOG, Failure, Status

EVERY = 0.5  # seconds between looks
CONNECT = 10.0  # seconds to reach the scheduler
RETRIES = 5  # times a job is tried where workers die
_jobs: dict[tuple[str, int], Any] = {}  # futures of this process, which tell when a job is given up


def submit(folder: Path, asked: spec.Spec, scheduler: str) -> None:
    """Give a run to a cluster; it stays there whatever becomes of this process."""
    from distributed import fire_and_forget

    client = connected(scheduler)
    resources = {"GPU": 1} if asked.device.startswith("cuda") else None
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if resources and not any(w.get("resources", {}).get("GPU") for w in workers):
        raise WorkbenchError(
            "no worker of the cluster offers a GPU.",
            where=scheduler,
            remedy="Start workers with: dask worker ADDRESS --resources GPU=1, or say --device cpu.",
        )
    now = status.read(folder)
    attempt = now.attempt if now else 1
    future = client.submit(
        supervise,
        str(folder),
        own_threads(),
        key=f"{folder.name}-{attempt}",
        resources=resources,
        retries=RETRIES,
        pure=False,
    )
    fire_and_forget(future)  # type: ignore[no-untyped-call]
    _jobs[folder.name, attempt] = future


def given_up(folder: Path, standing: Status) -> None:
    """Where the cluster has given a job of ours up, write down that it failed, and why."""
    future = _jobs.get((folder.name, standing.attempt))
    if future is None or future.status not in ("error", "lost", "cancelled"):
        return
    if locks.is_held(folder / LOCK) or not (status.read(folder) or standing).under_way:
        return
    why = future.exception(timeout=CONNECT) if future.status == "error" else "the scheduler is gone"
    failure = Failure(
        f"the cluster gave the job up: {why}.",
        where=standing.scheduler,
        remedy="See the cluster's own logs, then run it again.",
        kind="died",
        lines=status.log_lines(folder),
    )
    status.write(folder, replace(standing, state="failed", ended=events.now(), failure=failure))


@lru_cache(maxsize=8)
def connected(scheduler: str) -> Any:
    """The cluster at an address."""
    from distributed import Client

    try:
        return Client(scheduler, timeout=CONNECT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        raise WorkbenchError(
            f"the cluster cannot be reached: {str(error).splitlines()[0] if str(error) else error!r}",
            where=scheduler,
            remedy="Is the address that of a scheduler that runs? Start one with: dask scheduler",
        ) from None


def supervise(folder_name: str, threads: Mapping[str, str]) -> str:
    """On a cluster's machine: do the run in a process of its own; its last state."""
    folder = Path(folder_name)
    if not folder.is_dir():
        raise WorkbenchError(
            "the run's folder is not there.",
            where=folder_name,
            remedy="Name a folder that all machines of the cluster share, in WORKBENCH_RUNS.",
        )
    lock = _waited(folder)
    if lock is None:
        return _state(folder)
    try:
        with (folder / LOG).open("ab") as log:
            process = subprocess.Popen(
                [*worker_command(folder, lock, share=True), "--with-parent"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=worker_environment(threads),
                pass_fds=[lock],
                start_new_session=True,
            )
    finally:
        os.close(lock)
    asked_to_end = 0.0
    while process.poll() is None:
        if not asked_to_end and (folder / CANCEL).exists():
            process.terminate()
            asked_to_end = time.monotonic()
        if asked_to_end and time.monotonic() - asked_to_end > GRACE:
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(EVERY)
    if process.returncode < 0 and not (folder / CANCEL).exists():
        raise RuntimeError(f"the run's process was ended by signal {-process.returncode}")
    return _state(folder)


def _waited(folder: Path) -> int | None:
    """The run's lock once nobody holds it; None where there is nothing left to do."""
    while True:
        found = status.read(folder)
        if found is None or not found.under_way or (folder / CANCEL).exists():
            return None
        lock = locks.take(folder / LOCK)
        if lock is not None:
            return lock
        time.sleep(EVERY)


def _state(folder: Path) -> str:
    found = status.read(folder)
    return found.state if found else "failed"
