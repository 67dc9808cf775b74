"""Experiments from Python: `wb.run`, `wb.open_run`, `wb.experiments`.

A request with references runs in its own process, as on the command line; one with objects (from
`wb.load`, `wb.read`) in this process. In both cases the run is a folder on disk, and the same
request is read from there. Costs: a process.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.experiment.definition import EXPERIMENTS
from workbench.runs.launch import cancel, follow, start
from workbench.runs.processes import starter
from workbench.runs.request import Request, make_request, refs
from workbench.runs.run import Run, open_run
from workbench.runs.subruns import compute_here, make_sweep
from workbench.runs.time_left import count_in_words, left_in_words, progress_line, stage_of

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
    objective: str = "",
    progress: Show | None = None,
    **settings: Any,
) -> Run:
    """Run an experiment, or read the result if the same request was computed before.

    A request with references runs in its own process, as on the command line; one with objects
    (from `wb.load` and `wb.read`) in this process. In both cases the run is a folder on disk.

    Args:
        experiment: One of `wb.experiments()`.
        model: A reference, a `Model`, or several, as the experiment needs.
        corpus: A reference, a `Corpus`, or several.
        split: The split to use (default: the experiment's own).
        seed: Seed of all random numbers (default 0).
        device: `cpu`, `cuda`, `cuda:1` (default: a GPU if there is one).
        precision: `fp32`, `bf16`, `fp16` or `auto` (default).
        objective: What is measured, of what the model predicts: the name of its task, or
            `language-model` (default: what the model was made for).
        progress: Called with every event of the run, a mapping whose `kind` is progress, log,
            warning or state (default: a progress bar in a terminal or a notebook).
        **settings: The experiment's own settings (`wb.experiments()[name].settings`).

    Returns:
        The finished `Run`.

    Raises:
        WorkbenchError: A reference, setting or layer is not valid, or the run failed.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> run.tables["relations"].columns[:2].tolist()
        ['relation', 'count']
    """
    request = make_request(
        experiment,
        refs(model),
        refs(corpus),
        settings,
        split=split,
        seed=seed,
        device=device,
        precision=precision,
        objective=objective,
    )
    return answered(request, progress)


@public
def train(family: str, corpus: "CorpusLike", **options: Any) -> Run:
    """Train a model from random weights, or continue training a model.

    Args:
        family: `gpt`, `bert`, `elmo`, `t5` or a variant, as in `workbench train`.
        corpus: What to train on: a text file, a folder, `primer`, or a `Corpus`.
        **options: Settings of the experiment `train` (`size`, `steps`, `time_budget`,
            `learning_rate` …), and the arguments of `wb.run`, such as `seed`, `device`, or `model`,
            the model to continue with.

    Returns:
        The finished `Run`; its `model` is the folder of the trained model, and its name is a
        reference to the model.

    Raises:
        WorkbenchError: A setting is not valid, or the training failed.

    Example:
        >>> run = wb.train("gpt", "primer:size=200", size="tiny", steps=2, device="cpu")
        >>> wb.load(run.name, device="cpu").objective
        'causal'
    """
    return run("train", corpus=corpus, family=family, **options)


def answered(request: Request, progress: Show | None = None) -> Run:
    """Run a request and wait for it; return the finished run, or raise its error."""
    run = begun(request)
    try:
        if progress is None and can_show():
            watched(run)
        else:
            for event in follow(run):
                if progress is not None:
                    progress(event)
    except KeyboardInterrupt:
        if run.status.under_way and run.status.pid != os.getpid():
            cancel(run)
        raise
    return require_finished(run)


def begun(request: Request, *, share: bool = False, scheduler: str = "") -> Run:
    """Start the run of a request unless it is under way or done; check its inputs first."""
    run = Run(machine.runs() / request.spec.name)
    if not run.path.is_dir() or run.status.state != "done":
        is_forked = request.spec.answerable and not scheduler
        if is_forked:
            starter.begin()
        for error in request.unmet_requirements():
            raise error
        if is_forked:
            starter.await_ready()  # before the run has a lock and a place in the queue
    if request.spec.answerable:
        return start(request.spec, share=share, scheduler=scheduler)
    if scheduler:
        raise WorkbenchError(
            "a cluster cannot open a model or corpus that is passed as an object.",
            code="reference-needed",
            remedy="Pass the name, file or folder of each model and corpus.",
        )
    return start(request.spec, compute=compute_here(request))


def require_finished(run: Run) -> Run:
    """Return the run if it is done; else raise its error."""
    now = run.status
    if now.state == "done":
        return run
    if now.failure is not None:
        raise now.failure.error()
    raise WorkbenchError(
        f"the run was {now.state}.",
        code=f"run-{now.state}",
        where=run.name,
        remedy=f"Continue it with: workbench runs resume {run.name}",
    )


def experiments() -> Mapping[str, Any]:
    """List the experiments, by name.

    Returns:
        A mapping from names to `Experiment`s, each with its settings, tables and needs.

    Example:
        >>> wb.experiments()["heads"].models  # minimum and maximum
        (1, 2)
    """
    return EXPERIMENTS


def start_sweep(
    experiment: str,
    models: "Sequence[ModelLike]",
    corpora: "Sequence[CorpusLike]",
    settings: Mapping[str, Any],
    swept: Mapping[str, Sequence[Any]],
    *,
    share: bool = False,
    scheduler: str = "",
    **options: Any,
) -> Run:
    """Start the run that collects a sweep, unless it is under way or done."""
    whole, requests = make_sweep(experiment, models, corpora, settings, swept, **options)
    if not whole.answerable:
        raise WorkbenchError(
            "a sweep cannot open a model or corpus that is passed as an object.",
            code="reference-needed",
            remedy="Pass the name, file or folder of each model and corpus.",
        )
    starter.begin()
    checked = set()
    for request in requests:
        layers = request.experiment.layers_for(request.settings)
        inputs = (request.spec.models, *map(id, request.corpora), *layers)
        if inputs not in checked:
            checked.add(inputs)
            for error in request.unmet_requirements():
                raise error
    starter.await_ready()
    return start(whole, share=share, scheduler=scheduler)


# --- showing a run's progress ---------------------------------------------------------------------
#
# On standard error: in a terminal a bar with the time left, of the run where an earlier run tells
# how long it takes, else of its stage; otherwise plain lines, one for each stage and for each tenth
# of its progress. Costs: reading the run's events ten times a second.

Events = Iterable[Mapping[str, Any]]


def can_show() -> bool:
    """Return whether standard error is a terminal or a notebook."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def watched(run: Run) -> None:
    """Show the progress of a run until it has ended."""
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    if console.is_terminal:
        _bar(follow(run), console)
    else:
        _lines(follow(run))


class _LeftColumn(ProgressColumn):
    """The time left, which goes on between events."""

    def render(self, task: Task) -> Text:
        event = task.fields["event"]
        return Text(left_in_words(event, time.monotonic() - task.fields["since"]))


def _bar(events: Events, console: Console) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        _LeftColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        began = time.monotonic()
        task = bar.add_task("starting", total=None, count="", event={}, since=began)
        for event in events:
            now = time.monotonic()
            if event["kind"] == "progress":
                bar.update(
                    task,
                    description=event["doing"],
                    completed=event["done"],
                    total=event["total"],
                    count=count_in_words(event),
                    event=event,
                    since=now,
                )
            elif event["kind"] == "state":
                is_queued = event["state"] == "queued"  # until it says what it waits for
                bar.update(task, description="starting" if is_queued else event["state"])
                if event.get("left_of_run"):
                    bar.update(task, event=event, since=now)
            else:
                console.print(_message(event), markup=False)


def _lines(events: Events) -> None:
    last = ("", -1)
    for event in events:
        if event["kind"] == "progress":
            stage = event["doing"] if _is_queued(event) else stage_of(event["doing"])
            tenth = 10 * event["done"] // event["total"] if event["total"] else 0
            if (stage, tenth) != last:
                last = (stage, tenth)
                print(progress_line(event), file=sys.stderr, flush=True)
        elif event["kind"] == "state":
            left = left_in_words(event)
            line = f"{event['state']}, {left}" if left else event["state"]
            print(line, file=sys.stderr, flush=True)
        else:
            print(_message(event), file=sys.stderr, flush=True)


def _is_queued(event: Mapping[str, Any]) -> bool:
    return stage_of(event["doing"]) == "queued"


def _message(event: Mapping[str, Any]) -> str:
    return f"warning: {event['text']}" if event["kind"] == "warning" else str(event["text"])
