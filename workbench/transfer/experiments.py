"""What can be asked of models that learn a task, and of what that changes in them.

finetune, frozen-vs-finetuned and pretraining adapt models; similarity and drift compare them.
Names, settings and tables alone, so that experiments are listed without torch. Costs nothing; the
code is imported when it is first run.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, field_validator

from workbench.core.experiment import HEAD, Experiment, Settings, Table
from workbench.core.splits import SplitSettings

Method = Literal[
    "frozen", "fine-tuned", "gradual", "top", "lora", "adapters", "prefix", "prompt", "bitfit"
]
Ridge = Annotated[float, Field(gt=0, le=1e9)]
Rate = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
HeadKind = Literal["plain", "lstm", "text"]


@dataclass(frozen=True)
class Sizes:
    """How large what is put in is."""

    top: int = 1  # layers
    rank: int = 8  # of LoRA
    adapter: int = 32  # width of an adapter
    length: int = 8  # vectors of a prefix or a prompt


class Adapting(SplitSettings):
    """How a model is adapted, and by how much text."""

    max_sentences: int | None = Field(
        None,
        ge=1,
        description="Maximum number of texts of a split without a maximum of its own (default: "
        "all).",
    )
    max_train: int | None = Field(
        300,
        ge=2,
        le=10_000_000,
        description="Maximum number of texts to train on, a random sample (default 300).",
    )
    max_dev: int | None = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Maximum number of texts that choose the settings of a training and end it "
        "(default 200).",
    )
    max_test: int | None = Field(
        None,
        ge=1,
        description="Maximum number of texts to score (default: max_sentences, else all).",
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1, 2), min_length=1, max_length=100, description="Seeds of the head and of the order."
    )
    rates: tuple[Rate, ...] = Field(
        (),
        max_length=20,
        description="Learning rates to choose from, by dev and the first seed (default: a grid for "
        "each method). A plain head over a frozen model has none: it is trained to its optimum.",
    )
    ridges: tuple[Ridge, ...] = Field(
        (10_000.0, 1000.0, 100.0, 10.0, 1.0),
        min_length=1,
        max_length=20,
        description="Ridge strengths to choose from, by dev, for a plain head over a frozen model "
        "(1 / C of scikit-learn).",
    )
    epochs: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum number of epochs (default: 5 for fine-tuned, gradual and top; 6 for "
        "lora, adapters, prefix, prompt, bitfit and a frozen model under an LSTM).",
    )
    texts: int = Field(16, ge=1, le=4096, description="Texts in a step.")
    patience: int = Field(3, ge=1, le=1000, description="Epochs without gain on dev, then it ends.")
    top: int = Field(1, ge=1, le=200, description="Of method top: how many layers learn.")
    rank: int = Field(8, ge=1, le=1024, description="Of LoRA.")
    adapter: int = Field(32, ge=1, le=8192, description="The width of an adapter.")
    length: int = Field(8, ge=1, le=512, description="Vectors of a prefix or a prompt.")

    @property
    def sizes(self) -> Sizes:
        """Of what is put into a model."""
        return Sizes(self.top, self.rank, self.adapter, self.length)


# --- finetune -------------------------------------------------------------------------------------

KEY = ("task", "model", "method", "head")
LEARNT = ("scores", "rates", "learning", "epochs")  # tables that are put together of many cells


class Finetune(Adapting):
    """Which task, and how the model is adapted to it."""

    task: str = Field(
        "",
        description="The label to learn, or pos, tags, entities or answers; the only label, or the "
        "first of the others, if left out.",
    )
    metric: str = Field("", description="What decides; the task's usual one if left out.")
    method: Method = Field("fine-tuned", description="What of the model learns.")
    head: HeadKind = Field(
        "plain", description="plain; lstm: a strong one; text: the label is written (T5, BART)."
    )
    keep: bool = Field(True, description="Keep the model of the best seed.")


FINETUNE_TABLES = {
    "scores": Table(
        "Every metric of every seed on the scored part, and on dev the one that decides. f1: of "
        "two classes that of the second by name, unless that denies the first (not_equivalent, no, "
        "negative); of more the mean over them (macro). baseline: the same metric of a constant "
        "prediction, the majority or mean of train (0 where it has none); learned: whether the "
        "seed's deciding metric on the scored part is better than that; converged: training was "
        "not cut off by its maximum number of epochs; learning_rate 0: a linear head at its "
        "optimum, of this ridge strength. trainable: weights that learn, with the "
        "head's; size: MiB of those; peak_memory: MiB held at most meanwhile, of a CPU by the "
        "whole process.",
        (*KEY, "seed", "split", "metric"),
        ("learning_rate", "ridge"),
    ),
    "rates": Table(
        "What dev scored at every learning rate or ridge strength tried, by the first seed; the "
        "best was taken.",
        (*KEY, "learning_rate", "ridge", "metric"),
    ),
    "learning": Table(
        "The loss of each step, of every attempt; of a plain head over a frozen model without the "
        "penalty, which only its optimum tells.",
        (*KEY, "seed", "learning_rate", "ridge", "step"),
    ),
    "epochs": Table(
        "What dev scored after each epoch; of a plain head over a frozen model at the optimum of "
        "each ridge strength, after so many passes. converged: of the whole attempt.",
        (*KEY, "seed", "learning_rate", "ridge", "epoch"),
    ),
    "predictions": Table(
        "What was thought of each scored text, of every seed.", (*KEY, "seed", "text")
    ),
}  # fmt: skip

FINETUNE = Experiment(
    name="finetune",
    about="Adapts a model to a task: frozen, fine-tuned, or by a few weights; and keeps it.",
    settings=Finetune,
    run="workbench.transfer.finetune:run",
    version=5,
    tables=FINETUNE_TABLES,
    fits="workbench.transfer.finetune:fits",
    split="held-out",
    trains=True,
    figures="workbench.figures.transfer:FINETUNE",
)


# --- frozen-vs-finetuned --------------------------------------------------------------------------

FROZEN: Method = "frozen"


class FrozenVsFinetuned(Adapting):
    """Which tasks, and which ways beside leaving the model frozen."""

    tasks: tuple[str, ...] = Field(
        (),
        description="Labels or layers to learn; if left out, of primer the five of Peters et al. "
        "(entities, sentiment, entailment, relatedness, paraphrase), else all labels there are.",
    )
    methods: tuple[Method, ...] = Field(
        ("fine-tuned",), min_length=1, description="What is held against frozen."
    )
    strong: bool = Field(True, description="A frozen model under an LSTM stands beside them.")
    keep: bool = Field(
        False,
        description="Keep the model of every cell, to try texts on and to hold against others; a "
        "table made without them learns all of it again.",
    )

    @field_validator("methods")
    @classmethod
    def _beside(cls, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        if not set(methods) - {FROZEN}:
            raise ValueError("name a method to hold against frozen, such as fine-tuned")
        return methods


FROZEN_TABLES = {
    "delta": Table(
        "What is won over the frozen model under the same head: means over seeds, with 95 % "
        "intervals (texts and seeds drawn again) and p-values, uncorrected. strong: the frozen "
        "model under an LSTM; majority: a constant prediction, the majority or mean of train "
        "(empty where that has no score). verdict: helps or hurts where the interval leaves out 0 "
        "and the better of the two scores above the majority by more than chance; not learned "
        "where neither does; else undecided. converged: no training was cut off.",
        ("task", "model", "method", "metric"),
    ),
    "means": Table(
        "The mean over seeds of the metric that decides, with its interval, of every cell. "
        "learned: that interval lies above the majority baseline, text by text; converged: the "
        "training of no seed was cut off by its maximum number of epochs.",
        (*KEY, "metric"),
    ),
    **{name: FINETUNE_TABLES[name] for name in LEARNT},
    "cells": Table("The run of each cell.", KEY),
}

FROZEN_VS_FINETUNED = Experiment(
    name="frozen-vs-finetuned",
    about="Which models gain from fine-tuning, and on what: each task under the same head, frozen "
    "and fine-tuned, with a paired test.",
    settings=FrozenVsFinetuned,
    run="workbench.transfer.frozen_vs_finetuned:run",
    version=5,
    tables=FROZEN_TABLES,
    fits="workbench.transfer.frozen_vs_finetuned:fits",
    models=(1, None),
    corpora=(1, None),
    split="held-out",
    figures="workbench.figures.transfer:FROZEN_VS_FINETUNED",
)


# --- pretraining ----------------------------------------------------------------------------------

Arm = Literal["mlm+nsp", "mlm", "ltr", "ltr+lstm"]
Size = Literal["tiny", "mini", "small", "base"]


class Pretraining(Adapting):
    """What is pretrained, how long, and what it is scored on."""

    arms: tuple[Arm, ...] = Field(
        ("mlm+nsp", "mlm", "ltr", "ltr+lstm"),
        min_length=1,
        description="What models learn by: masked pieces and next sentences, masked pieces alone, "
        "or the next piece from the left (ltr+lstm: the same model, scored under an LSTM). The "
        "first is what the others are held against.",
    )
    size: tuple[Size, ...] = Field(
        ("tiny",),
        min_length=1,
        description="Sizes as train has them, one or more; others are held against the first.",
    )
    steps: int = Field(6000, ge=1, description="Steps of each pretraining.")
    pretrainings: tuple[Seed, ...] = Field(
        (0,), min_length=1, max_length=100, description="Seeds; a pretraining of each arm for each."
    )
    batch: int = Field(16, ge=1, description="Sequences in a step of a pretraining.")
    pieces: int = Field(
        48, ge=8, description="Pieces in such a sequence, and the most that a model ever reads."
    )
    vocabulary: int = Field(1000, ge=10, description="Kinds of pieces, of every size alike.")
    hidden: float = Field(
        0.3, gt=0, lt=1, description="Share of pieces that is masked; BERT had 0.15."
    )
    rate: Rate = Field(3e-3, description="The highest rate of a pretraining.")
    tasks: tuple[str, ...] = Field(
        (),
        description="Labels or layers to learn; if left out, of primer the five of Peters et al. "
        "(entities, sentiment, entailment, relatedness, paraphrase), else all labels there are.",
    )
    method: Method = Field("fine-tuned", description="How each model is adapted to each task.")
    max_train: int | None = Field(
        400,
        ge=2,
        le=10_000_000,
        description="Maximum number of texts to train on, a random sample (default 400).",
    )
    max_test: int | None = Field(
        500, ge=1, description="Maximum number of texts to score (default 500)."
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1),
        min_length=1,
        max_length=100,
        description="Seeds of the head and of the order, for each pretrained model.",
    )


PRETRAINING_TABLES = {
    "table": Table(
        "The metric that decides of each arm, size and task: means over seeds, with 95 % intervals "
        "(texts and seeds drawn again). delta: over the first arm of the same size, with its "
        "interval and a paired p-value, uncorrected; empty for that arm itself. parameters: of "
        "the pretrained model with the head it was pretrained under.",
        ("arm", "size", "task", "metric"),
        ("parameters",),
    ),
    "sizes": Table(
        "Where there are several: what a size wins over the first of them, of each arm and task.",
        ("arm", "size", "task", "metric"),
    ),
    "pretraining": Table(
        "How each pretraining ended. tokens: pieces read, frames of sequences included; passes: "
        "how often that is the whole text; loss, held_out: nats by the arm's own objective (of "
        "mlm+nsp both parts, added), which between arms cannot be compared; unigram: nats of who "
        "knows only how often each piece is there. Arms that share a run share the model.",
        ("arm", "size", "pretraining"),
        ("run",),
    ),
    "scores": Table(
        "What finetune says of every model and task. pretraining: the seed of the model's own; "
        "file_size: MiB of what was learnt.",
        ("arm", "size", "pretraining", *KEY, "seed", "split", "metric"),
        ("learning_rate",),
    ),
    "cells": Table(
        "The run of each model and task.", ("arm", "size", "pretraining", "task"), ("run",)
    ),
}  # fmt: skip

PRETRAINING = Experiment(
    name="pretraining",
    about="What pretraining is worth: masked or left to right, with next sentences or without, and "
    "how large; the same text and steps, scored on the same tasks.",
    settings=Pretraining,
    run="workbench.transfer.pretraining:run",
    version=5,
    tables=PRETRAINING_TABLES,
    models=(0, 0),
    corpora=(1, None),
    fits="workbench.transfer.pretraining:fits",
    split="held-out",
    trains=True,
    figures="workbench.figures.pretraining:FIGURES",
)


# --- similarity -----------------------------------------------------------------------------------

LAYER_PAIR = ("model_a", "stack_a", "layer_a", "model_b", "stack_b", "layer_b")
SIMILARITY_TABLE = Table(
    "Debiased linear CKA of two layers' states of the same words: 1 is the same up to rotation, "
    "scale and shift, 0 what independent layers have on average, a little below 0 chance; empty "
    "where a layer gives all words one state. Layer 0 are the embeddings. One model stands next to "
    "its random twin, each compared with itself.",
    LAYER_PAIR,
)


class Similarity(Settings):
    """What is compared."""

    max_sentences: int | None = Field(
        300, ge=1, description="Maximum number of sentences (default: 300)."
    )
    words: int = Field(
        20_000, ge=10, le=10_000_000, description="Words compared at most, drawn by the seed."
    )
    twin: bool = Field(
        True, description="Random twin next to one model alone, for what its architecture explains."
    )


SIMILARITY_TABLES = {
    "similarity": SIMILARITY_TABLE,
    "words": Table(
        "Words of the corpus, those that the model has no piece for, and those that were compared.",
        ("model",),
    ),
}

SIMILARITY = Experiment(
    name="similarity",
    about="How alike the layers of one or more models are, word by word: debiased linear CKA.",
    settings=Similarity,
    run="workbench.transfer.similarity:run",
    exact_up_to=math.inf,
    tables=SIMILARITY_TABLES,
    version=2,
    models=(1, None),
    split="held-out",
    figures="workbench.figures.drift:SIMILARITY",
)


# --- drift ----------------------------------------------------------------------------------------


class Drift(Settings):
    """What is compared."""

    max_sentences: int | None = Field(
        300, ge=1, description="Maximum number of sentences (default: 300)."
    )
    words: int = Field(
        20_000,
        ge=10,
        le=10_000_000,
        description="Words whose states are compared at most, drawn by the seed.",
    )
    roles: bool = Field(False, description="Also ask heads of both: what each head does.")
    probe: bool = Field(
        False, description="Also ask edge-probing of both: what each layer knows. Takes minutes."
    )
    tasks: tuple[str, ...] = Field(
        (), description="Tasks to probe for; all that the corpus has where none is named."
    )
    max_train: int | None = Field(
        1000, ge=1, description="Maximum number of sentences that probes train on (default 1,000)."
    )
    max_dev: int | None = Field(
        1000, ge=1, description="Maximum number of sentences that stop probes (default 1,000)."
    )
    max_test: int | None = Field(
        1000,
        ge=1,
        description="Maximum number of sentences that probes are scored on (default 1,000).",
    )


DRIFT_TABLES = {
    "drift": Table(
        "Each layer before and after; layer 0 are the embeddings. cka: 1 is the same up to "
        "rotation, scale and shift; procrustes: 0 is. weight_distance: ‖after - before‖ / "
        "‖before‖. attention_js: mean of the layer's heads, in bits. probing_delta: mean of the "
        "tasks. Empty where there is none: layer 0 has no attention, layers may share weights, "
        "probes may not have been asked.",
        ("stack", "layer"),
    ),
    "modules": Table(
        "How far each module's weights moved, weight and bias together; layer -1: what belongs to "
        "no layer, such as a head. Shared weights are told once, where they come first.",
        ("stack", "layer", "module"),
        ("norm_before", "parameters"),
    ),
    "heads": Table(
        "How differently each head looks: mean Jensen-Shannon divergence in bits of its rows "
        "before and after, over `n` pieces of the text; special pieces are looked at but not "
        "asked. Layers of heads count from 0, so that layer 0 here is in layer 1 of `drift`. "
        "lower, upper: the middle 95 % of drawings of sentences. Roles and changes of scores are "
        "those of `heads`.",
        HEAD,
    ),
    "losses": Table(
        "Forgetting: each model's loss on the corpus (nats a piece), and the change, with the "
        "middle 95 % of drawings of sentences; `n` pieces or guesses.",
        ("metric",),
    ),
    "probing": Table(
        "What the same probes, with the same seeds, scored in each layer; delta with its 95 % "
        "interval and p-value, uncorrected (sentences and seeds drawn again, the same for both).",
        ("task", "stack", "layer"),
    ),
    "rewound": Table(
        "The score on the task that the second model was fine-tuned for, with each layer's weights "
        "put back as they were before; with none and with all of them. The texts are of the part "
        "that finetune scores with the same seed. Only where its run kept its head and the corpus "
        "has the label.",
        ("stack", "layer", "metric"),
    ),
    "similarity": SIMILARITY_TABLE,
}

DRIFT = Experiment(
    name="drift",
    about="What training has changed in a model, layer by layer: states, weights, attention, "
    "forgetting.",
    settings=Drift,
    run="workbench.transfer.drift:run",
    version=3,
    exact_up_to=math.inf,
    tables=DRIFT_TABLES,
    models=(2, 2),
    split="held-out",
    figures="workbench.figures.drift:DRIFT",
)
