"""A home, a folder of runs and a third-party experiment of its own for every test."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

import pytest

from workbench import experiments
from workbench.core import analysis
from workbench.core.analysis import forget
from workbench.runs import launch, status
from workbench.runs.processes import locks, starter
from workbench.runs.request import make_request
from workbench.runs.run import Run, all_runs
from workbench.runs.spec import Spec
from workbench.runs.subruns import in_process

HERE = Path(__file__).parent
Asking = Callable[..., Spec]


def installed(folder: Path, name: str = "steps", value: str = "workbench_steps:EXPERIMENT") -> Path:
    """A package that offers an experiment by an entry point, as pip would leave it."""
    info = folder / f"{name}_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    announcing = "workbench_steps" if name == "steps" else f"{name}_announced"
    (info / "entry_points.txt").write_text(f"[workbench.analyses]\n{name} = {announcing}\n")
    shutil.copy(HERE / "steps.py", folder / "workbench_steps.py")
    if name != "steps":
        module, _, attribute = value.partition(":")
        (folder / f"{announcing}.py").write_text(
            f"from {module} import {attribute}\nfrom workbench.core.analysis import Analysis\n"
            f"ANALYSIS = Analysis(__name__, experiments={{{name!r}: ':{attribute}'}})\n"
        )
    return folder


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("site"))


@pytest.fixture(autouse=True)
def place(
    tmp_path: Path, package: Path, warm_workers: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The folder of runs; whatever a test leaves running is ended."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(analysis, "entry_points", lambda group: _announced(group, *sys.path))
    forget_experiments()
    yield tmp_path / "runs"
    for run, now in all_runs():
        if now.under_way and now.pid not in (0, os.getpid()):
            with suppress(ProcessLookupError):
                os.killpg(now.pid, signal.SIGKILL)
        await_free(run)
    forget_experiments()


@pytest.fixture
def fresh_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes of runs as where there is no starter."""
    monkeypatch.setattr(starter, "_place", lambda: None)


@cache
def _announced(group: str, *paths: str) -> EntryPoints:
    """Entry points of what is installed in these folders, which most tests have in common."""
    return entry_points(group=group)


def forget_experiments() -> None:
    """What is installed is looked for once a process; here it changes."""
    experiments().__dict__.pop("homes", None)
    forget()


@pytest.fixture
def asking() -> Asking:
    """The question of the third-party experiment with these settings."""

    def asked(seed: int = 0, **settings: Any) -> Spec:
        return make_request("steps", settings=settings, seed=seed).spec

    return asked


def finished(run: Run) -> Run:
    """Wait for a run to end."""
    for _ in launch.follow(run):
        pass
    return run


def done(asked: Spec, **how: Any) -> Run:
    """The run that answers, done."""
    run = finished(launch.start(asked, **how))
    assert run.status.state == "done", run.status.failure
    return run


def done_here(asked: Spec) -> Run:
    """The run that answers, done in this process: for what is looked at afterwards."""
    run = launch.start(asked, compute=in_process(lambda asked, told: ((), ())))
    assert run.status.state == "done", run.status.failure
    return run


def await_free(run: Run, seconds: float = 60) -> None:
    """Until nobody does the run any more."""
    wait_until(lambda: not locks.is_held(run.path / status.LOCK), seconds)


def wait_until(true: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def await_halt(run: Run) -> None:
    """Until the third-party experiment waits at its step `halt`: not earlier, or it halts again."""
    wait_until((run.path / status.SCRATCH / "halted").exists)


def logged(run: Run) -> list[str]:
    """The lines that a run has logged."""
    return [str(e["text"]) for e in status.read_events(run.path)[0] if e["kind"] == "log"]


def contents(run: Run) -> dict[str, bytes]:
    """The bytes of what a run left that must be the same each time."""
    parts = [run.path / "tables", run.path / "arrays", run.path / "figures"]
    files = [path for part in parts if part.is_dir() for path in part.iterdir()]
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in files}


def process_of(run: Run) -> int:
    """The number of a run's process, once it has one."""
    found: list[int] = []

    def look() -> bool:
        now = status.read(run.path)
        found[:] = [now.pid] if now else []
        return bool(now and now.pid)

    wait_until(look)
    return found[0]
