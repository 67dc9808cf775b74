"""Training on several GPUs: `torchrun --nproc-per-node 8 -m workbench train …`.

`torchrun` starts several processes with the same command. The first starts the run as usual, and
its worker is the first training process; the others wait until the run begins, then train with it
and write nothing. Costs: a check of the run's status five times a second until it begins.
"""

import os
import signal
import time

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.experiment.definition import EXPERIMENTS
from workbench.runs import status
from workbench.runs.request import Request
from workbench.runs.run import Run, is_whole

EVERY = 0.2  # seconds between checks


def is_one_of_several() -> bool:
    """Return whether `torchrun` started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_not_first() -> bool:
    """Return whether this process is one of several, and not the first."""
    return is_one_of_several() and os.environ.get("RANK", "0") != "0"


def end_on_sigterm() -> None:
    """Handle SIGTERM, so that the first process ends its run if another process fails."""
    if is_one_of_several():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def join(request: Request) -> None:
    """Train with the first process; return at once if the run is done already."""
    from workbench.analyses.training.task import Quiet
    from workbench.runs.execute import inputs_of, open_inputs

    run_spec = request.spec
    if not EXPERIMENTS[run_spec.experiment].trains:
        raise WorkbenchError(
            f"{run_spec.experiment} is computed by one process.",
            code="not-distributed",
            remedy="Run it without torchrun.",
        )
    run = Run(machine.runs() / run_spec.name)
    while (now := status.read(run.path)) is None or now.state != "running":
        if now is not None and now.state == "done" and is_whole(run.path):
            return
        time.sleep(EVERY)
    models, corpora = open_inputs(run_spec, Quiet())
    inputs = inputs_of(run.path, run_spec, models, corpora)
    request.experiment.run(inputs, request.settings, Quiet())
