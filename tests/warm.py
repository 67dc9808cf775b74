"""Processes forked from one that has imported torch and spaCy already.

Importing them takes as long as most small runs do. Everything else of a run is as in `process`: a
session and a log of its own, the inherited lock, the worker's own `main`. Workers started as users
have them are those of the fixture `fresh_workers`, in `tests/runs`.
"""

import multiprocessing
import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from workbench.models.references import require_model
from workbench.runs import isolated, process, resources

IMPORTED = [
    "tests.later", "tests.warm", "pyarrow.parquet",
    "workbench.runs.worker", "workbench.runs.subruns",
    "workbench.runs.execute", "workbench.cli.main", "workbench.cli.output",
    "workbench.corpora.conllu", "workbench.corpora.content_hash", "workbench.corpora.encode",
    "workbench.corpora.primer.gold", "workbench.corpora.show", "workbench.models.loading",
    "transformers.models.bert.modeling_bert", "workbench.basics.experiments",
    "workbench.basics.describe", "workbench.basics.lm_profile", "workbench.transfer.finetune",
    "workbench.training.training_run", "probes.edge_probing", "workbench.figures.corpus",
    "workbench.figures.model", "workbench.figures.head_grid", "tests.frozen",
]  # fmt: skip

started: list[ForkServerProcess] = []  # the last that was begun here


def spawn(folder: Path, lock: int, share: bool, threads: Mapping[str, str] | None) -> None:
    """What `process.spawn` does, by a fork."""
    around = resources.environment(threads)
    with process.open_log(folder, os.O_TRUNC) as log:
        begun = _forked(_worker, folder, _File(lock), _File(log.fileno()), share, around, address())
    started[:] = [begun]
    multiprocessing.process._children.discard(begun)  # type: ignore[attr-defined]  # outlives us


class _File:
    """An open file that a process is begun with: there the number of its descriptor.

    `DupFd` of an argument is made while that is sent, and never sooner: else this process keeps the
    file, and a lock on it, until the other fetches it, which may be killed before.
    """

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[object]]:
        return _number, (DupFd(self.number),)


def _number(sent: Any) -> int:
    number: int = sent.detach()
    return number


def _forked(target: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Begin a process that calls this.

    A new process runs its parent's main module again; after a test of a page that is the page.
    """
    begun = multiprocessing.get_context("forkserver").Process(target=target, args=arguments)
    address()
    with patch.dict(sys.modules, __main__=ModuleType("__main__")):
        begun.start()
    return begun


def address() -> str:
    """Where the one server listens, for processes that have others forked."""
    forkserver.set_forkserver_preload(IMPORTED)
    with patch.dict(os.environ, PYTHONHASHSEED="0"):  # as every run has it
        forkserver.ensure_running()
    found: str = forkserver._forkserver._forkserver_address  # type: ignore[attr-defined]
    return found


def join(address: str) -> None:
    """Have that server fork for this process too: one of its own would import everything anew."""
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    server._forkserver_address = address
    if server._forkserver_alive_fd is None:
        server._forkserver_alive_fd = os.open(os.devnull, os.O_RDONLY)  # whoever began it ends it
    forkserver.ensure_running = server.ensure_running = lambda: None


def start(
    *command: str,
    output: int,
    errors: int | None = None,
    folder: Path | None = None,
    **environment: str,
) -> ForkServerProcess:
    """`python *command` (with `-c` or `-m`) by a fork; it prints into the file `output`.

    And into `errors`, where that is given, what is for the standard error. `folder` is where it
    works, with what PYTHONPATH names.
    """
    files = _File(output), _File(output if errors is None else errors)
    return _forked(_python, command, *files, environment, folder)


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
            return isolated._result(ref, question)
        except Exception as error:
            raise isolated._as_error(ref, error) from None

    patch.setattr(isolated, "look", look)


def _python(
    command: tuple[str, ...],
    output: int,
    errors: int,
    environment: Mapping[str, str],
    folder: Path | None,
) -> None:
    os.setsid()
    os.environ.update(environment)
    if folder is not None:
        os.chdir(folder)
        sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    _put(output, 1)
    _put(errors, 2)
    encoding, _, badly = environment.get("PYTHONIOENCODING", "utf-8").partition(":")
    sys.stdout = open(1, "w", encoding=encoding, errors=badly or "strict", closefd=False)
    sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)
    how, what, *arguments = command
    sys.argv = [how, *arguments]
    if how == "-m":
        sys.modules.pop(what, None)  # or runpy warns that it is imported already
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()


def _put(inherited: int, number: int) -> None:
    """Put an inherited file in the place of a standard stream."""
    os.dup2(inherited, number)
    os.close(inherited)


def _worker(
    folder: Path, lock: int, log: int, share: bool, around: Mapping[str, str], address: str
) -> None:
    from workbench.runs import subruns, worker

    join(address)
    process.spawn = spawn  # for the runs that this one asks for
    subruns.EVERY = 0.02  # and it hears sooner that they have ended
    os.setsid()
    os.environ.clear()
    os.environ.update(around)
    sys.modules.pop("sitecustomize", None)
    with suppress(ImportError):
        import_module("sitecustomize")  # as Python does when it starts
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    _put(log, 1)
    os.dup2(1, 2)
    sys.argv = process.worker_command(folder, lock, share)[3:]  # from the module's name on
    code = 1
    try:
        code = worker.main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
