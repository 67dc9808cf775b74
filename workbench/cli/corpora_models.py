"""`workbench corpora`: list, show, describe and convert corpora, and train a parser on one."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.options import (
    CorpusRef,
    Json,
    Language,
    Pickled,
    Precision,
    Reading,
    Seed,
    Split,
    has_command,
    opened_corpus,
    reads_corpus,
)
from workbench.core.errors import listed

if TYPE_CHECKING:
    from spacy.tokens import Doc

corpora_app = typer.Typer(
    help="List, show, describe and convert corpora.", invoke_without_command=True
)


@corpora_app.callback()
def list_corpora(context: typer.Context, json: Json = False) -> None:
    """List the built-in corpora and the formats that can be read."""
    if has_command(context, json):
        return
    from workbench.cli import output

    with output.progress("opening"):
        from workbench.corpora.catalogue import catalogue

        found = catalogue()
    output.print_json(found.as_dict()) if json else output.print_catalogue(found)


@corpora_app.command("show")
@reads_corpus
def show_corpus(
    ref: CorpusRef,
    split: Split = None,
    limit: Annotated[int, typer.Option(help="How many Docs.", min=0)] = 5,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Print Docs with all they carry: trees, spans, chains, edges and labels."""
    corpus = opened_corpus(ref, **reading)
    from workbench.cli import output
    from workbench.corpora.show import as_data, name_of, shown

    docs = corpus.docs(split, limit)
    if json:
        output.print_json({"corpus": corpus.name, "docs": [as_data(doc) for doc in docs]})
        return
    for number, doc in enumerate(docs, start=1):
        print(f"[{number}] {name_of(doc)}".rstrip(), shown(doc), sep="\n", end="\n\n")


@corpora_app.command()
@reads_corpus
def describe(
    ref: CorpusRef,
    split: Split = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Count what a corpus holds: sizes, lengths, tags, relations, labels, words."""
    corpus = opened_corpus(ref, **reading)
    from workbench.cli import output
    from workbench.corpora.describe import describe as counted

    if split is not None:
        corpus = replace(corpus, splits={split: partial(corpus.docs, split)})
    with output.progress("Docs") as progress:
        description = counted(corpus, progress)
    output.print_json(description.as_dict()) if json else output.print_description(description)


@corpora_app.command()
@reads_corpus
def convert(
    ref: CorpusRef,
    out: Annotated[Path, typer.Argument(help="A .spacy, .conllu or .jsonl file to write.")],
    split: Split = None,
    layer: Annotated[str | None, typer.Option(help="The layer of edges a .jsonl gets.")] = None,
    *,
    reading: Reading,
) -> None:
    """Write a corpus, or one split of it, in another format."""
    corpus = opened_corpus(ref, **reading)
    from workbench.cli import output
    from workbench.corpora import layers, left_out, write

    found: set[str] = set()

    def noted(doc: "Doc") -> "Doc":
        found.update(layers(doc))
        return doc

    with output.progress("Docs") as progress:
        docs = map(noted, corpus.docs(split))
        count = write(output.counted(docs, progress), out, layer=layer)
    if lost := left_out(found, out, layer):
        output.note(f"{out.suffix} has no place for these layers: {listed(sorted(lost))}.")
    print(f"{count:,} {'Doc' if count == 1 else 'Docs'} written to {out}")


@corpora_app.command()
def train_parser(
    ref: CorpusRef,
    out: Annotated[Path, typer.Option(help="A new folder for the pipeline.", show_default=False)],
    steps: Annotated[
        int | None,
        typer.Option(help="How many steps; by itself as the treebank's size asks.", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 0,
    limit: Annotated[
        int | None, typer.Option(help="Sentences of each part, at most.", min=1)
    ] = None,
    language: Language = "en",
    json: Json = False,
) -> None:
    """Train a spaCy pipeline for tags, trees and sentences on a treebank.

    It learns from the train split, keeps what is best on dev, and is scored on dev and test.
    """
    corpus = opened_corpus(ref, language=language)
    from workbench.cli import output
    from workbench.corpora.train_parser import train_parser as trained

    with output.progress("training steps") as progress:
        found = trained(corpus, out, steps=steps, seed=seed, limit=limit, on_progress=progress)
    if json:
        output.print_json({**found, "out": str(out)})
        return
    for note in found["notes"]:
        output.note(note)
    names = {"words": "words", "sentences": "sentences", "upos": "UPOS", "uas": "UAS", "las": "LAS"}
    rows = [
        (part, *(f"{scores[name]:.1%}" if name in scores else "" for name in names))
        for part, scores in found["scores"].items()
    ]
    output.print_table(
        "Scores on raw text, of trees without punctuation", ("", *names.values()), rows
    )
    print(f"Pipeline: {out}\nRead a text with it: workbench corpora show TEXT.txt --pipeline {out}")


# --- `workbench models`: what models can be opened, and the facts of one --------------------------

models_app = typer.Typer(
    help="List what models can be opened, and open one.", invoke_without_command=True
)


@models_app.callback()
def list_models(context: typer.Context, json: Json = False) -> None:
    """List the families of models, how to name one, and what cannot be asked of some."""
    if has_command(context, json):
        return
    from workbench.cli import output
    from workbench.models.references import catalogue

    output.print_json(catalogue()) if json else output.print_models(catalogue())


@models_app.command("show")
def show_model(
    ref: Annotated[str, typer.Argument(help="A folder, a hub id, elmo:… or vectors:…")],
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, or cuda:0,cuda:1 for both; by itself the GPU."),
    ] = None,
    precision: Precision = "auto",
    seed: Seed = 0,
    pickled: Pickled = False,
    json: Json = False,
) -> None:
    """Open a model and tell its stacks, sites, size, memory and limits."""
    from workbench.cli import output

    with output.progress("opening"):
        from workbench.models.loading import load
        from workbench.models.references import facts

        model = load(ref, device, precision, seed=seed, pickled=pickled)
        found = facts(model)
        if (memory := model.memory()) is not None:
            found["memory"] = memory
    output.print_json(found) if json else output.print_model(found)
