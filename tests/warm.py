"""Processes forked from one starter of all tests, which has imported torch, spaCy and more.

Importing them takes as long as most small runs do. Everything else of a run is as users have it.
Workers that import for themselves are those of the fixture `fresh_workers`, in `tests/runs`.
"""

import os
import runpy
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from workbench.core.ending import run_process
from workbench.models.references import require_model
from workbench.runs import isolated, process
from workbench.runs.processes import starter

FORK = starter.fork
FOLDER = "WORKBENCH_TESTS_STARTER"  # where the starter of these tests listens
FORGETS = """
import sys
for name in [*sys.modules]:
    if name.partition(".")[0] in ("plotly", "streamlit", "workbench"):
        del sys.modules[name]
"""  # begins a program of a fork that is to import Workbench, and what draws, anew
IMPORTED = (
    "tests.later", "tests.warm", "pyarrow.parquet",
    "workbench.runs.worker", "workbench.runs.subruns",
    "workbench.runs.execute", "workbench.cli.main", "workbench.cli.output",
    "workbench.corpora.readers.conllu", "workbench.corpora.content_hash",
    "workbench.corpora.encode",
    "workbench.corpora.primer.gold", "workbench.corpora.show", "workbench.models.loading",
    "transformers.models.bert.modeling_bert", "workbench.analyses.basics.experiments",
    "workbench.analyses.basics.describe", "workbench.analyses.basics.lm_profile",
    "workbench.analyses.transfer.finetune", "workbench.analyses.training.training_run",
    "workbench.analyses.probes.edge_probing", "workbench.analyses.basics.figures.corpus",
    "workbench.analyses.basics.figures.model", "workbench.drawing.heads", "threadpoolctl",
)  # fmt: skip


def place() -> starter._Place | None:
    """Where that starter listens, once it has begun."""
    return starter._Place(Path(os.environ[FOLDER]), "tests") if FOLDER in os.environ else None


def name() -> None:
    """Name where it is to listen, for this process and those that it starts from now on."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="workbench-tests-", dir="/tmp")


def begin() -> None:
    """Have it import, unless another process of these tests did so."""
    name()
    around = {"PYTHONPATH": str(Path(__file__).parents[1]), starter.SWITCH: "3600"}
    with (
        patch.object(starter, "_PROGRAM", "tests.warm"),
        patch.object(starter, "_place", place),
        patch.dict(os.environ, around),
    ):
        starter.begin()


def end() -> None:
    """Have it end: it looks whether it can still be found."""
    shutil.rmtree(os.environ[FOLDER], ignore_errors=True)


def fork_workers(patch: pytest.MonkeyPatch) -> None:
    """Have it fork the processes of runs, also those that such a process starts."""

    def fork(module: str, *arguments: Any, **options: Any) -> starter.Forked | None:
        begin()
        return FORK("tests.warm" if module == process.WORKER else module, *arguments, **options)

    patch.setattr(starter, "fork", fork)
    patch.setattr(starter, "_place", place)
    patch.setattr(starter, "ANSWER", 60.0)


class Process(starter.Forked):
    """A forked process, with the names that `multiprocessing` has."""

    join = starter.Forked.wait

    @property
    def exitcode(self) -> int | None:
        return self.poll()

    def is_alive(self) -> bool:
        return self.poll() is None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.kill(signal.SIGTERM)


def start(
    *command: str,
    output: int,
    errors: int | None = None,
    folder: Path | None = None,
    **environment: str,
) -> Any:
    """`python *command` (with `-c` or `-m`) by a fork; it prints into the file `output`.

    And into `errors`, where that is given, what is for the standard error. `folder` is where it
    works.
    """
    begin()
    with (
        patch.object(starter, "_place", place),
        patch.object(starter, "ANSWER", 60.0),
        Path(os.devnull).open() as nothing,
    ):
        begun = starter.fork(
            "tests.warm",
            [str(folder or ""), *command],
            stdin=nothing.fileno(),
            stdout=output,
            stderr=output if errors is None else errors,
            environment={**os.environ, **environment},
            patience=120.0,
        )
    assert begun is not None, "the starter of the tests does not answer"
    begun.__class__ = Process
    return begun


def python(*command: str, **environment: str) -> str:
    """What `python *command` prints, by a fork; it must end well."""
    with tempfile.TemporaryFile("w+") as output:
        process = start(*command, output=output.fileno(), **environment)
        process.join()
        output.seek(0)
        printed = output.read()
    assert process.exitcode == 0, printed
    return printed


def answer(patch: pytest.MonkeyPatch) -> None:
    """Have what pages ask of a model answered here; `tests/runs/test_apart.py` has the process."""

    def look(ref: str, question: isolated.Question, fetch: bool = False) -> dict[str, Any]:
        require_model(ref)
        try:
            return isolated.facts_or_parts(ref, question)
        except Exception as error:
            raise isolated._as_error(ref, error) from None

    patch.setattr(isolated, "look", look)


def main() -> int | None:
    """What a fork does: the process of a run, or a command."""
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if "--lock" in sys.argv:
        return _worker()
    folder, how, what, *arguments = sys.argv[1:]
    if folder:
        os.chdir(folder)
    encoding, _, badly = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    sys.stdout = open(1, "w", encoding=encoding, errors=badly or "strict", closefd=False)
    sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)
    sys.argv = [how, *arguments]
    sys.modules["__main__"] = ModuleType("__main__")  # what this process starts does not import it
    if how == "-m":
        sys.modules.pop(what, None)  # or runpy warns that it is imported already
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    return None


def _worker() -> int:
    from workbench.runs import launch, subruns, worker
    from workbench.runs.processes import device_queue

    fork_workers(pytest.MonkeyPatch())
    launch.EVERY = subruns.EVERY = 0.02  # it hears sooner that the runs it asks for have ended
    device_queue.EVERY = 0.02  # and that it is its turn
    sys.modules.pop("sitecustomize", None)
    with suppress(ImportError):
        import_module("sitecustomize")  # as Python does when it starts
    return worker.main()


def _starter() -> int | None:
    starter._FIRST = IMPORTED
    with (
        patch.object(starter, "_THEN", ()),
        patch.object(starter, "_analyses", tuple),
        patch.object(starter._Place, "is_current", lambda self: True),
    ):
        return starter.main()


if __name__ == "__main__":
    run_process(_starter)
