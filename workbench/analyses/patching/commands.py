"""`workbench patch`: which activations of a model carry what a counterfactual text destroys.

Costs: opening the model, a forward pass for each text, and a row of a batch for each activation.
"""

from typing import Annotated, Literal

import typer

from workbench.cli.options import Device, Json, Objective, Pickled, Precision, Seed, model_refs

What = Literal["states", "heads", "mlps", "attentions"]
By = Literal["word", "piece", "all"]
Measure = Literal["logit", "log-probability", "probability"]


def patch(
    clean: Annotated[
        str,
        typer.Argument(
            metavar="CLEAN", help="Text; [MASK], <mask> or ___ stands for a hidden word."
        ),
    ],
    corrupt: Annotated[
        str,
        typer.Argument(
            metavar="CORRUPT", help="The same text with another word, in which it is restored."
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="Model: mini:bert, a run that trained one, a folder, hub id, .gguf file, elmo:….",
            autocompletion=model_refs,
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="Explained choice (default: the top choice for CLEAN).")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Choice that is subtracted (default: the top choice for CORRUPT)."),
    ] = None,
    what: Annotated[What, typer.Option(help="Activations to restore.")] = "states",
    by: Annotated[
        By | None, typer.Option(help="Units to restore (default: all for heads, else word).")
    ] = None,
    word: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Word of CLEAN to hide and predict, or its index."),
    ] = None,
    position: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Number of the hidden word or written piece; start or end of an answer.",
        ),
    ] = None,
    second: Annotated[
        str | None, typer.Option(help="Second text of a pair, for tasks of two texts.")
    ] = None,
    corrupt_second: Annotated[
        str | None, typer.Option(help="Second text of the corrupt pair (default: --second).")
    ] = None,
    measure: Annotated[
        Measure | None,
        typer.Option(help="Number of a choice (default: logit for two choices)."),
    ] = None,
    device: Device = None,
    precision: Precision = "auto",
    seed: Seed = 0,
    pickled: Pickled = False,
    objective: Objective = "",
    json: Json = False,
) -> None:
    """Restore activations of a clean text in a corrupt one, one at a time.

    Effects are shares of the difference of the two texts: 100 % is the clean text, 0 % the corrupt
    one.
    """
    from workbench.cli import output

    with output.progress("Loading model"):
        from workbench.analyses.patching.patch import patch as patched
        from workbench.models.loading import load

        opened = load(model, device, precision, seed=seed, pickled=pickled, objective=objective)
    with output.progress("Patching") as done:
        found = patched(
            opened,
            clean,
            corrupt,
            target,
            against,
            what=what,
            by=by,
            word=word,
            position=int(position) if position and position.isdecimal() else position,
            second=second,
            corrupt_second=corrupt_second,
            measure=measure,
            on_progress=done,
        )
    output.answer(found, json)
