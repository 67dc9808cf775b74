"""The experiment `smaller-model`: its settings and tables. Costs: nothing."""

import math
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from workbench.analyses.compression.experiments import METHODS, BitsName, MethodName, Share
from workbench.core.findings import listing, percent, plural
from workbench.corpora.splits import SplitSizes
from workbench.experiment.definition import HEADS, UNADDED, Demo, Experiment, Need, Settings, Table

ORIGINAL, SMALLER = "original", "smaller"
WITHOUT = ("weights", "training")  # in the names of methods that set zeros, or that train
PERCENT = " %"


def kept_share(value: Any) -> Any:
    """A share of the score: 99%, 0.99 or 99."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("write 99% or 0.99")
    text = str(value).strip()
    try:
        number = float(text.rstrip(PERCENT))
    except ValueError:
        raise ValueError("this is not a share; write 99% or 0.99") from None
    if not math.isfinite(number) or not 0 < number <= 100:
        raise ValueError("a share of the score is above 0 and at most 100 %")
    if "%" in text and number < 1:
        raise ValueError("that is less than 1 % of the score; write 99% or 0.99")
    return number / 100 if "%" in text or number > 1 else number


class SmallerModel(Settings):
    """How much of the score is kept, what is cut, and on how many texts."""

    keep: Annotated[float, BeforeValidator(kept_share)] = Field(
        0.99,
        description="Share of the original's score that the smaller model keeps, such as 99% or "
        "0.99 (default 99%).",
    )
    task: str = Field(
        "", description="Label of the corpus that is predicted (default: the only one)."
    )
    metric: str = Field(
        "",
        description="Metric of the score (default: that of the task; of unbalanced classes macro "
        "F1, of two the Matthews correlation).",
    )
    methods: tuple[MethodName, ...] = Field(
        tuple(name for name in METHODS if not any(each in name for each in WITHOUT)),
        min_length=1,
        description="What is cut, one after another; see compress (default: all that make the "
        "saved model smaller without a training of their own; bits come last, and need the extra "
        "quant).",
    )
    amounts: tuple[Share, ...] = Field(
        (0.25, 0.5, 0.75),
        min_length=1,
        max_length=20,
        description="Shares that are tried, of all but bits (default 0.25, 0.5, 0.75).",
    )
    bits: tuple[BitsName, ...] = Field(
        ("8", "4"), min_length=1, description="Bits of the weights that are tried (default 8, 4)."
    )
    plain: bool = Field(
        True, description="Only models that plain transformers opens (default: yes)."
    )
    recovery_epochs: int = Field(
        3,
        ge=0,
        le=100,
        description="Maximum epochs of recovery; a model that was cut too far is trained again "
        "(default 3; 0: none).",
    )
    max_sentences: int | None = Field(
        1000,
        ge=8,
        description="Maximum number of texts of each of train, dev and test (default 1000; empty: "
        "all).",
    )
    rounds: int = Field(
        15,
        ge=0,
        le=1000,
        description="Paired measurements of the speed (default 15; 0: none).",
    )

    @property
    def used(self) -> list[MethodName]:
        """The methods that can leave such a model: packed bits are never plain."""
        return [name for name in self.methods if not (self.plain and name == "packed bits")]

    @property
    def sizes(self) -> SplitSizes:
        """The maximum number of texts of each split."""
        return SplitSizes(self.max_sentences, self.max_sentences, self.max_sentences)

    @property
    def fine_tuning(self) -> dict[str, Any]:
        """The settings of `finetune`, but for the seed; of `time` 0, its sample does not grow."""
        size = self.max_sentences
        sizes = {"max_train": size, "max_dev": size, "max_test": size}
        return {"task": self.task, **sizes, "time": "0s"}

    def in_prose(self) -> str:
        again = (
            f" A model that was cut too far was trained again for at most "
            f"{plural(self.recovery_epochs, 'epoch')}."
            if self.recovery_epochs
            else ""
        )
        return (
            "A model without a head for the task was fine-tuned first. Then cuts of "
            f"{listing([METHODS[name] for name in self.used], len(METHODS))} were tried, one "
            f"after another ({listing([percent(each) for each in self.amounts], 20)}), except "
            "those that a caveat names as left out: the smallest model on disk was chosen that "
            "kept at least "
            f"{percent(self.keep, 1)} of the original's score on dev.{again} Only the chosen model "
            "and the original were scored on the test texts, with paired 95 % bootstrap intervals "
            "over texts. Speed was measured in a new process in "
            f"{self.rounds:,} pairs of passes."
        )


TABLES = {
    "points": Table(
        "Every model that was tried, on dev. stage: the part that is cut. trained: the model was "
        "trained again. disk: MiB of the saved weights. value: the metric. kept: share of the "
        "original's value, with its paired 95 % interval over texts. keeps: at least the bound. "
        "chosen: the next stage begins with it. left: the smaller model is this one.",
        ("stage", "amount", "trained"),
    ),
    "scores": Table(
        "Original and smaller model on the test texts, which chose nothing: each metric with its "
        "95 % bootstrap interval over texts. decides: the metric that the bound is on. baseline: "
        "of a constant prediction.",
        ("model", "metric"),
    ),
    "kept": Table(
        "The share of the original's score that the smaller model keeps, on dev (which chose it) "
        "and on test, with its paired 95 % interval over texts. bound: the share that was to be "
        "kept. learned: the original beats a constant prediction on test (paired interval above "
        "zero).",
        ("split",),
    ),
    "sizes": Table(
        "Size of both models. disk: MiB of the saved weights.", ("model",)
    ),
    "cost": Table(
        "The smaller model in a new process, next to the original: texts in a batch, median "
        "milliseconds of a pass, their ratio with its 95 % interval. p: that the smaller one is "
        "faster in more than half of the pairs (sign test, Holm). faster: p is below 0.05, and "
        "the interval above 1. memory: MiB that opening the model and a pass add.",
        ("method", "amount", "texts"),
    ),
    "lost": Table(
        "What fell further than the rest on test. kind: class, length, or a label. fall: mean "
        "loss of score (share right) in the group; rest: in the others of its kind. difference: "
        "with its 95 % interval. p: that the group fell further (permutations, Holm).",
        ("method", "amount", "kind", "group"),
    ),
    "opening": Table(
        "The smaller model opened from its folder in a new process, by the code. difference: "
        "largest difference of a prediction from that before saving.",
        ("opened_by",),
    ),
    "stages": Table("What each stage did, and how long it took.", ("stage",)),
}  # fmt: skip


def _needs(settings: SmallerModel) -> Iterator[Need]:
    yield HEADS
    yield UNADDED
    yield Need(
        "a model with all of its heads",
        lambda facts: not facts["removed_heads"],
        "Choose the model before pruning.",
    )
    yield Need(
        "a head that does not write its labels as text",
        lambda facts: facts["task"] != "text",
        "Choose the model before fine-tuning: it then gets a head of its own.",
    )


SMALLER_MODEL = Experiment(
    name="smaller-model",
    question="What can I cut, and what do I get?",
    about="Cuts a model for one task as far as its score allows, and saves the smaller model.",
    subject="Heads",
    settings=SmallerModel,
    run="workbench.analyses.smaller_model.recipe:run",
    tables=TABLES,
    needs=_needs,
    fits="workbench.analyses.smaller_model.recipe:fits",
    split="held-out",
    trains=True,
    exact_up_to=1e9,
    figures="workbench.analyses.smaller_model.figures:FIGURES",
    findings="workbench.analyses.smaller_model.findings:findings",
    papers=("men-2024-shortgpt", "zafrir-2019-q8bert", "sajjad-2023-effect", "chung-2013-exact"),
    title="What can be cut from",
    presets={
        "Quick": {"max_sentences": 300, "amounts": (0.25, 0.5), "recovery_epochs": 0},
        "Standard": {},
        "Full": {
            "max_sentences": None, "amounts": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
            "recovery_epochs": 5,
        },
    },
    demo=Demo(
        "The smallest model that keeps the score of a task",
        models=("mini:bert",),
        corpora=("primer/sentiment:size=300",),
        settings={
            "max_sentences": 80, "amounts": (0.5,), "methods": ("neurons", "vocabulary"),
            "recovery_epochs": 0, "rounds": 5,
        },
        order=14,
    ),
)  # fmt: skip
"""The experiment that `workbench compress` and the page "What can I cut?" run."""
