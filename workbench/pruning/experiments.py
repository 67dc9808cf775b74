"""What can be asked of heads that are left out: ablation, importance, gates, pruning.

Names, settings and tables alone, so that experiments are listed without torch. Costs nothing; the
code is imported when it is first run.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from workbench.core.experiment import HEAD, HEADS, Experiment, Inputs, Need, Settings, Table
from workbench.core.splits import Parts, SplitSizes, parts_of

PREDICTS = Need(
    "a head that predicts, of pieces or of classes",
    lambda facts: bool(facts["objective"] or facts["classes"]),
    "Choose a model saved with a language-model head, such as mini:bert, or a classifier.",
)

DEV_TEXTS = 200  # where no maximum is set: enough to see a loss rise


class Aimed(Settings):
    """What heads are measured by."""

    label: str = Field(
        "",
        description="Label of the corpus that a classifier predicts (default: the one that has its "
        "classes). Language models are measured by their own loss.",
    )


class AimedSplits(Aimed):
    """The same where heads are chosen on one split and measured on another."""

    max_sentences: int | None = Field(
        None, ge=1, description="Maximum number of sentences of each split (default: all)."
    )
    max_train: int | None = Field(
        None, ge=1, description="Maximum number of sentences to train on (default: max_sentences)."
    )
    max_test: int | None = Field(
        None, ge=1, description="Maximum number of sentences to score (default: max_sentences)."
    )

    def parts(self, inputs: Inputs, needed: int, dev: int | None = None) -> Parts:
        """Train, dev and test; no more of train than the steps of learning can use."""
        train, test = (
            self.max_sentences if size is None else size for size in (self.max_train, self.max_test)
        )
        least = needed if train is None else min(needed, train)
        sizes = SplitSizes(least, dev or self.max_sentences or DEV_TEXTS, test)
        return parts_of(inputs.corpus, inputs.split, sizes, inputs.seed)


BASELINE = Table(
    "The whole model next to its trivial baseline. value: the model's; baseline: of the accuracy, "
    "always the most frequent answer (piece or class), of the loss, each answer's frequency in the "
    "other texts; difference: value less baseline, with its 95 % interval over texts; better: the "
    "interval excludes zero on the right side.",
    ("metric",),
)


# --- head-importance ------------------------------------------------------------------------------

IMPORTANCE = Table(
    "importance: mean absolute gradient of each text's loss at the head's gate, in nats a piece "
    "(of a classifier, a text), with its 95 % interval over texts; normalised: divided by the L2 "
    "norm of its layer's. first_order: what the gradients predict is added to the loss without the "
    "head. n: pieces, or texts, that are scored.",
    HEAD,
)

HEAD_IMPORTANCE = Experiment(
    name="head-importance",
    about="How much each head matters to first order: the gradient of each text's loss at its "
    "gate.",
    settings=Aimed,
    run="workbench.pruning.importance:run",
    exact_up_to=1e9,
    tables={"importance": IMPORTANCE, "baseline": BASELINE},
    version=2,
    needs=(HEADS, PREDICTS),
    split="held-out",
    figures="workbench.figures.pruning:IMPORTANCE",
)


# --- head-ablation --------------------------------------------------------------------------------


class HeadAblation(Aimed):
    """What replaces a head that is left out, and which are left out together."""

    mode: Literal["zero", "mean", "resample", "all"] = Field(
        "zero",
        description="What replaces the output of a head: zero, its mean over the corpus, or its "
        "output on another text; or each of the three.",
    )
    pairs: Literal["none", "layer", "all"] = Field(
        "none",
        description="Pairs of heads that are also left out, of one layer or of all: what two do "
        "together that neither does alone.",
    )


ABLATION_TABLES = {
    "ablation": Table(
        "The whole model (base) and without one head (ablated). delta: ablated less base, with its "
        "95 % interval over texts; p_value: sign flips of texts' differences, corrected over all "
        "heads; matters: p < 0.05, the score is worse without the head, and the whole model is "
        "better than its trivial baseline. Loss in nats a piece (of a classifier, a text).",
        ("mode", "metric", *HEAD),
    ),
    "pairs": Table(
        "Of two heads together. delta: added to the loss; interaction: delta less what each adds "
        "alone, large where one does what the other would.",
        ("mode", *(f"{name}_{which}" for which in ("a", "b") for name in HEAD)),
    ),
    "agreement": Table(
        "Rank correlation (Spearman) of importance to first order with what is exactly added to "
        "the loss, over all heads.",
        ("mode",),
    ),
    "importance": IMPORTANCE,
    "heads": Table(
        "A row a head, of the first mode: importance to first order, what is added to the loss and "
        "to the accuracy without it, and p_value and matters of the loss.",
        HEAD,
    ),
    "baseline": BASELINE,
}

HEAD_ABLATION = Experiment(
    name="head-ablation",
    about="What is exactly lost without each head and without pairs of them; their importance.",
    settings=HeadAblation,
    run="workbench.pruning.ablation:run",
    exact_up_to=1e9,
    tables=ABLATION_TABLES,
    version=2,
    needs=(HEADS, PREDICTS),
    split="held-out",
    figures="workbench.figures.pruning:ABLATION",
)


# --- head-gates -----------------------------------------------------------------------------------

Price = Annotated[float, Field(ge=0, le=1000)]
Budget = Annotated[float, Field(gt=0, le=1)]


class HeadGates(AimedSplits):
    """What an open gate costs, and what learns with the gates."""

    lambdas: tuple[Price, ...] = Field(
        (0.01, 0.03, 0.1, 0.3),
        description="Prices of an open head, in nats a piece (of a classifier, a text).",
    )
    budgets: tuple[Budget, ...] = Field(
        (0.5, 0.25), description="Shares of heads to keep exactly, by subset pruning."
    )
    tuned: bool = Field(False, description="Whether weights learn with the gates (default: no).")
    steps: int = Field(
        150, ge=1, le=100_000, description="Steps of learning at each price and budget."
    )
    texts: int = Field(32, ge=1, le=4096, description="Texts in a step (default 32).")
    rate: float = Field(1e-4, gt=0, le=1, description="Learning rate of weights (default 1e-4).")
    gate_rate: float = Field(0.1, gt=0, le=10, description="Learning rate of gates (default 0.1).")

    @model_validator(mode="after")
    def _something(self) -> "HeadGates":
        if not self.lambdas and not self.budgets:
            raise ValueError("Name a price in lambdas, or a budget in budgets")
        return self


GATES_TABLES = {
    "gates": Table(
        "p_open: probability that a head's gate is open, of a subset its soft membership; kept: it "
        "stays. lambda is the price of an open head, 0 where a budget was kept to.",
        ("lambda", "budget", *HEAD),
    ),
    "survival": Table(
        "What is left at each price and budget: heads, and how the smaller model does on texts "
        "that gates did not learn from. delta: value less base (the whole model), with its 95 % "
        "interval over texts and p_value (sign flips, corrected over prices and budgets). random: "
        "mean delta of five random choices of as many heads; p_random: that the heads kept do no "
        "better than those (t prediction interval, Holm); better: p_random < 0.05, in a model "
        "better than its trivial baseline. converged: other heads would not be kept if learning "
        "went on as long again.",
        ("lambda", "budget", "metric"),
    ),
    "learning": Table("The loss of each step.", ("lambda", "budget", "step")),
    "baseline": BASELINE,
}

HEAD_GATES = Experiment(
    name="head-gates",
    about="Which heads stay open when each must pay for it, or when only so many may.",
    settings=HeadGates,
    run="workbench.pruning.gates:run",
    exact_up_to=1e9,
    tables=GATES_TABLES,
    version=2,
    needs=(HEADS, PREDICTS),
    split="held-out",
    figures="workbench.figures.pruning:GATES",
)


# --- head-pruning ---------------------------------------------------------------------------------

By = Literal["importance", "ablation", "magnitude", "random"]
BY: tuple[By, ...] = ("importance", "ablation", "magnitude", "random")
ONCE: tuple[By, ...] = ("magnitude", "random")  # nothing changes by what is gone
Share = Annotated[float, Field(ge=0, le=1)]
METHOD = ("method", "rescored", "seed")


class HeadPruning(AimedSplits):
    """Which heads are removed, how many, and what is learnt before and after."""

    methods: tuple[By, ...] = Field(
        ("importance", "ablation", "magnitude", "random"),
        min_length=1,
        description="How heads are chosen: by the gradient of the loss, by what is exactly lost, "
        "by the norm of their weights, or at random.",
    )
    steps: int = Field(10, ge=1, le=1000, description="Steps from all heads to none.")
    seeds: int = Field(
        5, ge=1, le=100, description="Number of random orders, which the others are tested against."
    )
    normalised: bool = Field(
        True, description="Importance divided by the L2 norm of its layer's, as in the paper."
    )
    choosing: int = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Number of train texts that heads are chosen on (default 200).",
    )
    prune: Share = Field(0.3, description="Share of heads removed from the model that is kept.")
    by: By = Field("ablation", description="How those are chosen; scored again after each step.")
    recover: int = Field(
        100,
        ge=0,
        le=100_000,
        description="Maximum number of steps of fine-tuning after that (default 100; 0: none).",
    )
    rate: float = Field(1e-4, gt=0, le=1, description="Learning rate (default 1e-4).")
    texts: int = Field(32, ge=1, le=4096, description="Texts in a step (default 32).")
    task: str = Field(
        "",
        description="Label of the corpus, such as sentiment, that a classifier is fitted for first "
        "(default: none).",
    )
    fit: int = Field(
        1000, ge=1, le=100_000, description="Maximum number of steps of fitting it (default 1,000)."
    )
    max_dev: int | None = Field(
        None,
        ge=1,
        description="Maximum number of sentences for early stopping (default: "
        "max_sentences, else 200).",
    )


FITTED = Table(
    "The classifier, fitted on a share of the train texts and scored on test, next to its trivial "
    "baseline (see the table baseline). best_step: the step with the lowest dev loss, whose "
    "weights are used; best_epoch: how often it had seen each text by then; converged: the dev "
    "loss stopped falling before the steps ran out.",
    ("share", "metric"),
)

PRUNING_TABLES = {
    "curve": Table(
        "What is left after each step, on texts that heads were not chosen on; seconds are of one "
        "pass over them, memory is MiB of weights (on a GPU the peak).",
        (*METHOD, "heads_removed", "metric"),
    ),
    "summary": Table(
        "area: the mean over all shares of heads removed; falls_1 and falls_5: the share at which "
        "1 % and 5 % of the score are lost first (a loss has risen so much), 1 if never. p_value: "
        "that this order's area is no better than those of random orders (t prediction interval, "
        "Holm over the orders); better: p < 0.05, in a model better than its trivial baseline.",
        (*METHOD, "metric"),
    ),
    "order": Table(
        "The order in which heads are removed; heads of one place go together.",
        (*METHOD, *HEAD),
        ("place",),
    ),
    "alone": Table(
        "Each layer with its best head alone, all other layers whole.", (*HEAD, "metric")
    ),
    "kept": Table(
        "The whole model, without the heads (pruned), after fine-tuning (recovered), and the whole "
        "model after as many steps at most. delta: to the stage `against`, on the same texts, with "
        "its 95 % interval and p_value (sign flips, corrected over stages). converged: the dev "
        "loss stopped falling before the steps ran out. Size is MiB of weights.",
        ("stage", "metric"),
    ),
    "heads": Table("Every head of the whole model, and whether it was kept.", HEAD),
    "speed": Table(
        "Seconds of a forward pass over so many texts, the median of five; speedup: the whole "
        "model's over the smaller one's; memory: MiB of weights (on a GPU the peak).",
        ("texts",),
    ),
    "learning": Table(
        "The loss of each step of fitting and of fine-tuning (train), and on dev.",
        ("stage", "split", "step"),
    ),
    "classifier": FITTED,
    "baseline": BASELINE,
}

HEAD_PRUNING = Experiment(
    name="head-pruning",
    about="How many heads can go, and which first: curves of every way to choose, and the smaller "
    "model, which the run keeps.",
    settings=HeadPruning,
    run="workbench.pruning.head_pruning:run",
    exact_up_to=1e9,
    tables=PRUNING_TABLES,
    needs=(HEADS,),
    version=2,
    split="held-out",
    trains=True,
    figures="workbench.figures.pruning:PRUNING",
)
