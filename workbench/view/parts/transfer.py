"""Frozen or fine-tuned: four questions, of which one is open, and runs that told before.

Costs a look at the runs' statuses.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench import places
from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS, Experiment
from workbench.models.references import trained_by
from workbench.view.parts import asking, chosen, earlier, listing

if TYPE_CHECKING:
    from workbench.runs.run import Run

QUESTION = "question"  # in the address
QUESTIONS = {
    "Who gains": "frozen-vs-finetuned",
    "One method": "finetune",
    "What changed": "drift",
    "How alike": "similarity",
}
OWN = ("task", "adapted", "one", "other")  # choices of a run, in the address


def experiment() -> Experiment[Any]:
    """The question that is open: that of the run in the address, else the one that is chosen."""
    names = list(QUESTIONS)
    asked = _of_run() or st.query_params.get(QUESTION)
    first = asked if asked in names else names[0]
    key = f"{QUESTION} of transfer {first}"
    picked = st.segmented_control(
        "Question",
        names,
        default=first,
        required=True,
        key=key,
        on_change=lambda: _chosen(st.session_state.get(key)),
        help="Who gains: every task and model, frozen and fine-tuned. One method: one model, one "
        "task. What changed: a model before and after. How alike: the layers of any models.",
    )
    return EXPERIMENTS[QUESTIONS[picked if picked in QUESTIONS else first]]


def _chosen(name: object) -> None:
    """Another question is asked: the run before is not its."""
    if name in QUESTIONS:
        st.query_params[QUESTION] = str(name)
        for key in (listing.OPENED, *OWN):
            st.query_params.pop(key, None)


def _of_run() -> str:
    """The question that the run in the address answers; "" where there is none of the four."""
    names = listing.opened()
    if not names:
        return ""
    try:
        asked = listing.open_named(names[0]).spec.experiment
    except WorkbenchError:
        return ""
    return next((name for name, kind in QUESTIONS.items() if kind == asked), "")


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this question is said."""
    run = asking.opened_or_told(kind, f"the experiment {kind.name}")
    if run is not None and kind.models[1] != 1:
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
