"""Experiments from Python: `wb.run`, `wb.sweep`, `wb.open_run`, `wb.experiments`.

A request with references runs in its own process, as on the command line; one with objects (a net,
a `Model`, texts, a data frame), or of an experiment in a cell, in this process. In both cases the
run is a folder on disk, and the same request is read from there. Costs: a process.
"""

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, overload

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.experiment.definition import EXPERIMENTS, Experiment
from workbench.runs.interactive.background import PendingRun
from workbench.runs.interactive.progress import can_show, shown, watched
from workbench.runs.launch import cancel, follow, start
from workbench.runs.processes import starter
from workbench.runs.request import (
    Request,
    corpora_of,
    is_list,
    is_several,
    make_request,
    models_of,
    object_of,
    runs_here,
)
from workbench.runs.run import Run, open_run, require_finished
from workbench.runs.spec import CorpusSpec, Spec, cannot_reopen
from workbench.runs.status import Journal
from workbench.runs.subruns import INPUTS, compute_again, compute_here, make_sweep

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

ModelLike = Union[str, Path, "Model"]
CorpusLike = Union[str, Path, "Corpus"]

__all__ = ["experiments", "open_run", "run", "sweep"]

Show = Callable[[Mapping[str, Any]], object]


@overload
def run(experiment: Any, *, wait: Literal[False], **arguments: Any) -> PendingRun: ...
@overload
def run(experiment: Any, *, wait: Literal[True] = True, **arguments: Any) -> Run: ...
@public
def run(
    experiment: "str | Experiment[Any] | Run | Spec",
    *,
    model: Any = None,
    corpus: Any = None,
    split: str | None = None,
    seed: int = 0,
    device: str | None = None,
    precision: str = "auto",
    objective: str = "",
    wait: bool = True,
    progress: Show | None = None,
    **settings: Any,
) -> Run | PendingRun:
    """Run an experiment, or read the result if the same request was computed before.

    A request with references runs in its own process, as on the command line; one with objects
    (nets, models, texts, tables) in this process. In both cases the run is a folder on disk.

    Args:
        experiment: One of `wb.experiments()`, or its name; or a run, whose request is made again.
        model: A reference, a `Model`, a net of transformers, or (net, tokenizer); or several, as
            the experiment needs.
        corpus: A reference, a `Corpus`, or what `wb.read` reads: texts, a data frame, …; or
            several.
        split: The split to use (default: the experiment's own).
        seed: Seed of all random numbers (default 0).
        device: `cpu`, `cuda`, `cuda:1` (default: that of a net, else a GPU if there is one).
        precision: `fp32`, `bf16`, `fp16` or `auto` (default).
        objective: What is measured, of what the model predicts: the name of its task, or
            `language-model` (default: what the model was made for).
        wait: Whether to wait for the result (default), or to return at once.
        progress: Called with every event of the run, a mapping whose `kind` is progress, log,
            warning or state (default: a progress bar in a terminal or a notebook).
        **settings: The experiment's own settings (`wb.experiments()[name].settings`).

    Returns:
        The finished `Run`; without waiting, one with `progress`, `cancel()` and `result()`.

    Raises:
        WorkbenchError: A reference, setting or layer is not valid, or the run failed.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> run.tables["relations"].columns[:2].tolist()
        ['relation', 'count']
        >>> wb.run("describe", corpus=["The dog saw Mary."]).findings[0].claim
        'The text has 5 words in 1 sentence (5 distinct words).'
    """
    if isinstance(experiment, Run | Spec):
        spec = experiment.spec if isinstance(experiment, Run) else experiment
        return _again(spec, wait, progress)
    request = make_request(
        _named(experiment),
        models_of(model),
        corpora_of(corpus),
        settings,
        split=split,
        seed=seed,
        device=device,
        precision=precision,
        objective=objective,
    )
    if wait:
        return answered(request, progress)
    if not request.runs_here:
        return PendingRun(begun(request))
    _require_possible(request)
    pending = partial(start, request.spec, compute=compute_here(request))
    return PendingRun(Run(machine.runs() / request.spec.name), pending)


@overload
def sweep(experiment: Any, *, wait: Literal[False], **arguments: Any) -> PendingRun: ...
@overload
def sweep(experiment: Any, *, wait: Literal[True] = True, **arguments: Any) -> Run: ...
@public
def sweep(
    experiment: "str | Experiment[Any]",
    *,
    model: Any = None,
    corpus: Any = None,
    split: "str | Sequence[str] | None" = None,
    seed: "int | Sequence[int]" = 0,
    device: str | None = None,
    precision: "str | Sequence[str]" = "auto",
    objective: "str | Sequence[str]" = "",
    wait: bool = True,
    progress: Show | None = None,
    **settings: Any,
) -> Run | PendingRun:
    """Run an experiment once for every combination of some values, and collect the results.

    It is a run of runs, as `workbench run --sweep` makes it: its tables are those of its runs, with
    the values in front, its figures are grouped by them, and its findings compare them. A list is
    several values; of a setting that is itself a list, a list of lists.

    Args:
        experiment: One of `wb.experiments()`, or its name.
        model: As in `wb.run`; several are swept, if the experiment is of one model.
        corpus: As in `wb.run`; several are swept, if the experiment is of one corpus.
        split: A split, or several.
        seed: A seed, or several; runs that differ in it alone repeat each other.
        device: As in `wb.run`.
        precision: A precision, or several.
        objective: An objective, or several.
        wait: Whether to wait for the result (default), or to return at once.
        progress: As in `wb.run`.
        **settings: The experiment's settings, each with a value, or several.

    Returns:
        The finished `Run`; without waiting, one with `progress`, `cancel()` and `result()`.

    Raises:
        WorkbenchError: Nothing is swept, a value is not valid, or a run failed.

    Example:
        >>> sizes = ["primer:size=20", "primer:size=40"]
        >>> swept = wb.sweep("describe", corpus=sizes)
        >>> swept.tables["sizes"]["corpus"].unique().tolist()
        ['primer:size=20', 'primer:size=40']
    """
    name = _named(experiment)
    kind = EXPERIMENTS[name]
    swept: dict[str, Sequence[Any]] = {}
    inputs: dict[str, Sequence[Any]] = {"model": models_of(model), "corpus": corpora_of(corpus)}
    for key, (fewest, _) in (("model", kind.models), ("corpus", kind.corpora)):
        if len(inputs[key]) > 1 and fewest <= 1:
            swept[key], inputs[key] = inputs[key], ()
    options: dict[str, Any] = {"split": split, "seed": seed, "precision": precision}
    options |= {"objective": objective, **settings}
    for key, value in list(options.items()):
        if is_list(value) and (key in INPUTS or is_several(kind, key, value)):
            swept[key] = list(options.pop(key))
    if not swept:
        raise WorkbenchError(
            "nothing is swept: each argument has one value.",
            code="nothing-swept",
            where=name,
            remedy="Pass several values of one, such as seed=range(4); or call wb.run.",
        )
    own = {key: options.pop(key) for key in settings if key in options}
    whole, requests = make_sweep(
        name, inputs["model"], inputs["corpus"], own, swept, device=device, **options
    )
    _require_all_possible(requests)
    run = Run(machine.runs() / whole.name)
    if not wait and not runs_here(whole):
        return PendingRun(start(whole))
    if not wait:
        return PendingRun(run, partial(start, whole, compute=compute_again(whole)), kept=requests)
    return require_finished(_awaited(whole, compute_again(whole), progress))


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
    trained: Run = run("train", corpus=corpus, family=family, **options)
    return trained


def answered(request: Request, progress: Show | None = None) -> Run:
    """Run a request and wait for it; return the finished run, or raise its error."""
    compute = compute_here(request) if request.runs_here else None
    _require_possible(request)
    return require_finished(_awaited(request.spec, compute, progress))


def begun(request: Request, *, share: bool = False, scheduler: str = "") -> Run:
    """Start the run of a request unless it is under way or done; check its inputs first."""
    if scheduler and request.runs_here:
        raise WorkbenchError(
            "a cluster cannot open a model or corpus that is passed as an object.",
            code="reference-needed",
            remedy="Pass the name, file or folder of each model and corpus.",
        )
    _require_possible(request, scheduler)
    if request.runs_here:
        return start(request.spec, compute=compute_here(request))
    return start(request.spec, share=share, scheduler=scheduler)


def _require_possible(request: Request, scheduler: str = "") -> None:
    """Check the inputs of a request, unless it is done, while a process for it is prepared."""
    run = Run(machine.runs() / request.spec.name)
    if run.path.is_dir() and run.status.state == "done":
        return
    is_forked = not request.runs_here and not scheduler
    if is_forked:
        starter.begin()
    for error in request.unmet_requirements():
        raise error
    if is_forked:
        starter.await_ready()  # before the run has a lock and a place in the queue


def _awaited(
    run_spec: Spec, compute: Callable[[Journal], object] | None, progress: Show | None
) -> Run:
    """Run a request, here or in a process, and show its progress until it has ended."""
    if compute is not None:
        shows = progress is not None or can_show()
        with same_random_numbers():
            shown_by = partial(_show, progress)
            return start(run_spec, compute=shown(compute, shown_by) if shows else compute)
    run = start(run_spec)
    try:
        _show(progress, run)
    except KeyboardInterrupt:
        if run.status.under_way and run.status.pid != os.getpid():
            cancel(run)
        raise
    return run


def _show(progress: Show | None, run: Run) -> None:
    """Show the progress of a run, or tell it, until the run has ended."""
    if progress is None and can_show():
        watched(run)
        return
    for event in follow(run):
        if progress is not None:
            progress(event)


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Leave the random generators of this process as they are: a run sets their seeds."""
    import numpy as np

    plain, of_numpy = random.getstate(), np.random.get_state()
    torch = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_initialized()
    of_torch = torch.get_rng_state() if torch else None
    of_gpus = torch.cuda.get_rng_state_all() if torch and on_gpu else None
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(of_numpy)
        if torch and of_torch is not None:
            torch.set_rng_state(of_torch)
        if torch and of_gpus is not None:
            torch.cuda.set_rng_state_all(of_gpus)


def _named(experiment: "str | Experiment[Any]") -> str:
    """The name of an experiment; one that is not announced is known from now on, here."""
    if isinstance(experiment, str):
        return experiment
    if experiment.name not in EXPERIMENTS or EXPERIMENTS[experiment.name] is not experiment:
        EXPERIMENTS.add(experiment.name, experiment, "")
    return experiment.name


def _again(run_spec: Spec, wait: bool, progress: Show | None) -> Run | PendingRun:
    """Make the same request again, with the objects of it that this process still has."""
    kept = []
    for item in run_spec.objects():
        kept.append(object_of("corpus" if isinstance(item, CorpusSpec) else "model", item.hash))
        if kept[-1] is None:
            raise cannot_reopen(item)
    compute = compute_again(run_spec)
    if wait:
        return require_finished(_awaited(run_spec, compute, progress))
    if compute is None:
        return PendingRun(start(run_spec))
    run = Run(machine.runs() / run_spec.name)
    return PendingRun(run, partial(start, run_spec, compute=compute), kept=kept)


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
    _require_all_possible(requests)
    return start(whole, share=share, scheduler=scheduler)


def _require_all_possible(requests: Sequence[Request]) -> None:
    """Check the requests of a sweep, each combination of inputs once."""
    is_forked = not all(request.runs_here for request in requests)
    if is_forked:
        starter.begin()
    checked = set()
    for request in requests:
        layers = request.experiment.layers_for(request.settings)
        inputs = (request.spec.models, *map(id, request.corpora), *layers)
        if inputs not in checked:
            checked.add(inputs)
            for error in request.unmet_requirements():
                raise error
    if is_forked:
        starter.await_ready()
