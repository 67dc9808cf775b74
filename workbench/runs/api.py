"""Experiments from Python: `wb.run`, `wb.open_run`, `wb.experiments`.

References are computed by a process of their own, as on the command line; objects (from `wb.load`,
`wb.read`) in this one. Either way the run is a folder, and the same question is answered from it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench import places
from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS
from workbench.runs import watch
from workbench.runs.asking import Question, ask, refs
from workbench.runs.launch import cancel, follow, start
from workbench.runs.run import Run, open_run

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.corpora import Corpus
    from workbench.engine.model import Model
    from workbench.runs.execute import Open

    ModelLike = str | Path | Model
    CorpusLike = str | Path | Corpus

__all__ = ["experiments", "open_run", "run"]

Show = Callable[[Mapping[str, Any]], object]


def run(
    experiment: str,
    *,
    model: "ModelLike | Sequence[ModelLike] | None" = None,
    corpus: "CorpusLike | Sequence[CorpusLike] | None" = None,
    split: str | None = None,
    seed: int = 0,
    device: str | None = None,
    precision: str = "auto",
    progress: Show | None = None,
    **settings: Any,
) -> Run:
    """Run an experiment, or read its answer where it was asked before; raises where it fails.

    `settings` are the experiment's own (`wb.experiments()[name].settings`). `progress` is told
    every event of the run, a mapping whose `kind` is progress, log, warning or state; by itself a
    terminal or a notebook shows a bar.
    """
    question = ask(
        experiment,
        refs(model),
        refs(corpus),
        settings,
        split=split,
        seed=seed,
        device=device,
        precision=precision,
    )
    return answered(question, progress)


def answered(question: Question, progress: Show | None = None) -> Run:
    """The run that answers, when it has ended well."""
    found = begun(question)
    try:
        if progress is None and watch.can_show():
            watch.watched(found)
        else:
            for event in follow(found):
                if progress is not None:
                    progress(event)
    except KeyboardInterrupt:
        if found.status.under_way and found.status.pid != os.getpid():
            cancel(found)
        raise
    return ended_well(found)


def begun(question: Question, *, share: bool = False, scheduler: str = "") -> Run:
    """The run that answers, under way or done; what does not fit is an error before it starts."""
    asked = question.spec
    there = Run(places.runs() / asked.name)
    if not there.path.is_dir() or there.status.state != "done":
        for reason in question.misfits():
            raise reason
    opened: Open | None = None
    if not asked.answerable:
        from workbench.runs.execute import handed_over

        opened = handed_over(question.models, question.corpora)
    if opened is not None and scheduler:
        raise WorkbenchError(
            "a cluster cannot open what was handed over as an object.",
            remedy="Name the model and the corpus by reference.",
        )
    return start(asked, share=share, scheduler=scheduler, opened=opened)


def ended_well(found: Run) -> Run:
    """The run, if it is done; else its failure, raised."""
    now = found.status
    if now.state == "done":
        return found
    if now.failure is not None:
        raise now.failure.error()
    raise WorkbenchError(
        f"the run was {now.state}.",
        where=found.name,
        remedy=f"Go on with: workbench runs resume {found.name}",
    )


def experiments() -> Mapping[str, Any]:
    """Every experiment there is, by name."""
    return EXPERIMENTS


def begun_sweep(
    experiment: str,
    models: "Sequence[ModelLike]",
    corpora: "Sequence[CorpusLike]",
    settings: Mapping[str, Any],
    swept: Mapping[str, Sequence[Any]],
    *,
    share: bool = False,
    scheduler: str = "",
    **rest: Any,
) -> Run:
    """The run that gathers a sweep, under way or done."""
    from workbench.runs.sweep import ask_all

    whole, questions = ask_all(experiment, models, corpora, settings, swept, **rest)
    if not whole.answerable:
        raise WorkbenchError(
            "a sweep needs models and corpora by reference.", remedy="Name files or folders."
        )
    looked_at = set()
    for question in questions:
        layers = question.experiment.layers_for(question.settings)
        inputs = (question.spec.models, *map(id, question.corpora), *layers)
        if inputs not in looked_at:
            looked_at.add(inputs)
            for reason in question.misfits():
                raise reason
    return start(whole, share=share, scheduler=scheduler)
