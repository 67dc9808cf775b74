"""Options that several commands share, what completes them, and lists after one flag.

Costs nothing until a shell asks for completions.
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
Split = Annotated[str | None, typer.Option(help="One split only, such as train, dev or test.")]
Unit = Literal["sentence", "document"]
UnitOption = Annotated[Unit, typer.Option("--unit", help="What one Doc is.")]
Pipeline = Annotated[str | None, typer.Option(help="The spaCy pipeline for raw text.")]
Language = Annotated[str, typer.Option(help="Language of the text where no pipeline tells it.")]
Text = Annotated[list[str] | None, typer.Option(help="Column of a table with a text; up to two.")]
Label = Annotated[list[str] | None, typer.Option(help="Column of a table with a label.")]
EdgeLayer = Annotated[str | None, typer.Option(help="Name for the layer of an edge file.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; by itself the GPU.")]
Precision = Annotated[str, typer.Option(help="auto, fp32, bf16 or fp16.")]
Seed = Annotated[int, typer.Option(help="Of all that is drawn, and of the weights of REF@random.")]
Scheduler = Annotated[
    str, typer.Option(metavar="ADDRESS", help="A Dask cluster to compute on: tcp://…")
]
Share = Annotated[bool, typer.Option("--share", help="Do not wait for other jobs on the device.")]
Detach = Annotated[bool, typer.Option("--detach", help="Start it and do not wait.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE …", help="Settings; or write --KEY VALUE."),
]
Pickled = Annotated[bool, typer.Option("--pickled", help="Read weights that are not safetensors.")]


def corpus_refs(incomplete: str) -> list[str]:
    """Built-in corpora that begin so; files are the shell's own to complete."""
    from workbench.corpora import BUILT_IN
    from workbench.corpora.catalogue import catalogue

    tasks = [f"{corpus.name}/{task}" for corpus in catalogue().built_in for task in corpus.tasks]
    return [name for name in [*BUILT_IN, *tasks] if name.startswith(incomplete)]


def model_refs(incomplete: str) -> list[str]:
    """Built-in models and runs that trained one that begin so."""
    from workbench.models.references import MAKERS, MINI

    made = tuple(f"{maker}-" for maker in MAKERS)
    trained = [name for name in run_names(incomplete) if name.startswith(made)]
    return [name for name in MINI if name.startswith(incomplete)] + trained


def experiment_names(incomplete: str) -> list[str]:
    """Experiments that begin so."""
    from workbench.core.experiment import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Runs that begin so."""
    from workbench.runs.run import run_names as names

    return [name for name in names() if name.startswith(incomplete)]


CorpusRef = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="A file, a folder of splits, hub:NAME, or primer.",
        autocompletion=corpus_refs,
    ),
]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's name, or how it begins.", autocompletion=run_names),
]
SomeRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN…]",
        help="Runs, or how they begin (default: all that are finished).",
        autocompletion=run_names,
    ),
]
RunNames = Annotated[
    list[str],
    typer.Argument(metavar="RUN…", help="Runs, or how they begin.", autocompletion=run_names),
]


class Several(TyperCommand):
    """A command whose `--set` and `--sweep` take all the `key=value` that follow them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(spread(args)))


def spread(args: Iterable[str], flags: Iterable[str] = ("--set", "--sweep")) -> Iterable[str]:
    """`--set a=1 b=2` as `--set a=1 --set b=2`."""
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
    """Whether a command follows a group's name; --json before it would be lost."""
    if context.invoked_subcommand and json:
        context.fail(f"--json goes after the command: {context.invoked_subcommand} … --json")
    return context.invoked_subcommand is not None


def opened_corpus(ref: str, **reading: Any) -> "Corpus":
    """Open a corpus and pass on what its reader has to say."""
    from workbench.cli import output

    with output.progress("opening"):
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
    """The options of a command as those of `read`."""
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
    """A command with the options of how a corpus is read, which it gets together as `reading`."""
    options = signature(reading).parameters
    own = list(signature(command).parameters.values())
    place = next(i for i, parameter in enumerate(own) if parameter.name == "reading")

    @wraps(command)
    def whole(**given: Any) -> None:
        command(reading=reading(**{name: given.pop(name) for name in options}), **given)

    own[place : place + 1] = options.values()
    own = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own]
    whole.__signature__ = Signature(own)  # type: ignore[attr-defined]  # what typer reads
    whole.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return whole
