"""`workbench neighbours` and `workbench tokenize`: words in their contexts and in pieces.

Costs: opening the models; for neighbours an index of the corpus the first time (one forward pass
over it), and a forward pass of the text. Tokenizers take milliseconds.
"""

from typing import Annotated, Literal

import typer

from workbench.cli.options import (
    Device,
    Json,
    Pickled,
    Precision,
    Reading,
    Seed,
    corpus_refs,
    model_refs,
    opened_corpus,
    reads_corpus,
)
from workbench.core.head_names import parse_state


@reads_corpus
def neighbours(
    typed: Annotated[str, typer.Argument(metavar="TEXT", help="Text that the word is in.")],
    word: Annotated[
        str, typer.Argument(metavar="WORD", help="Word of the text, or its index from 0.")
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="Model: mini:bert, a run that trained one, a folder, hub id, "
            ".gguf file, elmo:…, vectors:….",
            autocompletion=model_refs,
        ),
    ],
    corpus: Annotated[
        str,
        typer.Option(
            "--corpus",
            help="Corpus to search: a file, a folder of splits, hub:NAME, or primer.",
            autocompletion=corpus_refs,
        ),
    ],
    split: Annotated[
        str | None, typer.Option(help="Split to search, such as train (default: all).")
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            help="Layer: embeddings, or a number from 1 (default: the embeddings, the middle, "
            "and the last)."
        ),
    ] = None,
    stack: Annotated[
        Literal["encoder", "decoder"] | None,
        typer.Option(help="Stack of an encoder-decoder (default: encoder)."),
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Number of neighbours.", min=1)] = 10,
    same_word: Annotated[
        Literal["form", "lemma"] | None,
        typer.Option(help="Only occurrences of the word's form, or of its lemma."),
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="One neighbour for each form.")
    ] = False,
    max_occurrences: Annotated[
        int, typer.Option(help="Maximum number of words to search, drawn at random.", min=1)
    ] = 250_000,
    *,
    reading: Reading,
    device: Device = None,
    precision: Precision = "auto",
    seed: Seed = 0,
    pickled: Pickled = False,
    json: Json = False,
) -> None:
    """Find the words of a corpus that are nearest to a word of a text, layer by layer.

    The first search of a corpus computes the states of its words, and stores them in the cache.
    """
    from workbench.cli import output

    layers = [parse_state(name) for name in layer or ()]
    with output.progress("Loading model"):
        from workbench.models.loading import load

        opened = load(model, device, precision, seed=seed, pickled=pickled)
    searched = opened_corpus(corpus, **reading)
    with output.progress("Indexing texts") as show:
        from workbench.analyses.words.neighbours import neighbours as search

        found = search(
            opened,
            searched,
            typed,
            word,
            layers=layers or None,
            stack=stack,
            k=k,
            split=split,
            same_word=same_word,
            distinct=distinct,
            max_occurrences=max_occurrences,
            seed=seed,
            on_progress=lambda done, total: show(done),
        )
    output.answer(found, json)


def tokenize(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Text to split into pieces.")],
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            help="Model: mini:bert, a run that trained one, a folder, hub id, .gguf file, "
            "elmo:…; several are shown next to each other.",
            autocompletion=model_refs,
        ),
    ],
    steps: Annotated[
        bool,
        typer.Option("--steps", help="Also show each merge, longest match, or best segmentation."),
    ] = False,
    word: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Word of the text, or its index, for --steps."),
    ] = None,
    pickled: Pickled = False,
    json: Json = False,
) -> None:
    """Split a text into the pieces of each model, and name what they do not say of it."""
    from workbench.cli import output

    with output.progress("Loading model"):
        from workbench.analyses.words.tokenizations import tokenizations
        from workbench.models.loading import load

        models = [load(ref, "cpu", pickled=pickled) for ref in model]
    found = tokenizations(text, *models)
    shown = steps or word is not None
    followed = [tokenizations(text, one).steps(word) for one in models] if shown else []
    if json:
        data = found.as_dict()
        if shown:
            data["steps"] = [each.as_dict() for each in followed]
        output.print_json(data)
        return
    lines = repr(found).split("\n")
    print("\n".join(line for line in lines if not line.startswith("  Note: ")))
    for each in followed:
        print(f"\n{each!r}")
    for result in found.results:
        for note in result.notes:
            output.note(f"{result.model}: {note}" if len(models) > 1 else note)
