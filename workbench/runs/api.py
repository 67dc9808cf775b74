"""Experiments from Python: `wb.run`, `wb.open_run`, `wb.experiments`.

References are computed by a process of their own, as on the command line; objects (from `wb.load`,
`wb.read`) in this one. Either way the run is a folder, and the same question is answered from it.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS
from workbench.core.public import public
from workbench.runs.launch import cancel, follow, start
from workbench.runs.request import Question, ask, refs
from workbench.runs.run import Run, open_run
from workbench.runs.subruns import ask_all, computed_here

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

ModelLike = Union[str, Path, "Model"]
CorpusLike = Union[str, Path, "Corpus"]

__all__ = ["experiments", "open_run", "run"]

Show = Callable[[Mapping[str, Any]], object]


@public
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
    """Run an experiment, or read its result where the same question was answered before.

    References are computed by a process of their own, as on the command line; objects (from
    `wb.load` and `wb.read`) in this one. Either way the run is a folder on disk.

    Args:
        experiment: One of `wb.experiments()`.
        model: A reference, a `Model`, or several, as the experiment needs.
        corpus: A reference, a `Corpus`, or several.
        split: The split to look at (default: the experiment's own).
        seed: Seed of everything that is drawn.
        device: `cpu`, `cuda`, `cuda:1` (default: a GPU where there is one).
        precision: `fp32`, `bf16`, `fp16` or `auto`.
        progress: Called with every event of the run, a mapping whose `kind` is progress, log,
            warning or state (default: a terminal or a notebook shows a bar).
        **settings: The experiment's own settings (`wb.experiments()[name].settings`).

    Returns:
        The finished `Run`.

    Raises:
        WorkbenchError: A reference, setting or layer does not fit, or the run failed.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> run.tables["relations"].columns[:2].tolist()
        ['relation', 'count']
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


@public
def train(family: str, corpus: "CorpusLike", **options: Any) -> Run:
    """Train a model from nothing, or go on with one; the run that comes of it names the model.

    Args:
        family: `gpt`, `bert`, `elmo`, `t5` or a variant, as in `workbench train`.
        corpus: What to train on: a text file, a folder, `primer`, or a `Corpus`.
        **options: Settings of the experiment `train` (`size`, `steps`, `budget`, `rate` …), and
            the arguments of `wb.run`, such as `seed`, `device`, or `model` to go on with.

    Returns:
        The finished `Run`; its `model` is the folder of the trained model, and its name can be
        given wherever a model is named.

    Raises:
        WorkbenchError: A setting does not fit, or the training failed.

    Example:
        >>> run = wb.train("gpt", "primer:size=200", size="tiny", steps=2, device="cpu")
        >>> wb.load(run.name, device="cpu").objective
        'causal'
    """
    return run("train", corpus=corpus, family=family, **options)


def answered(question: Question, progress: Show | None = None) -> Run:
    """The run that answers, when it has ended well."""
    found = begun(question)
    try:
        if progress is None and can_show():
            watched(found)
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
    there = Run(machine.runs() / asked.name)
    if not there.path.is_dir() or there.status.state != "done":
        for reason in question.misfits():
            raise reason
    if asked.answerable:
        return start(asked, share=share, scheduler=scheduler)
    if scheduler:
        raise WorkbenchError(
            "a cluster cannot open what was handed over as an object.",
            remedy="Name the model and the corpus by reference.",
        )
    return start(asked, compute=computed_here(question))


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
    """List the experiments, by name.

    Returns:
        A mapping from names to `Experiment`s, each with its settings, tables and needs.

    Example:
        >>> wb.experiments()["heads"].models  # at least and at most
        (1, 2)
    """
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


# --- showing a run's progress ---------------------------------------------------------------------
#
# Watching a run: a bar with the time left on a terminal, plain lines in a pipe, on standard
# error.
#
# In a pipe there is a line for each step and each tenth of the way. Costs a look at the run's
# events ten times a second.

Events = Iterable[Mapping[str, Any]]


def can_show() -> bool:
    """Whether somebody watches: a terminal, or a notebook."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def watched(run: Run) -> None:
    """Show a run's events until it has ended."""
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    if console.is_terminal:
        _bar(follow(run), console)
    else:
        _lines(follow(run))


def _bar(events: Events, console: Console) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("queued", total=None, left="")
        for event in events:
            if event["kind"] == "progress":
                bar.update(
                    task,
                    description=event["doing"],
                    completed=event["done"],
                    total=event["total"],
                    left=_left(event["left"]),
                )
            elif event["kind"] == "state":
                bar.update(task, description=event["state"])
            else:
                console.print(_said(event), markup=False)


def _lines(events: Events) -> None:
    told = ("", -1)
    for event in events:
        if event["kind"] == "progress":
            tenth = 10 * event["done"] // event["total"] if event["total"] else 0
            if (event["doing"], tenth) != told:
                told = (event["doing"], tenth)
                of = f" of {event['total']:,}" if event["total"] else ""
                left = _left(event["left"])
                line = f"{event['doing']}: {event['done']:,}{of}"
                print(f"{line}, {left}" if left else line, file=sys.stderr, flush=True)
        elif event["kind"] == "state":
            print(event["state"], file=sys.stderr, flush=True)
        else:
            print(_said(event), file=sys.stderr, flush=True)


def _said(event: Mapping[str, Any]) -> str:
    return f"warning: {event['text']}" if event["kind"] == "warning" else str(event["text"])


def _left(seconds: float | None) -> str:
    if not seconds:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min left"
    return f"{minutes} min {rest} s left" if minutes else f"{rest} s left"
