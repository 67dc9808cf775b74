"""Options that several commands share, their completions, and lists after one flag.

Costs: nothing until a shell asks for completions.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from workbench.corpora import Corpus

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Split = Annotated[str | None, typer.Option(help="Split to use, such as train, dev or test.")]
ExperimentSplit = Annotated[
    str | None,
    typer.Option(
        help="Split to use (default: test for most; `workbench experiments show` names it)."
    ),
]
Unit = Literal["sentence", "document"]
UnitOption = Annotated[Unit, typer.Option("--unit", help="Unit of a Doc (default: sentence).")]
Pipeline = Annotated[str | None, typer.Option(help="spaCy pipeline for raw text.")]
Language = Annotated[str, typer.Option(help="Language of the text, if no pipeline is named.")]
Text = Annotated[
    list[str] | None,
    typer.Option(help="For a table: column that holds a text (maximum: 2 columns)."),
]
Label = Annotated[list[str] | None, typer.Option(help="For a table: column that holds a label.")]
EdgeLayer = Annotated[str | None, typer.Option(help="Name of the layer of an edge file.")]
Device = Annotated[
    str | None, typer.Option(help="cpu, cuda or cuda:1 (default: a GPU if there is one).")
]
Precision = Annotated[str, typer.Option(help="Precision: auto, fp32, bf16 or fp16.")]
Seed = Annotated[
    int,
    typer.Option(
        help="Seed of all random numbers, also of a model with random weights (REF@random)."
    ),
]
Scheduler = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Address of a Dask cluster that computes the run: tcp://…"
    ),
]
Share = Annotated[
    bool, typer.Option("--share", help="Do not queue behind other jobs on the device.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Start the run and do not wait for it.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE …", help="Settings; also as --KEY VALUE."),
]
Objective = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What is measured, of what the model predicts: the name of its task, or "
        "language-model (default: what the model was made for).",
    ),
]
Pickled = Annotated[
    bool, typer.Option("--pickled", help="Also read weights that are not safetensors.")
]


def corpus_refs(incomplete: str) -> list[str]:
    """Return the built-in corpora that begin with the text; the shell completes files."""
    from workbench.corpora import BUILT_IN
    from workbench.corpora.catalogue import catalogue

    tasks = [f"{corpus.name}/{task}" for corpus in catalogue().built_in for task in corpus.tasks]
    return [name for name in [*BUILT_IN, *tasks] if name.startswith(incomplete)]


def model_refs(incomplete: str) -> list[str]:
    """Return the built-in models, and the runs that trained one, that begin with the text."""
    from workbench.models.references import BUILT_IN_MODELS, TRAINING_EXPERIMENTS

    prefixes = tuple(f"{maker}-" for maker in TRAINING_EXPERIMENTS)
    trained = [name for name in run_names(incomplete) if name.startswith(prefixes)]
    return [name for name in BUILT_IN_MODELS if name.startswith(incomplete)] + trained


def experiment_names(incomplete: str) -> list[str]:
    """Return the experiments that begin with the text."""
    from workbench.experiment.definition import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Return the runs that begin with the text."""
    from workbench.runs.run import BUILT_IN, builtin_names
    from workbench.runs.run import run_names as names

    shipped = [f"{BUILT_IN}{name}" for name in builtin_names()]
    return [name for name in [*names(), *shipped] if name.startswith(incomplete)]


CorpusRef = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="Corpus: a file, a folder of splits, hub:NAME, or primer.",
        autocompletion=corpus_refs,
    ),
]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Name of a run, or its beginning.", autocompletion=run_names
    ),
]
SomeRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN…]",
        help="Names of runs, or their beginnings (default: all finished runs).",
        autocompletion=run_names,
    ),
]
RunNames = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN…", help="Names of runs, or their beginnings.", autocompletion=run_names
    ),
]


class Several(TyperCommand):
    """A command whose `--set` and `--sweep` take all `key=value` pairs that follow them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(spread(args)))


WITH_SETTINGS: dict[str, Any] = {  # of a command that takes the settings of an experiment
    "cls": Several,
    "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
}


def takes_settings(command: Callable[..., Any]) -> bool:
    """Whether a command takes settings beside its options: it asks for the context."""
    return any(each.annotation is typer.Context for each in signature(command).parameters.values())


def spread(args: Iterable[str], flags: Iterable[str] = ("--set", "--sweep")) -> Iterable[str]:
    """Rewrite `--set a=1 b=2` as `--set a=1 --set b=2`."""
    flag, first = "", False
    for arg in args:
        if arg in flags:
            flag, first = arg, True
        elif arg.startswith("-"):
            flag = ""
        elif flag and not first:
            if "=" in arg:
                yield flag
            else:
                flag = ""
        first = arg in flags
        yield arg


def has_command(context: typer.Context, json: bool) -> bool:
    """Return whether a command follows the name of a group; --json before it is an error."""
    if context.invoked_subcommand and json:
        context.fail(f"--json goes after the command: {context.invoked_subcommand} … --json")
    return context.invoked_subcommand is not None


def opened_corpus(ref: str, **reading: Any) -> "Corpus":
    """Open a corpus, and print the notes of its reader."""
    from workbench.cli import output

    with output.progress("opening the corpus"):
        from workbench.corpora import read

        corpus = read(ref, **reading)
    for note in corpus.notes:
        output.note(note)
    return corpus


def reading(
    unit: UnitOption = "sentence",
    pipeline: Pipeline = None,
    language: Language = "en",
    text: Text = None,
    label: Label = None,
    edge_layer: EdgeLayer = None,
) -> dict[str, Any]:
    """Return the options of a command as options of `read`."""
    return {
        "unit": unit,
        "pipeline": pipeline,
        "language": language,
        "text": text or (),
        "labels": label or (),
        "layer": edge_layer,
    }


Reading = dict[str, Any]  # the options of `read`


def reads_corpus(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for reading a corpus to a command, which gets them together as `reading`."""
    options = signature(reading).parameters
    parameters = list(signature(command).parameters.values())
    index = next(i for i, parameter in enumerate(parameters) if parameter.name == "reading")

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        options_ = {name: arguments.pop(name) for name in options}
        command(reading=reading(**options_), **arguments)

    parameters[index : index + 1] = options.values()
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    with_options.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # for typer
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options
