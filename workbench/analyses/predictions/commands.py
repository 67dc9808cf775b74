"""`workbench predict`: what models predict for a typed text.

Costs: opening the models, and a forward pass of each; for written text a pass for each piece.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli.options import Device, Json, Objective, Pickled, Precision, Seed, model_refs

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.analyses.predictions.results import Predicted, WrittenPiece
    from workbench.engine.model import Model


def predict(
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="Text; [MASK], <mask> or ___ stands for a hidden word."
        ),
    ],
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            help="Model: mini:bert, a run that trained one, a folder, hub id, .gguf file, "
            "elmo:…; several are shown next to each other.",
            autocompletion=model_refs,
        ),
    ],
    second: Annotated[
        str | None, typer.Option(help="Second text of a pair, for tasks of two texts.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="Question to answer from the text.")] = None,
    hide: Annotated[
        str | None, typer.Option(metavar="WORD", help="Word of the text to hide, or its index.")
    ] = None,
    top: Annotated[int, typer.Option(help="Number of most probable choices.", min=1)] = 5,
    max_pieces: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Maximum number of pieces to write; with it, a causal model continues the text.",
            min=1,
        ),
    ] = None,
    device: Device = None,
    precision: Precision = "auto",
    seed: Seed = 0,
    pickled: Pickled = False,
    objective: Objective = "",
    json: Json = False,
) -> None:
    """Predict hidden words, the next piece, a label, an answer, or a written text.

    Written text appears piece by piece.
    """
    from workbench.cli import output

    with output.progress("Loading model"):
        from workbench.models.loading import load

        models = [
            load(ref, device, precision, seed=seed, pickled=pickled, objective=objective)
            for ref in model
        ]
    streams = not json and len(models) == 1
    pieces: list[WrittenPiece] = []

    def show(piece: "WrittenPiece") -> None:
        if not pieces and models[0].objective in ("causal", "bidirectional"):
            print(_plain(text), end="")  # which the model continues
        pieces.append(piece)
        print(_plain(piece.text), end="", flush=True)

    results = [
        _predicted(one, text, second, question, hide, top, max_pieces, show if streams else None)
        for one in models
    ]
    if json:
        output.print_json({"predictions": [result.as_dict() for result in results]})
        return
    if pieces:
        print()
    for result in results:
        for note in result.notes:
            output.note(f"{result.model}: {note}" if len(results) > 1 else note)
    print(_printed(results))


def _predicted(
    model: "Model",
    text: str,
    second: str | None,
    question: str | None,
    hide: str | None,
    top: int,
    max_pieces: int | None,
    on_piece: "Callable[[WrittenPiece], None] | None",
) -> "Predicted":
    from workbench.analyses.predictions.generate import answer
    from workbench.analyses.predictions.predict import predict_one

    if question is None:
        return predict_one(model, text, second, top, hide, max_pieces, on_piece)
    pieces = {} if max_pieces is None else {"max_pieces": max_pieces}
    return answer(model, question, text, top=top, on_piece=on_piece, **pieces)


def _printed(results: "list[Predicted]") -> str:
    """The results as text, without notes, which go to standard error."""
    from dataclasses import replace

    from workbench.analyses.predictions.results import SideBySide

    shown = tuple(replace(result, notes=()) for result in results)
    return repr(shown[0] if len(shown) == 1 else SideBySide(shown))


def _plain(text: str) -> str:
    """A text in which nothing but a line end controls the terminal."""
    from workbench.analyses.predictions.results import printable

    return "\n".join(map(printable, text.split("\n")))
