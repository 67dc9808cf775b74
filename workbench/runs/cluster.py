"""Runs on a Dask cluster: a worker machine starts the run's process, watches it, and can end it.

All machines must see the folder of runs under the same path. A job on a GPU requests the resource
`GPU=1` from the cluster, and from its machine a GPU that no other run uses. If a worker dies, the
cluster gives the job to another, which continues from the last checkpoint. Costs: a connection, and
a check of the folder twice a second.
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
from workbench.runs import spec, status
from workbench.runs.process import GRACE, open_log, worker_command
from workbench.runs.processes import locks
from workbench.runs.processes.resources import environment, thread_limits
from workbench.runs.status import CANCEL, LOCK, Failure, Status

EVERY = 0.5  # seconds between checks
CONNECT = 5.0  # seconds to wait for the scheduler
RETRIES = 5  # times that a job is started again if a machine cannot start it
_clients: dict[str, Any] = {}
_jobs: dict[
    tuple[str, int], Any
] = {}  # futures of this process; they report when the cluster gives up


def submit(folder: Path, run_spec: spec.Spec, scheduler: str) -> None:
    """Submit a run to a cluster; it continues if this process ends."""
    from distributed import fire_and_forget

    client = connected(scheduler)
    resources = {"GPU": 1} if run_spec.device.startswith("cuda") else None
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if resources and not any(w.get("resources", {}).get("GPU") for w in workers):
        raise WorkbenchError(
            "no worker of the cluster offers a GPU.",
            code="no-gpu",
            where=scheduler,
            remedy="Start some with: dask worker ADDRESS --resources GPU=1, or use --device cpu.",
        )
    now = status.read(folder)
    attempt = now.attempt if now else 1
    key = f"{folder.name}-{attempt}-{time.time_ns()}"  # different from the key of every earlier job
    future = client.submit(
        supervise,
        str(folder),
        thread_limits(),
        key=key,
        resources=resources,
        retries=RETRIES,
        pure=False,
    )
    fire_and_forget(future)  # type: ignore[no-untyped-call]
    _jobs[folder.name, attempt] = future
    _await_known(client, key, scheduler)


def _await_known(client: Any, key: str, scheduler: str) -> None:
    """Wait until the scheduler has the job: until then the job would end with this process."""
    deadline = time.monotonic() + CONNECT
    while client.sync(client.scheduler.get_task_status, keys=[key])[key] is None:
        if time.monotonic() > deadline:
            raise _unreachable(scheduler, "it does not accept the job")
        time.sleep(0.01)


def check_job(folder: Path, now: Status) -> Status:
    """Return the status of a run; if the cluster has given up its job, the run becomes failed."""
    future = _jobs.get((folder.name, now.attempt))
    if future is None or future.status not in ("error", "lost", "cancelled"):
        return now
    why = (
        future.exception(timeout=CONNECT)
        if future.status == "error"
        else "the scheduler does not respond"
    )
    failure = Failure(
        f"the cluster gave up the job: {why}.",
        where=now.scheduler,
        remedy="See the logs of the cluster, then run it again.",
        kind="died",
        lines=status.log_lines(folder),
        code="cluster-failed",
    )
    return status.ended(folder, failure)


def connected(scheduler: str) -> Any:
    """Return a connection to the cluster at an address."""
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
        code="cluster-unreachable",
        where=scheduler,
        remedy="Check the address of the scheduler, or start one with: dask scheduler",
    )


def supervise(folder_name: str, threads: Mapping[str, str]) -> str:
    """Compute a run in its own process on a machine of the cluster; return its final state."""
    folder = Path(folder_name)
    if not folder.is_dir():
        raise WorkbenchError(
            "the folder of the run does not exist on this machine.",
            code="folder-not-found",
            where=folder_name,
            remedy="Set WORKBENCH_RUNS to a folder that all machines of the cluster share.",
        )
    lock = _waited(folder)
    if lock is None:
        return status.ended(folder).state
    try:
        # the cluster assigns CPU cores, but does not know which GPU of a machine is free
        on_gpu = spec.read(folder).device.startswith("cuda")
        with open_log(folder) as log:
            process = subprocess.Popen(
                [*worker_command(folder, lock, share=not on_gpu), "--with-parent"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(threads),
                pass_fds=[lock],
                start_new_session=True,
            )
    finally:
        os.close(lock)
    cancelled_at = 0.0
    while process.poll() is None:
        if not cancelled_at and (folder / CANCEL).exists():
            cancelled_at = time.monotonic()
            _signal(process, signal.SIGTERM)
        if cancelled_at and time.monotonic() - cancelled_at > GRACE:
            _signal(process, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(EVERY)
    return status.ended(folder).state  # a process that died has failed


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _waited(folder: Path) -> int | None:
    """Wait for the lock of a run and take it; None if there is nothing left to do."""
    while True:
        now = status.read(folder)
        if now is None or not now.under_way or (folder / CANCEL).exists():
            return None
        lock = locks.take(folder / LOCK)
        if lock is not None:
            return lock
        time.sleep(EVERY)
