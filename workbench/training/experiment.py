"""The `train` experiment: a family on a corpus, as a run that keeps the model it trained.

Its settings are those of `workbench.training.config` with a help text each; what it leaves is the
model's folder, its curves, and what was trained on what. Costs the budget it is given.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pandas as pd
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Experiment, Inputs, Progress, Result, Settings, Table

if TYPE_CHECKING:
    from workbench.training.config import Settings as Recipe
    from workbench.training.curves import Row
    from workbench.training.train import Trained

BUDGET = 300.0  # seconds, where neither a budget nor steps are set
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_PLAIN = re.compile(r".*\.txt(\.(gz|bz2|xz))?", re.IGNORECASE)

FamilyName = Literal[
    "gpt",
    "bert",
    "elmo",
    "t5",
    "bart",
    "electra",
    "roberta",
    "albert",
    "distilbert",
    "spanbert",
    "vectors",
]


def seconds(given: object) -> object:
    """`90`, `90s`, `5m`, `1h30m` as seconds; what is no text is left to pydantic."""
    if not isinstance(given, str):
        return given
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", given.lower())
    if not parts or "".join(a + b for a, b in parts) != given.lower().replace(" ", ""):
        raise ValueError("a time such as 90s, 5m or 1h30m is needed")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Time = Annotated[float, BeforeValidator(seconds)]


class Training(Settings):
    """What to train, how large, how long and how."""

    model_config = ConfigDict(allow_inf_nan=False)

    family: FamilyName = Field("bert", description="What to train.")
    budget: Time | None = Field(
        None, gt=0, description="Time to train, such as 90s, 5m or 2h; 5m where no steps are set."
    )
    steps: int | None = Field(None, ge=1, description="Steps to train, instead of a budget.")
    size: Literal["tiny", "mini", "small", "base"] = Field(
        "mini", description="About 0.2, 1, 14 or 110 million parameters."
    )
    layers: int | None = Field(None, ge=1, description="Layers; else those of the size.")
    width: int | None = Field(None, ge=4, description="Width of a layer; else that of the size.")
    heads: int | None = Field(None, ge=1, description="Heads a layer; else those of the size.")
    vocabulary: int | None = Field(
        None, ge=10, description="Pieces of the tokenizer, or words ELMo predicts."
    )
    length: int | None = Field(None, ge=4, description="Pieces in a sequence; else of the size.")
    dropout: float | None = Field(None, ge=0, lt=1, description="Dropout; else that of the size.")
    objective: str = Field("", description="What to learn by, where not the family's own.")
    rows: Literal["packed", "sentences"] = Field(
        "packed", description="Sequences packed full, or of one sentence each."
    )
    mask_by: Literal["", "piece", "word", "span"] = Field(
        "", description="What is masked, where not the family's own: pieces, whole words or spans."
    )
    hidden: float | None = Field(
        None, gt=0, lt=1, description="Share of pieces hidden in training; else the objective's."
    )
    static: bool = Field(False, description="Mask a sequence alike each time, in ten copies.")
    lowercase: bool = Field(False, description="A tokenizer without capitals.")
    batch: int = Field(32, ge=1, description="Sequences a step.")
    at_once: int = Field(0, ge=0, description="Of them, those that go through at once; 0 for all.")
    rate: float = Field(1e-3, gt=0, description="The highest learning rate.")
    schedule: Literal["linear", "cosine", "constant", "wsd"] = Field(
        "linear",
        description="How the rate falls after the warm-up; wsd: in the last fifth alone.",
    )
    warmup: float = Field(0.05, ge=0, lt=1, description="Share of the run in which the rate rises.")
    decay: float = Field(0.01, ge=0, description="Weight decay.")
    clip: float = Field(1.0, ge=0, description="Most that a gradient's norm may be; 0: no limit.")
    held_out: float = Field(
        0.02, ge=0, lt=1, description="Share of the text, at its end, that is not trained on."
    )
    checkpoint: Time = Field(60.0, gt=0, description="Time between checkpoints, such as 5m.")

    @model_validator(mode="after")
    def _one_end(self) -> "Training":
        if self.budget is not None and self.steps is not None:
            raise ValueError("a training has a budget or steps, not both: leave one out")
        return self

    @model_validator(mode="after")
    def _to_be_learnt_by(self) -> "Training":
        if self.objective or self.hidden or self.mask_by or self.static or self.rows != "packed":
            from workbench.training.config import require_known
            from workbench.training.families import objective_for

            require_known(
                self.family, recipe_of(self, 0), objective_for(self.family, self.objective)
            )
        return self


TABLES = {
    "facts": Table("What was trained, on what, and where it ended.", ("fact",)),
    "curves": Table(
        "Loss in nats (the mean since the row before), held-out loss, learning rate and speed; mfu "
        "is model FLOP utilisation, where the device's peak is known.",
        ("step",),
    ),
}


def run(inputs: Inputs, settings: Training, progress: Progress) -> Result:
    """Train, and tell how it went; the model is in the run's folder `model`."""
    from workbench.training.train import train

    if inputs.keep is None:
        raise WorkbenchError("a training needs a run to keep its model in.", remedy="Use wb.run.")
    source = _source(inputs, settings.family)
    with_teacher = settings.family == "distilbert" and (
        source is not None and inputs.model.family != "distilbert"
    )
    trained = train(
        settings.family,
        text_of(inputs),
        inputs.keep,
        recipe_of(settings, inputs.seed),
        progress,
        continue_from=None if with_teacher else source,
        teacher=source if with_teacher else None,
        device=inputs.device,
        scratch=inputs.scratch / "training" if inputs.scratch else None,
    )
    return Result({"facts": _facts(trained), "curves": _curves(trained.rows)}, caveats=_CAVEATS)


def recipe_of(settings: Training, seed: int) -> "Recipe":
    """The settings as the library has them."""
    from workbench.training.config import Settings as Recipe
    from workbench.training.task import Plan

    own = set(Recipe.__dataclass_fields__) - {"plan"}
    told = settings.model_dump()
    budget = settings.budget or (None if settings.steps else BUDGET)
    names = ("batch", "at_once", "rate", "schedule", "warmup", "decay", "clip")
    plan = Plan(
        steps=settings.steps,
        seconds=budget,
        seed=seed,
        checkpoint_seconds=settings.checkpoint,
        **{name: told[name] for name in names},
    )
    return Recipe(plan=plan, **{name: told[name] for name in own & told.keys()})


def text_of(inputs: Inputs) -> "Path | list[str]":
    """A plain text file as it is, any other corpus a line a Doc, blank lines between documents."""
    origin = inputs.corpus.origin
    if origin is not None and inputs.limit is None:
        files = [path for split, path in origin.files if inputs.split in (None, split)]
        if len(files) == 1 and _PLAIN.fullmatch(files[0].name):
            return files[0]
    return list(_lines(inputs))


def _lines(inputs: Inputs) -> Iterator[str]:
    before = None
    for doc in inputs.docs():
        document = doc._.document or None
        if before is not None and document != before[0]:
            yield ""
        yield " ".join(doc.text.split())
        before = (document or object(),)


def _source(inputs: Inputs, family: str) -> Path | None:
    """The folder of the model that is gone on with, or learnt from."""
    from workbench.training.families import FAMILIES

    if not inputs.models:
        return None
    row, of = FAMILIES[family], inputs.model.family
    types = row.types or (family,)
    if of not in types and not (family == "distilbert" and inputs.model.objective == "masked"):
        raise WorkbenchError(
            f"{family} does not go on with a model of the family {of}.",
            where=inputs.model.name,
            remedy=f"It goes on with: {', '.join(types)}"
            + (", and learns from any masked model." if family == "distilbert" else "."),
        )
    folder = inputs.folders[0]
    if folder is None:
        raise WorkbenchError(
            "a training goes on from a model's folder, and this one was handed over as an object.",
            where=inputs.model.name,
            remedy="Name its folder, its hub id, or the run that trained it.",
        )
    return folder


def _facts(trained: "Trained") -> pd.DataFrame:
    recipe = trained.recipe
    last = trained.rows[-1] if trained.rows else None
    told: dict[str, Any] = {
        "family": recipe["family"],
        "objective": recipe["objective"],
        "parameters": recipe["parameters"],
        "tokens of text": recipe["text"]["tokens"],
        "bytes of text": recipe["text"]["bytes"],
        "text": recipe["text"]["hash"],
        "tokenizer": recipe["tokenizer"],
        "devices": recipe["devices"],
    }
    if last is not None:
        told |= {
            "steps": last.step,
            "tokens trained on": last.tokens,
            "seconds": round(last.seconds, 1),
            "loss": round(last.loss, 4),
        }
        if last.held_out is not None:
            told["held-out loss"] = round(last.held_out, 4)
    return pd.DataFrame([(k, str(v)) for k, v in told.items()], columns=["fact", "value"])


def _curves(rows: "tuple[Row, ...]") -> pd.DataFrame:
    from workbench.training.curves import Row

    found = pd.DataFrame([asdict(row) for row in rows], columns=list(Row.__dataclass_fields__))
    return found.astype({"mfu": "float64", "held_out": "float64"})


_CAVEATS = (
    Caveat(
        "Losses are of the family's own objective and pieces: those of other families are of other "
        "questions. Compare perplexity a word or bits a byte, from profile.",
        ("curves",),
    ),
)

EXPERIMENT = Experiment(
    name="train",
    about="Train a model from nothing, or go on with one; the run then is a model's name.",
    settings=Training,
    run=run,
    tables=TABLES,
    models=(0, 1),
    split="train",
    trains=True,
    figures="workbench.figures.model:TRAINING_FIGURES",
)
