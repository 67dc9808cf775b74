"""Runs that told what every head does, and choosing among them. Costs a look at their statuses."""

from typing import TYPE_CHECKING, Any

from workbench.experiment import EXPERIMENTS, Experiment
from workbench.view.parts import asking, earlier
from workbench.view.parts.heads_run import HEAD, NAME

if TYPE_CHECKING:
    from workbench.runs.run import Run


def experiment() -> Experiment[Any]:
    """What heads do."""
    return EXPERIMENTS[NAME]


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this experiment is said."""
    return asking.opened_or_told(kind, "the experiment heads")


def choose(opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    earlier.choose(NAME, opened, (HEAD,))
