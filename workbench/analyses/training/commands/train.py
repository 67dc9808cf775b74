"""`workbench train FAMILY`: train a model as a run; `workbench train mini`: train a set of models.

Costs: the training.
"""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.options import (
    Detach,
    Device,
    Json,
    Language,
    Pipeline,
    Scheduler,
    Seed,
    Set,
    Share,
    Split,
    Text,
    UnitOption,
    corpus_refs,
    reading,
)
from workbench.cli.run import given_settings
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.runs.copied_model import copied, require_new


def families(incomplete: str) -> list[str]:
    """Return the families that begin with the text."""
    from typing import get_args

    from workbench.analyses.training.experiments import FamilyName
    from workbench.analyses.training.shipped import SETS

    return [name for name in (*get_args(FamilyName), *SETS) if name.startswith(incomplete)]


def train(
    context: typer.Context,
    family: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            help="Family: gpt, bert, elmo, t5 or a variant; or a set of built-in models: mini, "
            "mini-more or novels.",
            autocompletion=families,
        ),
    ],
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Corpus to train on: a text file, a folder, primer.", autocompletion=corpus_refs
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to continue with; for distilbert, the teacher.")
    ] = None,
    time_budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Training time, such as 90s, 5m or 2h (default 5m)."),
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Number of training steps, instead of a time.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="Model size: tiny, mini, small or base (default mini).")
    ] = None,
    set_: Set = None,
    out: Annotated[
        Path | None, typer.Option(help="New folder for a copy of the trained model.")
    ] = None,
    seed: Seed = 0,
    split: Split = None,
    device: Device = None,
    unit: UnitOption = "sentence",
    pipeline: Pipeline = None,
    language: Language = "en",
    text: Text = None,
    scheduler: Scheduler = "",
    share: Share = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Train a model as a run; the name of the run is then a reference for --model.

    `workbench experiments show train` lists its other settings, such as --learning-rate 5e-4.
    """
    from workbench.analyses.training.commands.torchrun import end_on_sigterm, is_not_first, join
    from workbench.cli import output
    from workbench.runs.api import begun
    from workbench.runs.request import make_request

    settings = _with_options(
        given_settings("train", "train", set_, context.args),
        {"time_budget": time_budget, "steps": steps, "size": size},
    )
    from workbench.analyses.training.shipped import SETS

    if family in SETS:
        _set(family, settings, corpus, model, out, seed, device, json)
        return
    if corpus is None:
        raise WorkbenchError(
            "a training needs a corpus.",
            code="corpus-count",
            remedy="Add --corpus novels.txt, or --corpus primer.",
        )
    if out is not None and (detach or scheduler):
        raise WorkbenchError(
            "--out copies the model at the end of the training, so it needs to wait for it.",
            code="option-conflict",
            remedy="Remove --detach and --scheduler.",
        )
    if family not in (known := families("")):
        raise WorkbenchError(
            f"there is no family {family!r}.",
            code="family-not-found",
            remedy=did_you_mean(family, known),
        )
    require_new(out)
    with output.progress("preparing the run"):
        request = make_request(
            "train",
            [model] if model else [],
            [corpus],
            {**settings, "family": family},
            split=split,
            seed=seed,
            device=device,
            reading=reading(unit, pipeline, language, text),
        )
        if is_not_first():
            join(request)
            return
        end_on_sigterm()
        run = begun(request, share=share, scheduler=scheduler)
    if detach:
        output.started(run, json)
        return
    output.follow(run)
    output.result(run, json)
    folder = copied(run, out)
    if not json:
        analyse = f"workbench run profile --model {run.name} --corpus {shlex.quote(corpus)}"
        print(f"Model: {folder}\nAnalyse it: {analyse}")


def _with_options(settings: dict[str, str], options: dict[str, str | None]) -> dict[str, str]:
    """Add the options that were given to the settings; a setting with two values is an error."""
    merged = dict(settings)
    for name, value in options.items():
        if value is not None and merged.setdefault(name, value) != value:
            raise WorkbenchError(
                f"{name} is set twice.", code="setting-repeated", remedy="Set it once."
            )
    return merged


def _set(
    name: str,
    settings: dict[str, str],
    corpus: str | None,
    model: str | None,
    out: Path | None,
    seed: int,
    device: str | None,
    json: bool,
) -> None:
    from workbench.analyses.training.commands.shipped import make
    from workbench.analyses.training.shipped import SETS

    if (corpus and SETS[name].corpus) or model:
        raise WorkbenchError(
            f"the models of {name} have their own corpus and start with random weights.",
            code="option-conflict",
            remedy="Remove --corpus and --model, or train one family.",
        )
    if not (corpus or SETS[name].corpus):
        raise WorkbenchError(
            f"the models of {name} need a text.",
            code="corpus-count",
            remedy=f"Name it: workbench train {name} --corpus novels.txt.",
        )
    if unknown := settings.keys() - {"time_budget"}:
        raise WorkbenchError(
            f"train {name} does not take {sorted(unknown)[0]}.",
            code="option-conflict",
            remedy="It takes --time-budget, --seed, --device and --out; other settings are fixed.",
        )
    require_new(out)
    make(name, corpus, settings.get("time_budget"), out, seed, device, json)
