"""Runs whose process is forked from one that has imported torch and spaCy already.

Importing them takes as long as most small runs do. Everything else is as in `launch`: a session and
a log of its own, the inherited lock, the worker's own `main`. What starts, dies or is killed is
tested with processes started as users have them, in `tests/runs`.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any
from unittest.mock import patch

from workbench.runs import launch

IMPORTED = [
    "workbench.runs.execute", "workbench.models.loading", "workbench.corpora.primer",
    "workbench.transfer.finetune", "workbench.training.experiment", "probes.edge_probing",
]  # fmt: skip


def spawn(folder: Path, lock: int, share: bool, threads: Mapping[str, str] | None) -> None:
    """What `launch._spawn` does, by a fork."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    around = launch.worker_environment(threads)
    arguments: Any = (folder, DupFd(lock), share, around)
    with patch.dict(os.environ, PYTHONHASHSEED=around["PYTHONHASHSEED"]):  # the server keeps it
        context.Process(target=_worker, args=arguments).start()


def _worker(folder: Path, lock: Any, share: bool, around: Mapping[str, str]) -> None:
    from workbench.runs import worker

    launch._spawn = spawn  # for the runs that this one asks for
    os.setsid()
    os.environ.clear()
    os.environ.update(around)
    with launch.opened_log(folder, os.O_TRUNC) as log, Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    sys.argv = launch.worker_command(folder, lock.detach(), share)[3:]  # from the module's name on
    code = 1
    try:
        code = worker.main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
