"""`workbench tokenize`: how models split a typed text, side by side, and step by step.

Costs: opening the models; their tokenizers take milliseconds.
"""

from typing import Annotated

import typer

from workbench.cli.options import Json, Pickled, model_refs


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
        from workbench.analyses.words.tokenizations import tokenization_steps, tokenizations
        from workbench.models.loading import load

        models = [load(ref, "cpu", pickled=pickled) for ref in model]
    found = tokenizations(text, *models)
    shown = steps or word is not None
    followed = [tokenization_steps(one, text, word=word) for one in models] if shown else []
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
