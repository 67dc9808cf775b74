"""The same process on a Dask cluster: a worker's machine starts it, watches it, and can end it.

The folder of runs must be on storage that every machine sees under the same path. A job on a GPU
asks the cluster for the resource `GPU=1`, and its machine for a card that no other run holds. Where
a worker dies, the cluster gives the job to another, which goes on from its last checkpoint. Costs a
connection, and a look at the folder twice a second.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.runs import locks, spec, status
from workbench.runs.process import (
    GRACE,
    opened_log,
    own_threads,
    worker_command,
    worker_environment,
)
from workbench.runs.status import CANCEL, LOCK, Failure, Status

EVERY = 0.5  # seconds between looks
CONNECT = 5.0  # seconds to reach the scheduler
RETRIES = 5  # times a job is tried where a machine cannot start it
_clients: dict[str, Any] = {}
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
            remedy="Start some with: dask worker ADDRESS --resources GPU=1, or say --device cpu.",
        )
    now = status.read(folder)
    attempt = now.attempt if now else 1
    key = f"{folder.name}-{attempt}-{time.time_ns()}"  # never that of a job it had before
    future = client.submit(
        supervise,
        str(folder),
        own_threads(),
        key=key,
        resources=resources,
        retries=RETRIES,
        pure=False,
    )
    fire_and_forget(future)  # type: ignore[no-untyped-call]
    _jobs[folder.name, attempt] = future
    _await_known(client, key, scheduler)


def _await_known(client: Any, key: str, scheduler: str) -> None:
    """Until the scheduler has the job: what is only on its way dies with this process."""
    deadline = time.monotonic() + CONNECT
    while client.sync(client.scheduler.get_task_status, keys=[key])[key] is None:
        if time.monotonic() > deadline:
            raise _unreachable(scheduler, "it does not take the job")
        time.sleep(0.01)


def given_up(folder: Path, now: Status) -> Status:
    """How a run stands; where the cluster has given a job of ours up, that is written down."""
    future = _jobs.get((folder.name, now.attempt))
    if future is None or future.status not in ("error", "lost", "cancelled"):
        return now
    why = future.exception(timeout=CONNECT) if future.status == "error" else "the scheduler is gone"
    failure = Failure(
        f"the cluster gave the job up: {why}.",
        where=now.scheduler,
        remedy="See the cluster's own logs, then run it again.",
        kind="died",
        lines=status.log_lines(folder),
    )
    return status.ended(folder, failure)


def connected(scheduler: str) -> Any:
    """The cluster at an address."""
    from distributed import Client

    client = _clients.get(scheduler)
    if client is None or client.status != "running":
        try:
            client = Client(scheduler, timeout=CONNECT, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TypeError) as error:
            raise _unreachable(scheduler, str(error) or repr(error)) from None
        _clients[scheduler] = client
    return client


def _unreachable(scheduler: str, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"the cluster cannot be reached: {why.splitlines()[0].rstrip('.')}.",
        where=scheduler,
        remedy="Is the address that of a scheduler that runs? Start one with: dask scheduler",
    )


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
        return status.ended(folder).state
    try:
        # cores are the cluster's to share out; which of a machine's cards is free, it cannot know
        on_card = spec.read(folder).device.startswith("cuda")
        with opened_log(folder) as log:
            process = subprocess.Popen(
                [*worker_command(folder, lock, share=not on_card), "--with-parent"],
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
            asked_to_end = time.monotonic()
            _tell(process, signal.SIGTERM)
        if asked_to_end and time.monotonic() - asked_to_end > GRACE:
            _tell(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(EVERY)
    return status.ended(folder).state  # a process that died alone has failed, here as anywhere


def _tell(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


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
