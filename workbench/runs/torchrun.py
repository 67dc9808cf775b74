"""A training on several GPUs: `torchrun --nproc-per-node 8 -m workbench train …`.

Each process that `torchrun` starts is told the same command. The first starts the run, as ever, and
its worker is the first of those that train; the others wait for it to begin and train beside it,
writing nothing. Costs a look at the run's status five times a second until it begins.
"""

import os
import signal
import time

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS
from workbench.runs import status
from workbench.runs.request import Question
from workbench.runs.run import Run, is_whole

EVERY = 0.2  # seconds between looks


def is_one_of_several() -> bool:
    """Whether `torchrun` started more processes than this one."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_another() -> bool:
    """Whether this process is not the first of several."""
    return is_one_of_several() and os.environ.get("RANK", "0") != "0"


def end_with_the_others() -> None:
    """Where one of several fails, `torchrun` ends the rest: the first then ends its run."""
    if is_one_of_several():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def join(question: Question) -> None:
    """Train beside the first process; return at once where the answer is there already."""
    from workbench.runs.execute import inputs_of, open_again
    from workbench.training.task import Quiet

    asked = question.spec
    if not EXPERIMENTS[asked.experiment].trains:
        raise WorkbenchError(
            f"{asked.experiment} is computed by one process.", remedy="Leave torchrun out."
        )
    run = Run(machine.runs() / asked.name)
    while (found := status.read(run.path)) is None or found.state != "running":
        if found is not None and found.state == "done" and is_whole(run.path):
            return
        time.sleep(EVERY)
    models, corpora = open_again(asked, Quiet())
    inputs = inputs_of(run.path, asked, models, corpora)
    question.experiment.run(inputs, question.settings, Quiet())
