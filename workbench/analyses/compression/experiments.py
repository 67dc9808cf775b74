"""The experiment `compress`: its settings and tables. Costs: nothing."""

from typing import Annotated, Literal

from pydantic import Field

from workbench.analyses.pruning.experiments import BASELINE, AimedSplits
from workbench.core.findings import listing, percent
from workbench.experiment.definition import HEADS, PREDICTS, Demo, Experiment, Table
from workbench.experiment.measured import OBJECTIVE

MethodName = Literal[
    "weights", "neurons", "layers", "vocabulary", "embeddings", "bits", "packed bits",
    "weights before training", "weights while training", "weights after training",
    "movement while training", "bits while training", "bits after training",
]  # fmt: skip
METHODS: dict[MethodName, str] = {
    "weights": "weights of all matrices set to zero, smallest first",
    "neurons": "neurons of the feed-forward layers, of the smallest weights first",
    "layers": "layers, those that change states least first",
    "vocabulary": "pieces of the vocabulary, rarest in the train texts first",
    "embeddings": "directions of the embeddings, smallest singular values first",
    "bits": "bits of the weights of all layers",
    "packed bits": "bits of all matrices and embeddings",
    "weights before training": "weights before training",
    "weights while training": "weights while training, by a cubic schedule (Zhu and Gupta 2017)",
    "weights after training": "weights after training",
    "movement while training": "weights that move to zero while training (Sanh et al. 2020)",
    "bits while training": "bits while training (Zafrir et al. 2019)",
    "bits after training": "bits after training",
}
BIT_METHODS: tuple[MethodName, ...] = (
    "bits", "packed bits", "bits after training", "bits while training",
)  # fmt: skip
BitsName = Literal["8", "8 with activations", "8 per tensor", "4", "4 per tensor"]
BATCH = 16  # texts of a training step
Share = Annotated[float, Field(gt=0, le=1)]


class Compress(AimedSplits):
    """What is cut, how much of it, and what is measured of the models that are left."""

    max_sentences: int | None = Field(
        500, ge=1, description="Maximum number of sentences of each split (default 500)."
    )
    methods: tuple[MethodName, ...] = Field(
        tuple(METHODS),
        min_length=1,
        description="What is cut: weights (set to zero), neurons, layers, vocabulary, embeddings "
        "(to a lower rank), bits (by torchao, the extra quant), packed bits (without it); and with "
        "training: weights before, while or after training, movement while training, bits while or "
        "after training (default: all).",
    )
    amounts: tuple[Share, ...] = Field(
        (0.25, 0.5, 0.75),
        min_length=1,
        max_length=20,
        description="Shares that are removed, of all but bits (default 0.25, 0.5, 0.75).",
    )
    bits: tuple[BitsName, ...] = Field(
        ("8", "8 with activations", "4"),
        min_length=1,
        description="Bits of the weights: 8, or 4, with a scale for each channel of a matrix; "
        "8 with activations; 8 or 4 per tensor (default: 8, 8 with activations, 4).",
    )
    combined: bool = Field(
        True, description="Also cut neurons and layers, and then bits (default: yes)."
    )
    training_steps: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description=f"Training steps of {BATCH} texts, of methods that train (default 100).",
    )
    learning_rate: float = Field(
        1e-4, gt=0, le=1, description="Learning rate of methods that train (default 1e-4)."
    )
    random_orders: int = Field(
        5,
        ge=0,
        le=100,
        description="Random orders of removal for each method and amount; the others are tested "
        "against them (default 5; 0 or 1: no test).",
    )
    keep: Share = Field(
        0.99,
        description="Share of the score that the saved model must keep: the smallest such model is "
        "saved (default 0.99).",
    )
    rounds: int = Field(
        15,
        ge=0,
        le=1000,
        description="Paired measurements of the latency of each saved model (default 15; 0: none).",
    )
    max_pairs: int = Field(
        150,
        ge=0,
        le=100_000,
        description="Built-in minimal pairs that language models are tested on (default 150; 0: "
        "none).",
    )

    inside: bool = Field(
        True,
        description="Also compare the saved model's probe tasks and head roles with the "
        "original's (default: yes).",
    )

    @property
    def trains(self) -> bool:
        """Whether a method trains the model."""
        return any("training" in name for name in self.methods)

    @property
    def texts_to_train_on(self) -> int:
        """The number of texts that training can use."""
        return BATCH * self.training_steps if self.trains else 0

    def in_prose(self) -> str:
        cut = listing([METHODS[name] for name in self.methods], len(METHODS))
        shares = listing([percent(amount) for amount in self.amounts], len(self.amounts))
        timed = (
            " Size, peak memory and latency are those of the saved model in a new process, latency "
            f"in {self.rounds:,} pairs of measurements with the original."
            if self.rounds
            else ""
        )
        trained = (
            f"; where trained, for {self.training_steps:,} steps of {BATCH} texts"
            if self.trains
            else ", without training the model afterwards"
        )
        orders = self.random_orders
        random = f"{orders:,} random {'one' if orders == 1 else 'ones'} and " if orders else ""
        in_training = " (in training, with up to 2 random ones)" if self.trains and orders else ""
        return (
            f"We removed {cut} ({shares}){trained}. Each order was compared with "
            f"{random}its reverse{in_training}, on {self.tested()}.{timed} What fell further than "
            "the rest (classes, lengths, labels, parts of speech, relations, minimal pairs) was "
            "tested by permuting groups (studentised; Chung and Romano 2013), with Holm's "
            "correction over the groups of a model."
        )


POINT = ("method", "amount")
TABLES = {
    "points": Table(
        "One row per model. order: of removal: best, reversed, random. value: the measure, with "
        "its 95 % interval over texts. change: from the original, with its paired interval. p: "
        "that it changed (sign flips of texts, Holm). kept: share of the original's score (of a "
        "loss: original over compressed). nonzero: share of the original's parameters that are "
        "left and not zero. disk: MiB of the saved weights. operations: of a forward pass per "
        "text, in millions. random_weights: the measure of a model of the same size with random "
        "weights. needed: share that the saved model must keep. front: no other model is both "
        "smaller on disk and better.",
        (*POINT, "order", "seed"),
    ),
    "orders": Table(
        "Each order against random ones: value, random: their mean. p: that the value is better "
        "than a further random order's (t prediction interval, Holm over the rows).",
        POINT,
    ),
    "training": Table(
        "Methods that train, each against another one (against) of the same amount and the same "
        "training. value, other: the measure of both. difference: with its paired 95 % interval "
        "over texts. p: sign flips of texts, Holm over the rows. better: the method is better.",
        POINT,
    ),
    "cost": Table(
        "The saved model in a new process, next to the original: texts in a batch, median "
        "milliseconds of a forward pass, their ratio with its 95 % interval (bootstrap of the "
        "median over pairs). p: that the compressed model is faster in more than half of the pairs "
        "(sign test, Holm over the rows). faster: p is below 0.05, and the interval above 1. "
        "memory: MiB that opening the model and a pass over 32 texts add to the process.",
        (*POINT, "texts"),
    ),
    "lost": Table(
        "What fell further than the rest. kind: class, length, part of speech, relation, minimal "
        "pairs, or a label. fall: mean loss of score (share right; of words: nats) in the group; "
        "rest: in the other groups of the kind. difference: with its 95 % interval. p: that the "
        "group fell further (permutations of the groups, Holm over the groups of a model).",
        (*POINT, "kind", "group"),
    ),
    "inside": Table(
        "The saved model against the original. kind: probe task (F1 at the best layer of each, by "
        "edge-probing) or head role (number of heads, by heads). change: with its paired 95 % "
        "interval over sentences. p: Holm over probe tasks. n: targets, or heads.",
        ("kind", "group"),
    ),
    "layers": Table(
        "Each layer alone rounded to 4 bits. change: of the measure, with its paired 95 % interval "
        "over texts. p: Holm over layers.",
        ("stack", "layer"),
        ("layer",),
    ),
    "left_out": Table("What this model does not allow, and why.", ("method",)),
    "baseline": BASELINE,
    "objective": OBJECTIVE,
}

COMPRESS = Experiment(
    name="compress",
    version=3,
    question="What can be cut, and what is lost?",
    about="How small and fast does a model get without weights, neurons, layers, pieces or bits, "
    "and what does it lose?",
    subject="Heads",
    settings=Compress,
    run="workbench.analyses.compression.compress:run",
    exact_up_to=1e9,
    tables=TABLES,
    needs=(HEADS, PREDICTS),
    suits="workbench.corpora.task_gold:require_gold",
    measures=True,
    trains=True,
    split="held-out",
    figures="workbench.analyses.compression.figures:FIGURES",
    findings="workbench.analyses.compression.findings:findings",
    papers=(
        "gordon-2020-compressing", "zafrir-2019-q8bert", "men-2024-shortgpt", "sajjad-2023-effect",
        "chung-2013-exact", "zhu-2017-prune", "sanh-2020-movement", "lan-2020-albert",
    ),
    title="Compression of",
    presets={
        "Quick": {
            "max_sentences": 100, "amounts": (0.25, 0.5), "random_orders": 2, "rounds": 12,
            "max_pairs": 60, "training_steps": 30,
        },
        "Standard": {},
        "Full": {
            "max_sentences": None, "amounts": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
            "random_orders": 20, "rounds": 50, "max_pairs": 1000,
        },
    },
    demo=Demo(
        "Smaller models, and what they lost",
        models=("mini:bert",),
        settings={
            "max_sentences": 60, "amounts": (0.5,), "methods": ("weights", "neurons", "layers"),
            "random_orders": 2, "rounds": 5, "max_pairs": 40,
        },
        order=13,
    ),
)  # fmt: skip
