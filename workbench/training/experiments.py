"""What can be asked of a training: the experiment `train`, its settings and tables.

The settings are those of `workbench.training.config` with a help text each. Costs nothing; the code
is imported when it is first run, and the families where settings are checked against one.
"""

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from workbench.core.experiment import Experiment, Settings, Table

if TYPE_CHECKING:
    from workbench.training.config import Settings as Recipe

BUDGET = 300.0  # seconds, where neither a budget nor steps are set
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}

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


EXPERIMENT = Experiment(
    name="train",
    about="Train a model from nothing, or go on with one; the run then is a model's name.",
    settings=Training,
    run="workbench.training.training_run:run",
    tables=TABLES,
    models=(0, 1),
    split="train",
    trains=True,
    figures="workbench.figures.model:TRAINING_FIGURES",
)
