"""`workbench run` and `workbench experiments`: run an experiment, and list experiments.

Costs: reading the bytes of models and corpora, then the run.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.options import (
    Detach,
    Device,
    ExperimentSplit,
    Json,
    Objective,
    Pickled,
    Precision,
    Reading,
    Scheduler,
    Seed,
    Set,
    Share,
    corpus_refs,
    experiment_names,
    has_command,
    model_refs,
    reads_corpus,
)
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.runs.request import Request
    from workbench.runs.run import Run

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="Model: mini:bert, a run that trained one, a folder, hub id, "
        ".gguf file, elmo:…, vectors:…",
        autocompletion=model_refs,
    ),
]
Corpora = Annotated[
    list[str] | None,
    typer.Option("--corpus", help="Corpus: file, folder, primer.", autocompletion=corpus_refs),
]
Name = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT", help="Name of the experiment.", autocompletion=experiment_names
    ),
]

experiments = typer.Typer(
    help="List the experiments, and show their settings.", invoke_without_command=True
)


@reads_corpus
def run(
    context: typer.Context,
    experiment: Name,
    model: Models = None,
    corpus: Corpora = None,
    set_: Set = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B …",
            help="One run per combination of values: settings, model, corpus, seed=0..4, split.",
        ),
    ] = None,
    seed: Seed = 0,
    split: ExperimentSplit = None,
    device: Device = None,
    precision: Precision = "auto",
    pickled: Pickled = False,
    objective: Objective = "",
    *,
    reading: Reading,
    scheduler: Scheduler = "",
    share: Share = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Run an experiment; the result of the same request is read from disk.

    `workbench experiments show EXPERIMENT` lists its settings.
    """
    from workbench.cli import output
    from workbench.runs.request import named

    settings = given_settings(f"run {experiment}", experiment, set_, context.args)
    swept = named(sweep or (), "sweep")
    options = {
        "split": split,
        "seed": seed,
        "device": device,
        "precision": precision,
        "pickled": pickled,
        "objective": objective,
        "reading": reading,
    }
    if not scheduler:
        begin_starter(experiment)
    with output.progress("preparing the run"):
        started, measured = _begun(
            experiment, model or [], corpus or [], settings, swept, options, share, scheduler
        )
    for line in measured if not json else ():
        output.note(line)
    if detach:
        output.started(started, json)
        return
    if not json:
        output.import_ahead()
    output.follow(started)
    output.result(started, json)


def begin_starter(experiment: str) -> None:
    """Have the starter import while the request is checked, unless it may be answered from disk."""
    from workbench.core.machine import runs
    from workbench.experiment.definition import EXPERIMENTS
    from workbench.runs.processes import starter

    if experiment in EXPERIMENTS and not next(runs().glob(f"{experiment}-*"), None):
        starter.begin()


def _begun(
    experiment: str,
    models: list[str],
    corpora: list[str],
    settings: dict[str, str],
    swept: dict[str, str],
    options: dict[str, Any],
    share: bool,
    scheduler: str,
) -> "tuple[Run, list[str]]":
    """The run, and what it measures of each model."""
    from workbench.runs.api import begun, start_sweep
    from workbench.runs.request import make_request
    from workbench.runs.subruns import values

    if not swept:
        request = make_request(experiment, models, corpora, settings, **options)
        measured = measured_lines(request) if request.experiment.measures else []
        return begun(request, share=share, scheduler=scheduler), measured
    varied = {name: values(text) for name, text in swept.items()}
    sweep = start_sweep(
        experiment,
        models,
        corpora,
        settings,
        varied,
        share=share,
        scheduler=scheduler,
        **options,
    )
    return sweep, []


def measured_lines(request: "Request") -> list[str]:
    """What an experiment measures of each model, and the other objectives that the model has."""
    from workbench.core.objectives import described, name_of

    fitted = getattr(request.settings, "task", "") if request.experiment.trains else ""
    lines = []
    for facts in request.facts:
        objectives = facts["objectives"]
        if not objectives:  # which is an error, or the experiment trains a head first
            continue
        if fitted:
            line = f"Fits a classifier for {fitted} on {facts['name']} first, and measures that."
            if (objectives[0] or {}).get("label") == fitted:
                line += " Leave task out to measure the classifier that the model has."
            lines.append(line)
            continue
        line = f"Measures {facts['name']} on {described(objectives[0])}."
        for other in objectives[1:]:
            line += f" --objective {name_of(other)} measures it on {described(other)}."
        lines.append(line)
    return lines


def given_settings(
    command: str, experiment: str, pairs: list[str] | None, extra: list[str]
) -> dict[str, str]:
    """Return the settings of a command: those after --set, and those with their own flag."""
    from workbench.runs.request import named

    settings = named(pairs or (), "setting")
    if not extra:
        return settings
    flags = _flags(command, experiment, extra)
    for name in settings.keys() & flags.keys():
        raise WorkbenchError(
            f"{name} is set twice.", code="setting-repeated", remedy="Set it once."
        )
    return settings | flags


def _flags(command: str, experiment: str, extra: list[str]) -> dict[str, str]:
    """Parse `--seeds 3` and `--seeds=3` as `--set seeds=3`; a flag without a value is true."""
    from workbench.core.errors import did_you_mean
    from workbench.experiment.definition import EXPERIMENTS

    known = EXPERIMENTS[experiment].settings.model_fields
    values: dict[str, str] = {}
    arguments = list(extra)
    while arguments:
        flag, equals, value = arguments.pop(0).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or name not in known:
            flags = [f"--{field.replace('_', '-')}" for field in known]
            raise WorkbenchError(
                f"workbench {command} has no option {flag!r}.",
                code="setting-unknown",
                remedy=did_you_mean(flag, [*flags, "--model", "--corpus", "--set", "--sweep"]),
            )
        if not equals:
            is_switch = known[name].annotation is bool
            has_value = bool(arguments) and not arguments[0].startswith("--")
            if not has_value and not is_switch:
                raise WorkbenchError(
                    f"{flag} needs a value.",
                    code="setting-invalid",
                    remedy=f"Write {flag} VALUE.",
                )
            value = arguments.pop(0) if has_value else "true"
        values[name] = value
    return values


@experiments.callback()
def list_experiments(context: typer.Context, json: Json = False) -> None:
    """List all experiments."""
    if has_command(context, json):
        return
    from workbench.cli import output

    with output.progress("loading experiments"):
        rows = output.experiments()
    output.print_json({"experiments": rows}) if json else output.print_experiments(rows)


@experiments.command()
def show(
    experiment: Name,
    model: Models = None,
    corpus: Corpora = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE …", help="Settings.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the settings, requirements and tables of an experiment; check a model or corpus."""
    from workbench.cli import output
    from workbench.runs.request import named

    with output.progress("loading the experiment"):
        data = output.experiment(
            experiment, model or [], corpus or [], named(set_ or (), "setting")
        )
    output.print_json(data) if json else output.print_experiment(data)
