"""`workbench corpora` and `workbench models`: list, show, describe and convert; train a parser.

Costs: reading the corpus, or opening the model.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.options import (
    CorpusRef,
    Json,
    Language,
    Objective,
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
from workbench.core.findings import percent

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

    with output.progress("loading"):
        from workbench.corpora.catalogue import catalogue

        data = catalogue()
    output.print_json(data.as_dict()) if json else output.print_catalogue(data)


@corpora_app.command("show")
@reads_corpus
def show_corpus(
    ref: CorpusRef,
    split: Split = None,
    limit: Annotated[int, typer.Option(help="Maximum number of Docs.", min=0)] = 5,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Print Docs, counted from 0, with what is annotated: trees, spans, chains, edges, labels."""
    corpus = opened_corpus(ref, **reading)
    from workbench.cli import output
    from workbench.corpora.show import as_data, doc_name, shown

    docs = corpus.docs(split, limit)
    if json:
        output.print_json({"corpus": corpus.name, "docs": [as_data(doc) for doc in docs]})
        return
    last = -1
    for last, doc in enumerate(docs):
        print(f"[{last}] {doc_name(doc)}".rstrip(), shown(doc), sep="\n", end="\n\n")
    if limit and last < 0:
        output.note(f"{corpus.name} has no Docs.")


@corpora_app.command()
@reads_corpus
def describe(
    ref: CorpusRef,
    split: Split = None,
    *,
    reading: Reading,
    json: Json = False,
) -> None:
    """Print the counts of a corpus: sizes, lengths, tags, relations, labels, words."""
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
    out: Annotated[Path, typer.Argument(help="Output file: .spacy, .conllu or .jsonl.")],
    split: Split = None,
    layer: Annotated[
        str | None, typer.Option(help="Layer of edges to write to a .jsonl file.")
    ] = None,
    *,
    reading: Reading,
) -> None:
    """Write a corpus, or one split of it, in another format."""
    corpus = opened_corpus(ref, **reading)
    from workbench.cli import output
    from workbench.corpora import layers, left_out, write

    seen: set[str] = set()

    def collected(doc: "Doc") -> "Doc":
        seen.update(layers(doc))
        return doc

    with output.progress("Docs") as progress:
        docs = map(collected, corpus.docs(split))
        count = write(output.counted(docs, progress), out, layer=layer)
    if lost := left_out(seen, out, layer):
        output.note(f"{out.suffix} files cannot store these layers: {listed(sorted(lost))}.")
    print(f"{count:,} {'Doc' if count == 1 else 'Docs'} written to {out}")


@corpora_app.command()
def train_parser(
    ref: CorpusRef,
    out: Annotated[Path, typer.Option(help="New folder for the pipeline.", show_default=False)],
    steps: Annotated[
        int | None,
        typer.Option(
            help="Number of training steps (default: depends on the size of the treebank).", min=1
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
    limit: Annotated[
        int | None,
        typer.Option(help="Maximum number of sentences of each split (default: all).", min=1),
    ] = None,
    language: Language = "en",
    json: Json = False,
) -> None:
    """Train a spaCy pipeline for tags, trees and sentences on a treebank.

    It trains on the train split, selects the best checkpoint on dev, and is scored on dev and test.
    """
    corpus = opened_corpus(ref, language=language)
    from workbench.cli import output
    from workbench.corpora.train_parser import train_parser as trained

    with output.progress("training steps") as progress:
        result = trained(corpus, out, steps=steps, seed=seed, limit=limit, on_progress=progress)
    if json:
        output.print_json({**result, "out": str(out)})
        return
    for note in result["notes"]:
        output.note(note)
    names = {"words": "words", "sentences": "sentences", "upos": "UPOS", "uas": "UAS", "las": "LAS"}
    rows = [
        (part, *(percent(scores[name], 1) if name in scores else "" for name in names))
        for part, scores in result["scores"].items()
    ]
    output.print_table(
        "Scores on raw text (trees without punctuation)", ("", *names.values()), rows
    )
    print(
        f"Pipeline: {out}\nParse a text with it: workbench corpora show TEXT.txt --pipeline {out}"
    )


# --- `workbench models`: what models can be opened, and the facts of one --------------------------

models_app = typer.Typer(
    help="List the families of models, and open a model.", invoke_without_command=True
)


@models_app.callback()
def list_models(context: typer.Context, json: Json = False) -> None:
    """List the families of models, their references, and their limits."""
    if has_command(context, json):
        return
    from workbench.cli import output
    from workbench.models.references import catalogue

    output.print_json(catalogue()) if json else output.print_models(catalogue())


@models_app.command("show")
def show_model(
    ref: Annotated[
        str, typer.Argument(help="Model: a folder, hub id, .gguf file, elmo:…, vectors:…")
    ],
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, or cuda:0,cuda:1 for both (default: a GPU if there is one)."),
    ] = None,
    precision: Precision = "auto",
    seed: Seed = 0,
    pickled: Pickled = False,
    objective: Objective = "",
    json: Json = False,
) -> None:
    """Open a model, and show its stacks, attention sites, size, memory and limits."""
    from workbench.cli import output

    with output.progress("Loading model"):
        from workbench.models.loading import load
        from workbench.models.references import facts as facts_of

        model = load(ref, device, precision, seed=seed, pickled=pickled, objective=objective)
        facts = facts_of(model)
        if (memory := model.memory()) is not None:
            facts["memory"] = memory
    output.print_json(facts) if json else output.print_model(facts)
