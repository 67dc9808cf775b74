"""The `workbench` command: read a choice, call one function, show the answer.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted. Everything heavy is
imported inside the command that needs it, so that `workbench --help` is quick.
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workbench import __version__
from workbench.errors import WorkbenchError, listed

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus

app = typer.Typer(
    name="workbench",
    help="Train or load language models and see what is inside them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
corpora = typer.Typer(help="List, show, describe and convert corpora.", invoke_without_command=True)
app.add_typer(corpora, name="corpora")
models = typer.Typer(
    help="List what models can be opened, and open one.", invoke_without_command=True
)
app.add_typer(models, name="models")

Ref = Annotated[str, typer.Argument(help="A file, a folder of splits, hub:NAME, or primer.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Split = Annotated[str | None, typer.Option(help="One split only, such as train, dev or test.")]
Unit = Literal["sentence", "document"]
UnitOption = Annotated[Unit, typer.Option("--unit", help="What one Doc is.")]
Pipeline = Annotated[str | None, typer.Option(help="The spaCy pipeline for raw text.")]
Language = Annotated[str, typer.Option(help="Language of the text where no pipeline tells it.")]
Text = Annotated[list[str] | None, typer.Option(help="Column of a table with a text; up to two.")]
Label = Annotated[list[str] | None, typer.Option(help="Column of a table with a label.")]
EdgeLayer = Annotated[str | None, typer.Option(help="Name for the layer of an edge file.")]


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2, never a traceback."""
    from workbench import terminal

    terminal.print_whatever_comes()
    with terminal.whole_output():
        try:
            app()
        except WorkbenchError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"workbench {__version__}")
        raise typer.Exit


@app.callback()
def workbench(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def doctor(json: Json = False) -> None:
    """Device, versions, caches, what is missing and the command that mends it."""
    from workbench import terminal
    from workbench.doctor import facts

    with terminal.progress("looking around"):
        found = facts()
    terminal.print_json(found.as_dict()) if json else terminal.print_facts(found)


@app.command()
def demo() -> None:
    """A tour on the built-in corpus and a tiny model, offline."""
    from workbench import terminal

    with terminal.progress("opening"):
        from workbench.demo import tour
    tour()


@app.command(name="app")
def open_app(
    port: Annotated[
        int, typer.Option(help="Where on localhost to serve.", min=1, max=65535)
    ] = 8501,
    headless: Annotated[bool, typer.Option(help="Do not open a browser.")] = False,
) -> None:
    """The app, on localhost."""
    from streamlit.web import cli as streamlit

    from workbench.places import app_file

    options = ["--server.port", str(port), "--server.headless", str(headless).lower()]
    streamlit.main(["run", str(app_file()), *options], prog_name="streamlit")


@corpora.callback()
def list_corpora(context: typer.Context, json: Json = False) -> None:
    """List the built-in corpora and the formats that can be read."""
    if _has_command(context, json):
        return
    from workbench import terminal

    with terminal.progress("opening"):
        from workbench.corpora.catalogue import catalogue

        found = catalogue()
    terminal.print_json(found.as_dict()) if json else terminal.print_catalogue(found)


@corpora.command()
def show(
    ref: Ref,
    split: Split = None,
    limit: Annotated[int, typer.Option(help="How many Docs.", min=0)] = 5,
    unit: UnitOption = "sentence",
    pipeline: Pipeline = None,
    language: Language = "en",
    text: Text = None,
    label: Label = None,
    edge_layer: EdgeLayer = None,
    json: Json = False,
) -> None:
    """Print Docs with all they carry: trees, spans, chains, edges and labels."""
    corpus = _read(ref, unit, pipeline, language, text, label, edge_layer)
    from workbench import terminal
    from workbench.corpora.show import as_data, name_of, shown

    docs = corpus.docs(split, limit)
    if json:
        terminal.print_json({"corpus": corpus.name, "docs": [as_data(doc) for doc in docs]})
        return
    for number, doc in enumerate(docs, start=1):
        print(f"[{number}] {name_of(doc)}".rstrip(), shown(doc), sep="\n", end="\n\n")


@corpora.command(name="describe")
def describe_corpus(
    ref: Ref,
    split: Split = None,
    unit: UnitOption = "sentence",
    pipeline: Pipeline = None,
    language: Language = "en",
    text: Text = None,
    label: Label = None,
    edge_layer: EdgeLayer = None,
    json: Json = False,
) -> None:
    """Count what a corpus holds: sizes, lengths, tags, relations, labels, words."""
    corpus = _read(ref, unit, pipeline, language, text, label, edge_layer)
    from workbench import terminal
    from workbench.corpora.describe import describe

    if split is not None:
        corpus = replace(corpus, splits={split: partial(corpus.docs, split)})
    with terminal.progress("Docs") as progress:
        description = describe(corpus, progress)
    terminal.print_json(description.as_dict()) if json else terminal.print_description(description)


@corpora.command()
def convert(
    ref: Ref,
    out: Annotated[Path, typer.Argument(help="A .spacy, .conllu or .jsonl file to write.")],
    split: Split = None,
    layer: Annotated[str | None, typer.Option(help="The layer of edges a .jsonl gets.")] = None,
    unit: UnitOption = "sentence",
    pipeline: Pipeline = None,
    language: Language = "en",
    text: Text = None,
    label: Label = None,
    edge_layer: EdgeLayer = None,
) -> None:
    """Write a corpus, or one split of it, in another format."""
    corpus = _read(ref, unit, pipeline, language, text, label, edge_layer)
    from workbench import terminal
    from workbench.corpora import layers, left_out, write

    found: set[str] = set()

    def noted(doc: "Doc") -> "Doc":
        found.update(layers(doc))
        return doc

    with terminal.progress("Docs") as progress:
        docs = map(noted, corpus.docs(split))
        count = write(terminal.counted(docs, progress), out, layer=layer)
    if lost := left_out(found, out, layer):
        terminal.note(f"{out.suffix} has no place for these layers: {listed(sorted(lost))}.")
    print(f"{count:,} {'Doc' if count == 1 else 'Docs'} written to {out}")


@models.callback()
def list_models(context: typer.Context, json: Json = False) -> None:
    """List the families of models, how to name one, and what cannot be asked of some."""
    if _has_command(context, json):
        return
    from workbench import terminal
    from workbench.models.catalogue import catalogue

    terminal.print_json(catalogue()) if json else terminal.print_models(catalogue())


@models.command(name="show")
def show_model(
    ref: Annotated[str, typer.Argument(help="A folder, a hub id, elmo:… or vectors:…")],
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by itself the GPU.")] = None,
    precision: Annotated[str, typer.Option(help="auto, fp32, bf16 or fp16.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of the weights of a REF@random.")] = 0,
    pickled: Annotated[
        bool, typer.Option("--pickled", help="Read weights that are not safetensors.")
    ] = False,
    json: Json = False,
) -> None:
    """Open a model and tell its stacks, sites, size and limits."""
    from workbench import terminal

    with terminal.progress("opening"):
        from workbench.models.catalogue import facts
        from workbench.models.loading import load

        found = facts(load(ref, device, precision, seed=seed, pickled=pickled))
    terminal.print_json(found) if json else terminal.print_model(found)


def _has_command(context: typer.Context, json: bool) -> bool:
    """Whether a command follows a group's name; --json before it would be lost."""
    if context.invoked_subcommand and json:
        context.fail(f"--json goes after the command: {context.invoked_subcommand} … --json")
    return context.invoked_subcommand is not None


def _read(
    ref: str,
    unit: Unit,
    pipeline: str | None,
    language: str,
    text: list[str] | None,
    label: list[str] | None,
    layer: str | None,
) -> "Corpus":
    """Open a corpus and pass on what its reader has to say."""
    from workbench import terminal

    with terminal.progress("opening"):
        from workbench.corpora import read

        corpus = read(
            ref,
            unit=unit,
            pipeline=pipeline,
            language=language,
            text=text or (),
            labels=label or (),
            layer=layer,
        )
    for note in corpus.notes:
        terminal.note(note)
    return corpus


if __name__ == "__main__":
    main()
