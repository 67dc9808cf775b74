"""`workbench run` and `workbench experiments`: ask a question and wait for the answer."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.options import (
    Detach,
    Device,
    Json,
    Pickled,
    Precision,
    Reading,
    Scheduler,
    Seed,
    Set,
    Share,
    Split,
    corpus_refs,
    experiment_names,
    has_command,
    model_refs,
    reads_corpus,
)
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.runs.run import Run

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="A model: mini:bert, a run that trained one, a folder, hub id, elmo:…, vectors:…",
        autocompletion=model_refs,
    ),
]
Corpora = Annotated[
    list[str] | None,
    typer.Option("--corpus", help="A corpus: file, folder, primer.", autocompletion=corpus_refs),
]
Name = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="Its name.", autocompletion=experiment_names)
]

experiments = typer.Typer(
    help="List the experiments, and what one can be asked.", invoke_without_command=True
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
            help="One run for every combination: settings, model, corpus, seed=0..4, split.",
        ),
    ] = None,
    seed: Seed = 0,
    split: Split = None,
    device: Device = None,
    precision: Precision = "auto",
    pickled: Pickled = False,
    *,
    reading: Reading,
    scheduler: Scheduler = "",
    share: Share = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Run an experiment; the same question asked again is answered from disk.

    `workbench experiments show EXPERIMENT` tells its settings.
    """
    from workbench.cli import output
    from workbench.runs.request import named

    settings = asked_settings(f"run {experiment}", experiment, set_, context.args)
    swept = named(sweep or (), "sweep")
    options = {
        "split": split,
        "seed": seed,
        "device": device,
        "precision": precision,
        "pickled": pickled,
        "reading": reading,
    }
    with output.progress("reading the question"):
        found = _begun(
            experiment, model or [], corpus or [], settings, swept, options, share, scheduler
        )
    if detach:
        output.started(found, json)
        return
    output.followed(found)
    output.answer(found, json)


def _begun(
    experiment: str,
    models: list[str],
    corpora: list[str],
    settings: dict[str, str],
    swept: dict[str, str],
    options: dict[str, Any],
    share: bool,
    scheduler: str,
) -> "Run":
    from workbench.runs.api import begun, begun_sweep
    from workbench.runs.request import ask
    from workbench.runs.subruns import values

    if not swept:
        question = ask(experiment, models, corpora, settings, **options)
        return begun(question, share=share, scheduler=scheduler)
    varied = {name: values(text) for name, text in swept.items()}
    return begun_sweep(
        experiment,
        models,
        corpora,
        settings,
        varied,
        share=share,
        scheduler=scheduler,
        **options,
    )


def asked_settings(
    command: str, experiment: str, given: list[str] | None, extra: list[str]
) -> dict[str, str]:
    """The settings of a command: those after --set, and flags of their own."""
    from workbench.runs.request import named

    settings = named(given or (), "setting")
    if not extra:
        return settings
    from workbench.core.experiment import EXPERIMENTS, Settings

    kind: type[Settings] = EXPERIMENTS[experiment].settings
    settings = kind.with_current_names(settings)
    flags = _flags(command, experiment, extra)
    for twice in settings.keys() & flags.keys():
        raise WorkbenchError(
            f"{twice} is set twice.", code="setting-repeated", remedy="Set it once."
        )
    return settings | flags


def _flags(command: str, experiment: str, extra: list[str]) -> dict[str, str]:
    """`--seeds 3` or `--seeds=3` for `--set seeds=3`; a flag alone is true."""
    from workbench.core.errors import did_you_mean
    from workbench.core.experiment import EXPERIMENTS, Settings

    kind: type[Settings] = EXPERIMENTS[experiment].settings
    known = kind.model_fields
    current = {former: name for name, former in kind.renamed().items()}
    found: dict[str, str] = {}
    rest = list(extra)
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        given = flag.removeprefix("--").replace("-", "_")
        name = current.get(given, given)
        if not flag.startswith("--") or name not in known:
            own = [f"--{field.replace('_', '-')}" for field in known]
            raise WorkbenchError(
                f"workbench {command} does not know {flag!r}.",
                remedy=did_you_mean(flag, [*own, "--model", "--corpus", "--set", "--sweep"]),
            )
        if not equals:
            is_switch = known[name].annotation is bool
            follows = bool(rest) and not rest[0].startswith("--")
            if not follows and not is_switch:
                raise WorkbenchError(f"{flag} needs a value.", remedy=f"Say {flag} VALUE.")
            value = rest.pop(0) if follows else "true"
        found[given] = value
    return kind.with_current_names(found)


@experiments.callback()
def list_experiments(context: typer.Context, json: Json = False) -> None:
    """List the experiments there are."""
    if has_command(context, json):
        return
    from workbench.cli import output

    with output.progress("opening"):
        found = output.experiments()
    output.print_json({"experiments": found}) if json else output.print_experiments(found)


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
    """Tell an experiment's settings, needs and tables; and whether a model or corpus fits."""
    from workbench.cli import output
    from workbench.runs.request import named

    with output.progress("opening"):
        found = output.experiment(
            experiment, model or [], corpus or [], named(set_ or (), "setting")
        )
    output.print_json(found) if json else output.print_experiment(found)
