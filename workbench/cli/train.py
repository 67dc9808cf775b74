"""`workbench train FAMILY`: a training as a run; and `workbench train mini`, four of them."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from workbench.cli.run import asked_settings
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import drafted, require_regular, unwritable

if TYPE_CHECKING:
    from workbench.runs.run import Run

MINI = "mini"


def families(incomplete: str) -> list[str]:
    """Families that begin so."""
    from typing import get_args

    from workbench.training.experiments import FamilyName

    return [name for name in (*get_args(FamilyName), MINI) if name.startswith(incomplete)]


def train(
    context: typer.Context,
    family: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            help="gpt, bert, elmo, t5 or a variant; mini: all four, small.",
            autocompletion=families,
        ),
    ],
    corpus: Annotated[
        str | None,
        typer.Option(
            help="What to train on: a text file, a folder, primer.", autocompletion=corpus_refs
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A model to go on with; distilbert's teacher.")
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
        Path | None, typer.Option(help="Copy the trained model into a folder of this name.")
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
    """Train a model as a run; the run's name is then a model's, for --model.

    `workbench experiments show train` lists its other settings, such as --learning-rate 5e-4.
    """
    from workbench.cli import output
    from workbench.runs.api import begun
    from workbench.runs.request import ask
    from workbench.runs.torchrun import end_with_the_others, is_another, join
    from workbench.training.experiments import Training

    # The former names of settings are accepted too, as in --budget 5m.
    settings = Training.with_current_names(asked_settings("train", "train", set_, context.args))
    for name, value in (("time_budget", time_budget), ("steps", steps), ("size", size)):
        if value is not None and settings.setdefault(name, value) != value:
            raise WorkbenchError(
                f"{name} is set twice.", code="setting-repeated", remedy="Set it once."
            )
    if family == MINI:
        _mini(settings, corpus, model, out, seed, device, json)
        return
    if corpus is None:
        raise WorkbenchError(
            "a training needs a text.", remedy="Say --corpus novels.txt, or --corpus primer."
        )
    if out is not None and (detach or scheduler):
        raise WorkbenchError("--out needs the training's end.", remedy="Leave --detach out.")
    if family not in (known := families("")):
        raise WorkbenchError(f"there is no family {family!r}.", remedy=did_you_mean(family, known))
    _require_new(out)
    with output.progress("reading the question"):
        question = ask(
            "train",
            [model] if model else [],
            [corpus],
            {**settings, "family": family},
            split=split,
            seed=seed,
            device=device,
            reading=reading(unit, pipeline, language, text),
        )
        if is_another():
            join(question)
            return
        end_with_the_others()
        found = begun(question, share=share, scheduler=scheduler)
    if detach:
        output.started(found, json)
        return
    output.followed(found)
    output.answer(found, json)
    folder = copied(found, out)
    if not json:
        print(f"Model: {folder}\nLook inside: workbench run profile --model {found.name}")


def copied(run: "Run", out: Path | None) -> Path:
    """The folder of a run's model, or its copy, whole or not at all."""
    from workbench.models.references import TRAINED

    folder = run.path / TRAINED
    if out is None:
        return folder
    draft = drafted(out)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(
            folder, draft, copy_function=lambda a, b: shutil.copy2(require_regular(Path(a)), b)
        )
        draft.rename(out)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise unwritable(out, error, f"Copy {folder} where there is room.") from None
    return out


def _require_new(out: Path | None) -> None:
    """Refuse to begin what could not be written at the end."""
    if out is None:
        return
    if out.exists():
        raise WorkbenchError("there is one already.", where=str(out), remedy="Name a new folder.")
    if not out.absolute().parent.is_dir():
        raise WorkbenchError(
            "there is no such folder.", where=str(out.parent), remedy="Make it first."
        )
    draft = drafted(out)
    try:
        draft.mkdir(exist_ok=True)
        draft.rmdir()
    except OSError as error:
        raise unwritable(out, error, "Name a folder where you may write.") from None


def _mini(
    settings: dict[str, str],
    corpus: str | None,
    model: str | None,
    out: Path | None,
    seed: int,
    device: str | None,
    json: bool,
) -> None:
    from workbench.cli.mini import make

    if corpus or model:
        raise WorkbenchError(
            "the mini quartet has its own text and starts from nothing.",
            remedy="Leave --corpus and --model out, or train one family.",
        )
    if unknown := settings.keys() - {"time_budget"}:
        raise WorkbenchError(
            f"train mini does not take {sorted(unknown)[0]}.",
            remedy="It takes --time-budget, --seed, --device and --out only.",
        )
    _require_new(out)
    make(settings.get("time_budget"), out, seed, device, json)
