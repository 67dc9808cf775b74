"""The experiment `distil`: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when the experiment first runs.
"""

from collections.abc import Iterator
from typing import Literal, get_args

from pydantic import Field, model_validator

from workbench.analyses.transfer.experiments import Rate, Seed
from workbench.core.findings import listing, plural
from workbench.experiment.definition import (
    HEADS,
    PREDICTS,
    UNADDED,
    Demo,
    Experiment,
    Need,
    Settings,
    Table,
)
from workbench.experiment.measured import OBJECTIVE

LossName = Literal["soft", "hard", "cosine", "states", "embeddings", "maps"]
LayerMap = Literal["uniform", "top", "bottom"]
LOSSES: tuple[LossName, ...] = get_args(LossName)
WEIGHTS = dict(zip(LOSSES, (5.0, 2.0, 1.0, 1.0, 1.0, 1.0), strict=True))  # as published
LOWER = ("loss", "mse")  # metrics of which less is better
DISTILBERT: tuple[LossName, ...] = ("soft", "hard", "cosine")
TEACHER, STUDENT, ALONE, SCRATCH, RANDOM, FLOOR = (
    "teacher", "student", "same start, no teacher", "from scratch, no teacher",
    "from scratch, random teacher", "baseline",
)  # fmt: skip
PAIRS = (  # whose differences are tested
    (STUDENT, SCRATCH), (STUDENT, RANDOM), (STUDENT, ALONE), (STUDENT, TEACHER),
)  # fmt: skip


class Distil(Settings):
    """Which student learns from the model, by which losses, and for how long."""

    n_layers: int | None = Field(
        None, ge=1, description="Number of the student's layers (default: half the teacher's)."
    )
    width: int | None = Field(
        None, ge=4, description="Width of the student's states (default: the teacher's)."
    )
    layer_map: LayerMap = Field(
        "uniform",
        description="Teacher's layers that the student's are matched with: uniform (at equal "
        "distances up to the last), top or bottom (default uniform).",
    )
    start: Literal["teacher", "random"] = Field(
        "teacher",
        description="Weights that the student starts from: the teacher's matched layers (with a "
        "width of its own, random weights), or random ones (default teacher). Not used if a second "
        "model is given, which the student then starts from.",
    )
    losses: tuple[LossName, ...] = Field(
        DISTILBERT,
        min_length=1,
        description="Terms of the loss: soft (the teacher's predictions), hard (gold targets), "
        "cosine (of the last states), states (of matched layers), embeddings, maps (attention "
        "scores of matched layers). DistilBERT: soft, hard, cosine; TinyBERT: soft, states, "
        "embeddings, maps (default: those of DistilBERT).",
    )
    loss_weights: tuple[float, ...] = Field(
        (),
        description="A weight for each term of losses, in their order (default: 5 for soft, 2 for "
        "hard, 1 for the others).",
    )
    temperature: float = Field(
        2.0, gt=0, le=100, description="Temperature of the soft targets (default 2)."
    )
    steps: int = Field(
        1000, ge=1, description="Training steps of each student and each null (default 1000)."
    )
    batch_size: int = Field(32, ge=1, description="Texts per step (default 32).")
    sequence_length: int = Field(
        128,
        ge=4,
        description="Maximum number of pieces of a text without labels; the rest is cut (default "
        "128).",
    )
    learning_rate: Rate = Field(
        1e-3, description="Maximum learning rate of AdamW, of all trainings (default 0.001)."
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1), min_length=1, max_length=100, description="Seeds of the trainings (default 0, 1)."
    )
    max_train: int | None = Field(
        None, ge=2, description="Maximum number of texts to train on (default: all)."
    )
    max_test: int = Field(
        1000, ge=2, description="Maximum number of held-out texts that are scored (default 1000)."
    )
    label: str = Field(
        "",
        description="Label of the corpus that a classifier predicts (default: the one that it was "
        "fine-tuned for, else the one with its classes).",
    )

    @model_validator(mode="after")
    def _whole(self) -> "Distil":
        if not {"soft", "hard"} & {*self.losses}:
            raise ValueError("losses has neither soft nor hard, and nothing trains the output")
        if self.loss_weights and len(self.loss_weights) != len(self.losses):
            raise ValueError("loss_weights needs one weight for each of losses")
        if any(weight <= 0 for weight in self.loss_weights):
            raise ValueError("loss_weights must be above 0; leave a term out of losses instead")
        return self

    @property
    def weight_of(self) -> dict[LossName, float]:
        """The weight of each term, in the order of `LOSSES`."""
        given = dict(zip(self.losses, self.loss_weights, strict=False)) or WEIGHTS
        return {name: given[name] for name in LOSSES if name in self.losses}

    def in_prose(self) -> str:
        words = {
            "soft": f"its soft predictions at temperature {self.temperature:g}",
            "hard": "the gold targets",
            "cosine": "the cosine of its last states",
            "states": "the states of matched layers",
            "embeddings": "its embeddings",
            "maps": "the attention scores of matched layers",
        }
        layers = plural(self.n_layers, "layer") if self.n_layers else "half the layers"
        width = f" and a width of {self.width}" if self.width else ""
        terms = [f"{words[name]} (weight {weight:g})" for name, weight in self.weight_of.items()]
        start = (
            f"started from the teacher's layers ({self.layer_map} layer map)"
            if self.start == "teacher" and not self.width
            else "started from random weights"
        )
        return (
            f"A student with {layers}{width}, {start}, was trained for "
            f"{plural(self.steps, 'step')} of {plural(self.batch_size, 'text')} on "
            f"{listing(terms, 6)} (Sanh et al. 2019, Jiao et al. 2020). The nulls are the same "
            "student trained on the gold targets without a teacher, from the same start and from "
            "random weights, and trained by the same losses with a random model of the teacher's "
            "architecture as its teacher, each for as many steps on the same texts. "
            f"Scores are of up to {plural(self.max_test, 'held-out text')}, with paired 95 % "
            f"bootstrap intervals over texts{' and seeds' if len(self.seeds) > 1 else ''} and "
            "p-values with Holm's correction."
        )


TABLES = {
    "scores": Table(
        "What each model predicts of the held-out texts. arm: the teacher; the student; the same "
        "student without a teacher, from the same start or from random weights, and from random "
        "weights with a random teacher; the baseline, which predicts pieces by their frequency, or "
        "the most frequent class. value: nats per predicted piece, or the metric of the task, a "
        "mean over seeds with its 95 % bootstrap interval. kept: share of what the teacher gains "
        "over the baseline. agreement: share of predictions that are the teacher's.",
        ("arm", "metric"),
    ),
    "differences": Table(
        "The student minus the teacher and the nulls, in paired tests over texts and seeds. p: "
        "corrected over the rows (Holm).",
        ("arm", "against", "metric"),
    ),
    "sizes": Table(
        "Size of teacher and student, and seconds of a pass over the same texts. speedup: the "
        "teacher's seconds over the student's, the median of pairs of passes in turn; lowest, "
        "highest: of the pairs.",
        ("arm",),
    ),
    "layers": Table(
        "The teacher's layer that each of the student's layers is matched with.",
        ("stack", "layer"),
        ("teacher_layer",),
    ),
    "trainings": Table(
        "Training loss of the last part of each training: the weighted sum of its terms, so "
        "that of a student and that of a null cannot be compared.",
        ("arm", "seed"),
    ),
    "objective": OBJECTIVE,
}  # fmt: skip


def _needs(settings: Distil) -> Iterator[Need]:
    yield PREDICTS
    if "maps" in settings.losses:
        yield HEADS
    yield Need(
        "a model with all of its heads",
        lambda facts: not facts["removed_heads"],
        "Choose the model before pruning.",
    )
    yield UNADDED
    yield Need(
        "a task head of transformers, not one on a mix of layers",
        lambda facts: not facts["mixes_layers"],
        "Fine-tune the teacher with head standard and a method other than frozen.",
    )
    yield Need(
        "attention that can be compared in training, which XLNet and Longformer do not have",
        lambda facts: facts["family"] not in ("xlnet", "longformer"),
        "Choose another model, such as a BERT.",
    )
    yield Need(
        "a model that predicts pieces, or classes or the score of texts",
        lambda facts: (
            facts["task"] in ("class", "score")
            or facts["objective"] in ("masked", "causal", "seq2seq")
        ),
        "Choose a BERT, GPT-2, Llama, T5 or BART, or a text classifier of finetune.",
    )


DISTIL = Experiment(
    name="distil",
    question="How much of a model does a smaller one keep that learns from it?",
    subject="Training",
    about="Trains a smaller student on the predictions, states and attention of a model, and "
    "compares it with the same student without a teacher; the run's name is then a model "
    "reference.",
    settings=Distil,
    run="workbench.analyses.distillation.distil:run",
    tables=TABLES,
    models=(1, 2),
    needs=_needs,
    suits="workbench.corpora.task_gold:require_gold",
    split="held-out",
    trains=True,
    measures=True,
    figures="workbench.analyses.distillation.figures:FIGURES",
    findings="workbench.analyses.distillation.findings:findings",
    presets={
        "Quick": {"steps": 200, "seeds": (0,), "max_test": 300},
        "Standard": {},
        "Full": {"steps": 20_000, "seeds": (0, 1, 2)},
    },
    title="Distillation of",
    demo=Demo(
        "A BERT of two layers that learns from one of four",
        models=("mini:bert",),
        corpora=("primer:size=2000",),
        settings={"steps": 60, "seeds": (0,), "max_test": 100},
        order=62,
    ),
    papers=("sanh-2019-distilbert", "jiao-2020-tinybert"),
)
