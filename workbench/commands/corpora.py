"""`workbench corpora`: list, show, describe and convert corpora, and train a parser on one."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands.options import (
    CorpusRef,
    EdgeLayer,
    Json,
    Label,
    Language,
    Pipeline,
    Split,
    Text,
    UnitOption,
    has_command,
    opened_corpus,
)
from workbench.errors import listed

if TYPE_CHECKING:
    from spacy.tokens import Doc

app = typer.Typer(help="List, show, describe and convert corpora.", invoke_without_command=True)


@app.callback()
def list_corpora(context: typer.Context, json: Json = False) -> None:
    """List the built-in corpora and the formats that can be read."""
    if has_command(context, json):
        return
    from workbench import terminal

    with terminal.progress("opening"):
        from workbench.corpora.catalogue import catalogue

        found = catalogue()
    terminal.print_json(found.as_dict()) if json else terminal.print_catalogue(found)


@app.command()
def show(
    ref: CorpusRef,
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
    corpus = opened_corpus(
        ref,
        unit=unit,
        pipeline=pipeline,
        language=language,
        text=text,
        label=label,
        edge_layer=edge_layer,
    )
    from workbench import terminal
    from workbench.corpora.show import as_data, name_of, shown

    docs = corpus.docs(split, limit)
    if json:
        terminal.print_json({"corpus": corpus.name, "docs": [as_data(doc) for doc in docs]})
        return
    for number, doc in enumerate(docs, start=1):
        print(f"[{number}] {name_of(doc)}".rstrip(), shown(doc), sep="\n", end="\n\n")


@app.command()
def describe(
    ref: CorpusRef,
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
    corpus = opened_corpus(
        ref,
        unit=unit,
        pipeline=pipeline,
        language=language,
        text=text,
        label=label,
        edge_layer=edge_layer,
    )
    from workbench import terminal
    from workbench.corpora.describe import describe as counted

    if split is not None:
        corpus = replace(corpus, splits={split: partial(corpus.docs, split)})
    with terminal.progress("Docs") as progress:
        description = counted(corpus, progress)
    terminal.print_json(description.as_dict()) if json else terminal.print_description(description)


@app.command()
def convert(
    ref: CorpusRef,
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
    corpus = opened_corpus(
        ref,
        unit=unit,
        pipeline=pipeline,
        language=language,
        text=text,
        label=label,
        edge_layer=edge_layer,
    )
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


@app.command()
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
    from workbench import terminal
    from workbench.corpora.parser import train_parser as trained

    with terminal.progress("training steps") as progress:
        found = trained(corpus, out, steps=steps, seed=seed, limit=limit, progress=progress)
    if json:
        terminal.print_json({**found, "out": str(out)})
        return
    for note in found["notes"]:
        terminal.note(note)
    names = {"words": "words", "sentences": "sentences", "upos": "UPOS", "uas": "UAS", "las": "LAS"}
    rows = [
        (part, *(f"{scores[name]:.1%}" if name in scores else "" for name in names))
        for part, scores in found["scores"].items()
    ]
    terminal.table("Scores on raw text, of trees without punctuation", ("", *names.values()), rows)
    print(f"Pipeline: {out}\nRead a text with it: workbench corpora show TEXT.txt --pipeline {out}")
