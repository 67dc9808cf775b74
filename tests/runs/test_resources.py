"""Runs give way: a lower priority on a CPU, fewer threads where others compute; never by force."""

import json
import tempfile
from pathlib import Path

import psutil
import pytest

from tests import warm
from tests.runs.conftest import Asking, done, process_of, wait_until
from workbench.core import machine
from workbench.runs.launch import cancel, start
from workbench.runs.processes import resources

COMPUTES = """
import json, os, sys, time
import torch
from workbench.runs.processes import resources
for name in resources.THREADS:
    os.environ.pop(name, None)
torch.set_num_threads(4)
resources.n_cores = lambda: 4
with resources.computing(gives_way=sys.argv[1] == "gives"):
    print(json.dumps(resources.n_threads()), flush=True)
    if sys.argv[2:]:
        time.sleep(600)
"""


def threads(*arguments: str) -> tuple[int, warm.Process]:
    """The threads that a process computes with, which goes on until it is killed."""
    with tempfile.TemporaryFile("w+") as out:
        process = warm.start("-c", COMPUTES, *arguments, output=out.fileno())

        def said() -> str:
            out.seek(0)
            return out.read()

        wait_until(said)
        return json.loads(said()), process


def test_a_run_on_a_cpu_has_a_lower_priority(asking: Asking) -> None:
    run = start(asking(mood="numb"))
    process = psutil.Process(process_of(run))
    wait_until(lambda: process.nice() == max(psutil.Process().nice(), resources.NICE))
    cancel(run)


def test_one_that_does_not_wait_its_turn_uses_the_cores_that_are_left() -> None:
    assert threads("gives")[0] == 4
    waiting, first = threads("waited", "goes on")
    gives, second = threads("gives", "goes on")
    assert (waiting, gives) == (4, 3), "and the first keeps its own, or digits would change"
    assert threads("gives")[0] == 2 and threads("waited")[0] == 4
    for process in (first, second):
        process.kill()
        process.wait()
    assert threads("gives")[0] == 4, "the dead do not count"
    assert not list((machine.home() / "queue").rglob("computing/*"))


def test_limits_of_the_user_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    around = resources.environment()
    assert around["OMP_NUM_THREADS"] == "3"
    assert resources.environment({"MKL_NUM_THREADS": "2"}).keys().isdisjoint({"OMP_NUM_THREADS"})


def test_the_threads_of_a_run_are_in_its_provenance(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork has the limit of the request, not that of the process it was forked from."""
    number = 1 if resources.n_threads() > 1 else 2
    monkeypatch.setenv("OMP_NUM_THREADS", str(number))
    assert done(asking()).provenance["threads"] == number


def test_where_the_home_cannot_be_written_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "file"))
    before = resources.n_threads()
    with resources.computing(gives_way=True):
        assert resources.n_threads() == before
