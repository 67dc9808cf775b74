"""The experiment `train`: its settings and tables.

Each setting has a help text here; `recipe_of` turns the settings into those of `config`. Costs:
nothing. The training code is imported at the first run, and the families when settings are checked
against one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from workbench.core.findings import percent
from workbench.experiment.definition import UNADDED, Demo, Experiment, Need, Settings, Table
from workbench.experiment.sizes import seconds_of

if TYPE_CHECKING:
    from workbench.analyses.training.config import Settings as Recipe

BUDGET = 300.0  # seconds of training when neither time_budget nor steps is set

FamilyName = Literal[
    "gpt",
    "llama",
    "qwen3",
    "bert",
    "elmo",
    "t5",
    "bart",
    "electra",
    "roberta",
    "longformer",
    "modernbert",
    "xlnet",
    "unilm",
    "prefix-lm",
    "albert",
    "distilbert",
    "spanbert",
    "vectors",
]
_CONTINUED = {
    "gpt": "gpt2",
    "prefix-lm": "gpt2",
    "spanbert": "bert",
    "unilm": "bert",
}  # types of models whose family has another name


def continued_type(family: str) -> str:
    """The type of the models that the training of a family continues."""
    return _CONTINUED.get(family, family)


Time = Annotated[
    float, BeforeValidator(lambda time: seconds_of(time) if isinstance(time, str) else time)
]


CHECKED = (  # settings that not every family and objective has
    "objective", "rows", "mask_by", "mask_rate", "mask_share", "random_share", "mean_span",
    "static_masking", "generator", "windows", "global_positions",
)  # fmt: skip


class Training(Settings):
    """Which model to train, its size, for how long and with which optimiser settings."""

    model_config = ConfigDict(allow_inf_nan=False)

    family: FamilyName = Field("bert", description="Model family (default bert).")
    time_budget: Time | None = Field(
        None,
        gt=0,
        description="Training time, such as 90s, 5m or 2h (default 5m, unless steps is set).",
    )
    steps: int | None = Field(
        None, ge=1, description="Number of training steps, instead of a training time."
    )
    size: Literal["tiny", "mini", "small", "base"] = Field(
        "mini", description="Model size: about 0.2, 1, 14 or 110 million parameters (default mini)."
    )
    n_layers: int | None = Field(None, ge=1, description="Number of layers (default: set by size).")
    width: int | None = Field(
        None, ge=4, description="Width of the hidden states (default: set by size)."
    )
    n_heads: int | None = Field(
        None, ge=1, description="Number of attention heads per layer (default: set by size)."
    )
    vocabulary_size: int | None = Field(
        None,
        ge=10,
        description="Pieces in the tokenizer's vocabulary, or words in ELMo's softmax "
        "(default: set by size).",
    )
    sequence_length: int | None = Field(
        None, ge=4, description="Pieces per sequence (default: set by size)."
    )
    dropout: float | None = Field(
        None, ge=0, lt=1, description="Dropout probability (default: set by size)."
    )
    windows: tuple[int, ...] = Field(
        (),
        description="Attention windows of Longformer's layers, in pieces on both sides together: "
        "one for all layers, or one for each; each divides the largest (default: a quarter of the "
        "sequence).",
    )
    global_positions: int | None = Field(
        None,
        ge=0,
        description="First pieces of a text with global attention, of Longformer (default 1).",
    )
    objective: str = Field("", description="Training objective (default: set by family).")
    rows: Literal["packed", "sentences"] = Field(
        "packed",
        description="Sequence layout: text packed without gaps, or one sentence per sequence.",
    )
    mask_by: Literal["", "piece", "word", "span"] = Field(
        "",
        description="Masked units: pieces, whole words or spans (default: set by family).",
    )
    mask_rate: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Fraction of pieces masked in training (default: set by the objective; 0.15 "
        "for masked).",
    )
    mask_share: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Fraction of those pieces that the mask replaces (default: set by the "
        "objective; 0.8 for masked).",
    )
    random_share: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Fraction of those pieces that a random piece replaces; the others stay "
        "(default: set by the objective; 0.1 for masked).",
    )
    mean_span: float | None = Field(
        None,
        ge=1,
        le=20,
        description="Mean length of a hidden span in pieces (default: set by the objective; 3).",
    )
    generator: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Width of ELECTRA's generator, as a fraction of the model's (default 0.25).",
    )
    static_masking: bool = Field(
        False,
        description="Reuse ten fixed masks per sequence instead of new masks each epoch.",
    )
    lowercase: bool = Field(False, description="Lower-case the text in the tokenizer.")
    batch_size: int = Field(32, ge=1, description="Sequences per step (default 32).")
    micro_batch_size: int = Field(
        0,
        ge=0,
        description="Sequences per forward pass; gradients accumulate over the batch "
        "(default 0: all).",
    )
    learning_rate: float = Field(
        1e-3, gt=0, description="Maximum learning rate of AdamW (default 0.001)."
    )
    schedule: Literal["linear", "cosine", "constant", "wsd"] = Field(
        "linear",
        description="Learning-rate schedule after the warm-up; wsd decays in the last fifth only.",
    )
    warmup_fraction: float = Field(
        0.05, ge=0, lt=1, description="Fraction of the training used for warm-up (default 0.05)."
    )
    weight_decay: float = Field(0.01, ge=0, description="Weight decay of AdamW (default 0.01).")
    max_gradient_norm: float = Field(
        1.0, ge=0, description="Maximum gradient norm; 0 turns clipping off (default 1)."
    )
    held_out_fraction: float = Field(
        0.02,
        ge=0,
        lt=1,
        description="Fraction at the end of the text held out for evaluation (default 0.02).",
    )
    checkpoint_interval: Time = Field(
        60.0, gt=0, description="Time between checkpoints, such as 5m (default 60 s)."
    )

    def in_seconds(self) -> float | None:
        return self.time_budget or (None if self.steps else BUDGET)

    def in_prose(self) -> str:
        until = f"{self.steps:,} steps" if self.steps else f"{self.in_seconds():,.0f} s"
        details = [f"with the objective {self.objective}"] if self.objective else []
        if self.mask_rate:
            details.append(f"with {percent(self.mask_rate)} of pieces masked")
        objective = "".join(f", {detail}" for detail in details)
        shape = {
            "layers": self.n_layers,
            "heads per layer": self.n_heads,
            "dimensions": self.width,
            "pieces in the vocabulary": self.vocabulary_size,
        }
        changed = [f"{value:,} {what}" for what, value in shape.items() if value]
        sizes = f" with {', '.join(changed)}" if changed else ""
        held_out = f" The last {percent(self.held_out_fraction)} of the text was held out."
        return (
            f"We trained a {self.size} model of the family {self.family}{sizes} for {until}"
            f"{objective}. We used AdamW (Loshchilov and Hutter 2019) with weight decay "
            f"{self.weight_decay:g}, batches of {self.batch_size:,} sequences, a maximum learning "
            f"rate of {self.learning_rate:g} and a {self.schedule} schedule after a warm-up over "
            f"{percent(self.warmup_fraction)} of the training."
            f"{held_out if self.held_out_fraction else ''}"
        )

    @model_validator(mode="after")
    def _one_end(self) -> "Training":
        if self.time_budget is not None and self.steps is not None:
            raise ValueError("time_budget and steps are both set: leave one out")
        return self

    @model_validator(mode="after")
    def _suits_objective(self) -> "Training":
        fields = type(self).model_fields
        if any(getattr(self, name) != fields[name].default for name in CHECKED):
            from workbench.analyses.training.config import require_known
            from workbench.analyses.training.families import objective_for

            require_known(
                self.family, recipe_of(self, 0), objective_for(self.family, self.objective)
            )
        return self


TABLES = {
    "facts": Table("Model, text, device and final losses of the training.", ("fact",)),
    "curves": Table(
        "Training loss (nats; mean since the previous row), held-out loss (nats), learning rate "
        "and speed (tokens per second). mfu: model FLOP utilisation, empty where the device's peak "
        "is unknown.",
        ("step",),
    ),
}


def recipe_of(settings: Training, seed: int) -> "Recipe":
    """The settings of the library, `config.Settings`."""
    from workbench.analyses.training.config import Settings as Recipe
    from workbench.analyses.training.task import Plan

    values = settings.model_dump()
    plan = Plan(
        seconds=settings.in_seconds(),
        seed=seed,
        checkpoint_seconds=settings.checkpoint_interval,
        **{name: values[name] for name in vars(Plan()).keys() & values.keys()},
    )
    return Recipe(
        plan=plan, **{name: values[name] for name in vars(Recipe()).keys() & values.keys()}
    )


def _needs(settings: Training) -> Iterator[Need]:
    """What a model must be to be trained further, or to teach a student."""
    if settings.family == "distilbert":
        yield Need(
            "a masked language model of another family, as the teacher",
            lambda facts: (
                facts["family"] != "distilbert"
                and any(objective["kind"] == "masked" for objective in facts["objectives"])
            ),
            "Choose one, such as bert-base-uncased or a run of train bert.",
        )
    else:
        continued = continued_type(settings.family)
        yield Need(
            f"a model of the family {continued} to continue from",
            lambda facts: facts["family"] == continued,
            "Set the family to that of the model, or choose another model.",
        )
    yield Need(
        "a model with all of its heads",
        lambda facts: not facts["removed_heads"],
        "Choose the model before pruning, or train with recovery_steps of head-pruning.",
    )
    yield UNADDED


EXPERIMENT = Experiment(
    name="train",
    question="What does a model learn that I train from scratch?",
    subject="Training",
    about="Trains a model from scratch or continues training one; the run's name is then a "
    "model reference.",
    settings=Training,
    run="workbench.analyses.training.training_run:run",
    tables=TABLES,
    models=(0, 1),
    needs=_needs,
    split="train",
    trains=True,
    figures="workbench.analyses.training.figures:FIGURES",
    findings="workbench.analyses.training.findings:train",
    papers=("loshchilov-2019-adamw",),
    presets={
        "Quick": {"time_budget": "1m"},
        "Standard": {},
        "Full": {"time_budget": "1h"},
    },
    title="A model trained on",
    demo=Demo(
        "Training a tiny GPT in a few seconds",
        corpora=("primer:size=2000",),
        settings={"family": "gpt", "size": "tiny", "rows": "sentences", "steps": 200},
        order=30,
    ),
)
