"""`workbench compress`: the smallest model that keeps the score of a task, in a folder.

Costs: the run of the experiment `smaller-model`, and writing the folder.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.cli.options import (
    Detach,
    Device,
    ExperimentSplit,
    Json,
    Pickled,
    Reading,
    Seed,
    Set,
    Share,
    corpus_refs,
    model_refs,
    reads_corpus,
)
from workbench.cli.run import begin_starter, given_settings
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.runs.request import Request

NAME = "smaller-model"


@reads_corpus
def compress(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            help="Model: mini:bert, a run that trained one, a folder, a hub id. One without a head "
            "for the task is fine-tuned first.",
            autocompletion=model_refs,
        ),
    ],
    corpus: Annotated[
        str,
        typer.Option(
            help="Labelled corpus: a table, a folder of splits, primer/sentiment.",
            autocompletion=corpus_refs,
        ),
    ],
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Share of the score that the smaller model keeps, such as 99% or 0.99 (default "
            "99%).",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for the smaller model (default: the folder of the run)."),
    ] = None,
    set_: Set = None,
    seed: Seed = 0,
    split: ExperimentSplit = None,
    device: Device = None,
    pickled: Pickled = False,
    *,
    reading: Reading,
    share: Share = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Cut a model for a task as far as its score allows, and write the smaller model.

    First, the stages and their times are printed. `workbench experiments show smaller-model` lists
    its settings, such as --recovery-epochs 0.
    """
    from workbench.analyses.smaller_model.result import written
    from workbench.cli import output
    from workbench.runs.api import begun
    from workbench.runs.copied_model import require_new
    from workbench.runs.request import make_request

    settings = given_settings("compress", NAME, set_, context.args)
    if keep is not None and settings.setdefault("keep", keep) != keep:
        raise WorkbenchError("keep is set twice.", code="setting-repeated", remedy="Set it once.")
    if out is not None and detach:
        raise WorkbenchError(
            "--out is written at the end of the run, so it needs to wait for it.",
            code="option-conflict",
            remedy="Remove --detach; later, use workbench export-model.",
        )
    require_new(out)
    begin_starter(NAME)
    with output.progress("preparing the run"):
        request = make_request(
            NAME, [model], [corpus], settings, split=split, seed=seed, device=device,
            pickled=pickled, reading=reading,
        )  # fmt: skip
        for error in request.unmet_requirements():
            raise error
        lines = _planned(request)
    if not json:
        for line in lines:
            output.note(line)
    run = begun(request, share=share)
    if detach:
        output.started(run, json)
        return
    output.follow(run, resumed_by="the same command, which also writes the folder")
    if run.status.state != "done" or run.model is None:
        output.result(run, json)
        return
    with output.progress("writing the folder"):
        folder, report, code = written(run, out)
    if json:
        files = {"folder": str(folder), "page": str(report), "open": code}
        output.print_json(run.as_data() | files)
        return
    output.result(run, json)
    print(f"\nFolder: {folder}\nOne page: {report}\nOpen it:")
    print("\n".join(f"    {line}" for line in code.splitlines() if line))


def _planned(request: "Request") -> list[str]:
    """The stages, with what is trained and how long they take."""
    from workbench.analyses.smaller_model.plan import left_out, stages, total
    from workbench.corpora.browse import sizes

    settings: Any = request.settings
    found = stages(settings, request.facts[0], sizes(request.corpora[0]))
    return [
        f"{len(found)} stages, {total(found)} on this processor:",
        *(f"{number}. {stage}" for number, stage in enumerate(found, 1)),
        *(
            f"{name}: left out; {reason}."
            for name, reason in left_out(settings, request.facts[0]).items()
        ),
    ]
