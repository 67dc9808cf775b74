"""Frozen or fine-tuned: five questions, of which one is open, and runs that told before.

Costs a look at the runs' statuses.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench import places
from workbench.experiment import Experiment
from workbench.models.references import trained_by
from workbench.view.parts import asking, chosen, earlier, questions

if TYPE_CHECKING:
    from workbench.runs.run import Run

QUESTIONS = {
    "Who gains": "frozen-vs-finetuned",
    "One method": "finetune",
    "What changed": "drift",
    "How alike": "similarity",
    "Pretraining": "pretraining",
}
OWN = ("task", "adapted", "one", "other", "pair")  # choices of a run, in the address


def experiment() -> Experiment[Any]:
    """The question that is open."""
    return questions.chosen(
        QUESTIONS,
        "transfer",
        OWN,
        "Who gains: every task and model, frozen and fine-tuned. One method: one model, one task. "
        "What changed: a model before and after. How alike: the layers of any models. Pretraining: "
        "what models are worth that learnt by other means, or are larger.",
    )


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this question is said."""
    run = asking.opened_or_told(kind, f"the experiment {kind.name}")
    if run is not None and kind.models[1] not in (0, 1):
        _further(kind, run)
    return run


def _further(kind: Experiment[Any], run: "Run") -> None:
    """To ask again, one begins with the models that the run looked at."""
    first = chosen.model()
    known = [known_as(model.ref) for model in run.spec.models if model.ref is not None]
    refs = [ref for ref in known if ref != first]
    most = kind.models[1]
    st.session_state.setdefault(
        f"further {kind.name} model", refs if most is None else refs[: most - 1]
    )


def choose(kind: Experiment[Any], opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    earlier.choose(kind.name, opened, OWN)


def known_as(ref: str) -> str:
    """A reference by the name of the run that made the model, where it lies among the runs here."""
    folder = Path(ref)
    name = trained_by(folder)
    return name if name and folder.parent == places.runs() / name else ref
