"""Which heads can go: four questions, of which one is open, and runs that told before.

Costs a look at the runs' statuses.
"""

from typing import TYPE_CHECKING, Any

from workbench.experiment import Experiment
from workbench.view.parts import asking, earlier, questions

if TYPE_CHECKING:
    from workbench.runs.run import Run

QUESTIONS = {
    "Importance": "head-importance",
    "Ablation": "head-ablation",
    "Curves": "head-pruning",
    "Gates": "head-gates",
}


def experiment() -> Experiment[Any]:
    """The question that is open."""
    return questions.chosen(QUESTIONS, "pruning")


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this question is said."""
    return asking.opened_or_told(kind, f"the experiment {kind.name}")


def choose(kind: Experiment[Any], opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    earlier.choose(kind.name, opened)
