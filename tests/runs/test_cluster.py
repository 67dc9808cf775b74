"""The same runs on a Dask cluster of two workers: in parallel, through deaths, the same bytes."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import LocalCluster

from tests import warm
from tests.runs.conftest import (
    Asking,
    await_free,
    contents,
    done,
    finished,
    forget_experiments,
    wait_until,
)
from workbench import WorkbenchError
from workbench.runs import cluster, launch, status
from workbench.runs.api import start_sweep
from workbench.runs.launch import cancel, start
from workbench.runs.run import Run, all_runs

JOBS = {"seed": [str(seed) for seed in range(6)], "rows": ["20", "30"]}
SLOW = partial(pytest.param, marks=pytest.mark.slow)
LOAD = {"steps": 6, "pause": 0.15}  # long enough to be killed on the way, on a busy machine too


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[str]:
    """A cluster of two workers, each a thread of this process."""
    with two_workers(tmp_path_factory.mktemp("home"), package, processes=False) as found:
        yield found


@pytest.fixture
def mortal(tmp_path: Path, package: Path) -> Iterator[str]:
    """A cluster of two workers, each a process with one thread."""
    with two_workers(tmp_path / "cluster", package, processes=True) as found:
        yield found


@contextmanager
def two_workers(home: Path, package: Path, processes: bool) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as env:
        env.setenv("PYTHONPATH", str(package))
        env.setenv("WORKBENCH_HOME", str(home))
        env.setattr(cluster, "EVERY", 0.05)  # of workers that are threads of this process
        env.setenv("DASK_DISTRIBUTED__LOGGING__DISTRIBUTED", "critical")
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        with LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=2,
            threads_per_worker=1,
            processes=processes,
            protocol="tcp://",
            dashboard_address=":0",
            local_directory=str(home),
            silence_logs=logging.CRITICAL,
        ) as running:
            yield running.scheduler_address
            for client in cluster._clients.values():
                client.close()
    forget_experiments()


def starts(run: Run) -> int:
    found = status.read_events(run.path)[0]
    return sum(e["kind"] == "state" and e["state"] == "running" for e in found)


def swept(address: str = "") -> Run:
    """Twelve jobs."""
    return start_sweep("steps", [], [], LOAD, JOBS, scheduler=address, share=not address)


def parts(run: Run) -> list[Run]:
    return [Run(run.path.parent / part.name) for part in run.spec.parts]


def running(runs: list[Run]) -> list[Run]:
    found = [(run, status.read(run.path)) for run in runs]
    return [run for run, now in found if now and now.state == "running" and now.pid]


def worker_of(run: Run) -> int:
    """The Dask worker that watches a run's process."""
    return psutil.Process(run.status.pid).ppid()


@pytest.mark.slow
def test_a_sweep_of_twelve_with_a_worker_killed_equals_the_same_here(
    mortal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = swept(mortal)
    jobs = parts(run)
    workers: set[int] = set()

    def both_work() -> bool:
        now = running(jobs)
        workers.update(worker_of(job) for job in now)
        return len(now) == 2

    wait_until(both_work)
    assert len(workers) == 2, "two jobs at the same time, on two workers"
    victim = running(jobs)[0]
    wait_until(lambda: any("computed" in line for line in status.log_lines(victim.path)))
    before = starts(victim)
    os.kill(worker_of(victim), signal.SIGKILL)
    assert finished(run).status.state == "done", run.status.failure
    assert starts(victim) == before + 1, "the job went to another, which started it again"
    told = [e for e in status.read_events(victim.path)[0] if "computed" in str(e.get("text"))]
    assert len(told) == LOAD["steps"], "from its checkpoint"
    assert all(starts(job) == 1 for job in jobs if job != victim)
    there = {job.name: contents(job) for job in [*jobs, run]}
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "local"))
    local = finished(swept())
    assert {job.name: contents(job) for job in [*parts(local), local]} == there


def test_a_job_outlives_the_process_that_submitted_it(
    address: str, asking: Asking, place: Path
) -> None:
    """Nothing is lost on the way, though the asking process ends at once, without a word."""
    script = (
        "import os; from workbench.runs.request import make_request; "
        "from workbench.runs.launch import start;"
        f"start("
        f"make_request('steps', settings={{'steps': 3}}).spec, scheduler={address!r}); os._exit(0)"
    )
    warm.python("-c", script, **os.environ)
    run = Run(place / asking(steps=3).name)
    wait_until(lambda: run.status.state == "done")
    assert not status.read(run.path).guest  # type: ignore[union-attr]


def test_jobs_that_run_and_that_wait_on_the_cluster_are_cancelled(
    address: str, asking: Asking
) -> None:
    """One that is then submitted twice is computed once."""
    numb, deaf = (start(asking(mood=mood), scheduler=address) for mood in ("numb", "deaf"))
    wait_until(lambda: all("asleep" in status.log_lines(run.path) for run in (numb, deaf)))
    waits = start(asking(), scheduler=address)
    assert waits.status.state == "queued"
    assert cancel(waits).state == "cancelled"
    assert cancel(numb).state == "cancelled"
    assert cancel(deaf, grace=0.3).state == "cancelled"
    found = cluster.connected(address)
    wait_until(lambda: not any(found.processing().values()))  # both workers are free
    assert waits.status.state == "cancelled" and starts(waits) == 0
    first, second = (start(asking(), scheduler=address) for _ in range(2))
    assert finished(first).status.state == finished(second).status.state == "done"
    assert starts(first) == 1 and first.status.attempt >= 2  # a third where the first still queues
    await_free(first)
    assert (first.path / status.LOG).read_text() == "", "its process ends without a word"


@pytest.mark.parametrize(("mood", "kind"), [("raises", "bug"), SLOW("segfaults", "died")])
def test_a_job_that_fails_has_failed_and_is_not_tried_forever(
    mood: str, kind: str, address: str, asking: Asking
) -> None:
    run = finished(start(asking(mood=mood), scheduler=address))
    assert run.status.state == "failed" and run.status.failure.kind == kind  # type: ignore[union-attr]
    assert starts(run) == 1


def test_a_job_on_a_gpu_needs_a_worker_that_offers_one(address: str, asking: Asking) -> None:
    asked = asking().model_copy(update={"device": "cuda"})
    with pytest.raises(WorkbenchError, match=r"offers a GPU(.|\n)*GPU=1"):
        start(asked, scheduler=address)
    ((_, now),) = all_runs()
    assert now.state == "failed" and "offers a GPU" in now.failure.what  # type: ignore[union-attr]
    assert done(asking()), "and it can be asked again, elsewhere"


class Recorded:
    """A cluster with a GPU, which takes jobs and does nothing."""

    def __init__(self) -> None:
        self.resources: list[Any] = []
        self.scheduler = self

    def scheduler_info(self, **_: object) -> dict[str, Any]:
        return {"workers": {"a": {"resources": {}}, "b": {"resources": {"GPU": 1}}}}

    def submit(self, *_: object, resources: Any, **__: object) -> "Recorded":
        self.resources.append(resources)
        return self

    def sync(self, *_: object, keys: list[str]) -> dict[str, str]:
        return dict.fromkeys(keys, "queued")

    get_task_status = None
    status = "running"


def test_a_job_on_a_gpu_asks_for_one(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    there = Recorded()
    monkeypatch.setitem(cluster._clients, "tcp://there", there)
    monkeypatch.setattr("distributed.fire_and_forget", lambda future: None)
    start(asking(0).model_copy(update={"device": "cuda"}), scheduler="tcp://there")
    start(asking(1), scheduler="tcp://there")
    assert there.resources == [{"GPU": 1}, None]
    cluster._jobs.clear()


@pytest.mark.parametrize(
    "wrong",
    [
        "tcp://127.0.0.1:1",
        "nonsense",
        SLOW("http://127.0.0.1:1"),
        SLOW("tcp://"),
        SLOW("tcp://no.such.host:8786"),
    ],
)
def test_a_cluster_that_is_not_there_is_said_soon(
    wrong: str, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT", 0.2)
    clock = time.monotonic()
    with pytest.raises(WorkbenchError, match="cluster cannot be reached") as raised:
        start(asking(), scheduler=wrong)
    assert time.monotonic() - clock < 4 and raised.value.where == wrong
    assert "dask scheduler" in raised.value.remedy


def test_a_cluster_that_goes_away_gives_its_jobs_up(asking: Asking) -> None:
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=0, dashboard_address=":0", processes=False, silence_logs=logging.CRITICAL
    ) as short:
        run = start(asking(), scheduler=short.scheduler_address)
        assert launch.looked(run).state == "queued"
    wait_until(lambda: launch.looked(run).state == "failed")
    assert "cluster" in run.status.failure.what  # type: ignore[union-attr]
    await_free(run)
    assert done(asking())
