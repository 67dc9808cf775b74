"""The pruning experiments: importance, ablation, gates, pruning; their settings and tables.

Nothing here imports torch, so that listing experiments is fast. Costs: nothing; the code is
imported when an experiment first runs.
"""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator

from workbench.corpora.splits import Parts, SplitSizes, parts_of
from workbench.experiment.definition import (
    FULL,
    HEAD,
    HEADS,
    PREDICTS,
    QUICK,
    STANDARD,
    Demo,
    Experiment,
    Inputs,
    Settings,
    Table,
)
from workbench.experiment.measured import OBJECTIVE
from workbench.experiment.sizes import Effort

DEV_TEXTS = 200  # default: enough to see a loss rise


def number_of(sentences: int | None, kind: str = "") -> str:
    """A maximum number of sentences, in words."""
    number = "all" if sentences is None else f"up to {sentences:,}"
    return f"{number} {kind}sentence{'' if sentences == 1 else 's'}"


class Aimed(Settings):
    """The loss that heads are measured by."""

    label: str = Field(
        "",
        description="Label of the corpus that a classifier predicts (default: the label whose "
        "classes the model predicts). Language models use their own loss.",
    )

    def scored(self) -> str:
        """Return what the loss is, and on how many sentences, as a sentence of a method."""
        loss = f"that of the classifier for {self.label}" if self.label else "the model's own"
        return f"The loss is {loss}, on {number_of(self.max_sentences)}."


class AimedSplits(Aimed):
    """The loss, and split sizes: heads are chosen on one split and scored on another."""

    max_sentences: int | None = Field(
        None, ge=1, description="Maximum number of sentences of each split (default: all)."
    )
    max_train: int | None = Field(
        None, ge=1, description="Maximum number of sentences to train on (default: max_sentences)."
    )
    max_test: int | None = Field(
        None, ge=1, description="Maximum number of sentences to score (default: max_sentences)."
    )

    def tested(self) -> str:
        """Return the number of sentences that models are scored on, in words."""
        limit = self.max_sentences if self.max_test is None else self.max_test
        return number_of(limit, "held-out ")

    def parts(self, inputs: Inputs, needed: int, dev: int | None = None) -> Parts:
        """Train, dev and test; no more of train than the training steps can use.

        Of a fine-tuned model they are the parts that it was fine-tuned on with the same seed, so
        that none of the scored texts was learnt.
        """
        from workbench.corpora.task_gold import task_on
        from workbench.corpora.tasks import labelled_parts

        train, test = (
            self.max_sentences if size is None else size for size in (self.max_train, self.max_test)
        )
        least = needed if train is None else min(needed, train)
        sizes = SplitSizes(least, dev or self.max_sentences or DEV_TEXTS, test)
        corpus, model, task = inputs.corpus, inputs.model, inputs.model.predicts
        if task is None or task.is_language_model:
            return parts_of(corpus, inputs.split, sizes, inputs.seed)
        task = task_on(task, [*corpus.first_docs(1000)], self.label, model.name, corpus.name)
        found = labelled_parts(corpus, task, inputs.split, inputs.seed, sizes)  # as `finetune` does
        if len(corpus.splits) > 1:
            return found
        note = (
            f"Train, dev and test are those of a fine-tuning on this corpus with seed "
            f"{inputs.seed}: a model that was trained on it with another seed has learnt some of "
            "the scored texts."
        )
        return replace(found, notes=(*found.notes, note))


BASELINE = Table(
    "The whole model next to its trivial baseline. value: score of the model. baseline: for "
    "accuracy, always the most frequent piece or class; for the loss, each one's frequency in the "
    "other texts. difference: value minus baseline, with its 95 % interval over texts. better: the "
    "interval excludes zero on the right side.",
    ("metric",),
)


# --- head-importance ------------------------------------------------------------------------------

IMPORTANCE = Table(
    "importance: mean absolute gradient of each text's loss at the head's gate, in nats per piece "
    "(classifiers: per text), with its 95 % interval over texts. normalised: divided by the L2 "
    "norm over its layer. first_order: loss added without the head, as the gradients predict. n: "
    "number of scored pieces or texts.",
    HEAD,
)


class HeadImportance(Aimed):
    """The loss whose gradient is measured, and the number of sentences."""

    def in_prose(self) -> str:
        return (
            "We measured the importance of each attention head as the mean absolute gradient of "
            f"each text's loss at a gate on the head's output (Michel et al. 2019). {self.scored()}"
            " Intervals are bootstraps over texts."
        )


HEAD_IMPORTANCE = Experiment(
    name="head-importance",
    about="How important is each head, measured by the gradient of the loss at its gate?",
    subject="Heads",
    settings=HeadImportance,
    run="workbench.analyses.pruning.importance:run",
    exact_up_to=1e9,
    tables={"importance": IMPORTANCE, "baseline": BASELINE, "objective": OBJECTIVE},
    version=3,
    needs=(HEADS, PREDICTS),
    suits="workbench.corpora.task_gold:require_gold",
    measures=True,
    split="held-out",
    figures="workbench.analyses.pruning.figures:IMPORTANCE",
    findings="workbench.analyses.pruning.findings:head_importance",
    papers=("michel-2019-heads",),
    title="Importance of the attention heads of",
    demo=Demo(
        "Importance of each head, from gradients",
        models=("mini:bert",),
        settings={"max_sentences": 200},
        order=9,
    ),
)


# --- head-ablation --------------------------------------------------------------------------------


class HeadAblation(Aimed):
    """What replaces the output of an ablated head, and which heads are ablated together."""

    replacement: Literal["zero", "mean", "resample", "all"] = Field(
        "zero",
        description="Replacement of a head's output: zero, its mean over the corpus, its output on "
        "another text (resample), or all three (default zero).",
    )
    pairs: Literal["none", "layer", "all"] = Field(
        "none",
        description="Pairs of heads that are also ablated together: none, within a layer, or all "
        "(default none).",
    )
    effort: Effort = Field(
        "standard",
        description="How much to compute (default: standard). quick: every head on 100 sentences. "
        "standard: more sentences for heads of which it is open whether they are among the ten "
        "largest changes of the loss, or significant. full: every head on all sentences, as always "
        "with pairs.",
    )

    def in_prose(self) -> str:
        ways = {
            "zero": "zero",
            "mean": "its mean over the corpus",
            "resample": "its output on another text",
            "all": "zero, its mean over the corpus, and its output on another text in turn",
        }
        pairs = {
            "none": "",
            "layer": " We also ablated every pair of heads of a layer together.",
            "all": " We also ablated every pair of heads together.",
        }
        return (
            "We removed one attention head at a time: its output was replaced by "
            f"{ways[self.replacement]} (Michel et al. 2019).{pairs[self.pairs]} {self.scored()} "
            f"{self._tested()}"
        )

    def _tested(self) -> str:
        """How many sentences each head was scored on, and how changes are tested."""
        if self.effort == "full" or self.pairs != "none":
            return "Changes are tested by sign flips over texts, corrected over all heads."
        more = (
            "none on more"
            if self.effort == "quick"
            else "those heads on more of which it was open whether they are significant or among "
            "the ten largest changes"
        )
        return (
            f"Every head was scored on 100 sentences (all, if there are up to 125), and {more}. "
            "Sentences with large gradients were drawn first. Changes are tested by Student's t of "
            "a weighted regression on the gradients, corrected over heads and rounds."
        )


ABLATION_TABLES = {
    "ablation": Table(
        "Score of the whole model (base) and without one head (ablated). delta: ablated minus "
        "base, with its 95 % interval over texts. p_value: of the change, corrected over all heads "
        "(effort full: sign flips over texts; else: Student's t, corrected over rounds too). "
        "matters: p < 0.05, the score is worse without the head, and the whole model is better "
        "than its trivial baseline. sentences, n: sentences that the head was scored on, and "
        "predictions in them. top_ten: among the ten largest changes of the loss. decided: "
        "all sentences would give the same top_ten and significance of the loss. Loss in nats "
        "per piece (classifiers: per text).",
        ("mode", "metric", *HEAD),
    ),
    "pairs": Table(
        "Two heads ablated together. delta: loss added. interaction: delta minus the loss added by "
        "each head alone; large where one head can replace the other.",
        ("mode", *(f"{name}_{which}" for which in ("a", "b") for name in HEAD)),
    ),
    "agreement": Table(
        "Spearman correlation over all heads between importance (first order) and the exact change "
        "of the loss.",
        ("mode",),
    ),
    "rounds": Table(
        "Rounds of scoring. heads: heads scored in it. sentences: sentences that these have been "
        "scored on since the first round.",
        ("mode", "round"),
    ),
    "importance": IMPORTANCE,
    "heads": Table(
        "One row per head, for the first replacement: importance (first order), change of loss and "
        "accuracy without the head, and p_value and matters of the loss.",
        HEAD,
    ),
    "baseline": BASELINE,
    "objective": OBJECTIVE,
}

HEAD_ABLATION = Experiment(
    name="head-ablation",
    about="How much does the loss change when you remove each head, or a pair of heads?",
    subject="Heads",
    settings=HeadAblation,
    run="workbench.analyses.pruning.ablation:run",
    exact_up_to=1e9,
    tables=ABLATION_TABLES,
    version=5,
    needs=(HEADS, PREDICTS),
    suits="workbench.corpora.task_gold:require_gold",
    measures=True,
    split="held-out",
    figures="workbench.analyses.pruning.figures:ABLATION",
    findings="workbench.analyses.pruning.findings:head_ablation",
    presets={QUICK: {"effort": "quick"}, STANDARD: {}, FULL: {"effort": "full"}},
    papers=("michel-2019-heads",),
    title="Ablation of the attention heads of",
    demo=Demo(
        "Ablation of each head: loss without it",
        models=("mini:bert",),
        settings={"max_sentences": 100},
        order=10,
    ),
)


# --- head-gates -----------------------------------------------------------------------------------

Price = Annotated[float, Field(ge=0, le=1000)]
Budget = Annotated[float, Field(gt=0, le=1)]


class HeadGates(AimedSplits):
    """The cost of an open gate, and what is trained with the gates."""

    lambdas: tuple[Price, ...] = Field(
        (0.01, 0.03, 0.1, 0.3),
        description="Costs of an open head, in nats per piece (classifiers: per text).",
    )
    budgets: tuple[Budget, ...] = Field(
        (0.5, 0.25), description="Shares of heads to keep, by differentiable subset pruning."
    )
    train_weights: bool = Field(
        False, description="Train the model's weights together with the gates (default: no)."
    )
    steps: int = Field(
        150, ge=1, le=100_000, description="Training steps for each cost and budget (default 150)."
    )
    batch_size: int = Field(32, ge=1, le=4096, description="Texts per step (default 32).")
    learning_rate: float = Field(
        1e-4, gt=0, le=1, description="Learning rate of the weights (default 1e-4)."
    )
    gate_learning_rate: float = Field(
        0.1, gt=0, le=10, description="Learning rate of the gates (default 0.1)."
    )

    @model_validator(mode="after")
    def _something(self) -> "HeadGates":
        if not self.lambdas and not self.budgets:
            raise ValueError("Set at least one value in lambdas or in budgets")
        return self

    def in_prose(self) -> str:
        ways = []
        if self.lambdas:
            costs = ", ".join(f"{cost:g}" for cost in self.lambdas)
            ways.append(
                "hard concrete gates (Louizos et al. 2018) with a cost of an open head of "
                f"{costs} nats (Voita et al. 2019)"
            )
        if self.budgets:
            shares = ", ".join(f"{100 * share:g} %" for share in self.budgets)
            ways.append(f"differentiable subset pruning to {shares} of the heads (Li et al. 2021)")
        also = "the gates and the model's weights" if self.train_weights else "the gates alone"
        return (
            f"We trained a gate on every attention head: {'; and '.join(ways)}. We trained {also} "
            f"for {self.steps:,} steps of {self.batch_size:,} texts (learning rate of the gates "
            f"{self.gate_learning_rate:g}) on train texts. Heads with closed gates were removed, "
            f"and the smaller models scored on {self.tested()}, next to models with as many random "
            "heads."
        )


GATES_TABLES = {
    "gates": Table(
        "p_open: probability that the head's gate is open (subset pruning: soft membership). kept: "
        "the head stays. lambda: cost of an open head; 0 for a budget.",
        ("lambda", "budget", *HEAD),
    ),
    "survival": Table(
        "Heads that stay for each cost and budget, and the score of the smaller model on held-out "
        "texts. delta: value minus base (the whole model), with its 95 % interval over texts and "
        "p_value (sign flips, corrected over costs and budgets). random: mean delta of five random "
        "choices of the same number of heads. p_random: the kept heads are no better than random "
        "(t prediction interval, Holm). better: p_random < 0.05, in a model better than its "
        "trivial baseline. converged: training twice as long would keep the same heads.",
        ("lambda", "budget", "metric"),
    ),
    "learning": Table("Training loss of each step.", ("lambda", "budget", "step")),
    "baseline": BASELINE,
    "objective": OBJECTIVE,
}

HEAD_GATES = Experiment(
    name="head-gates",
    about="Which heads stay open when each open head has a cost, or when their number is fixed?",
    subject="Heads",
    settings=HeadGates,
    run="workbench.analyses.pruning.gates:run",
    exact_up_to=1e9,
    tables=GATES_TABLES,
    version=3,
    needs=(HEADS, PREDICTS),
    suits="workbench.corpora.task_gold:require_gold",
    measures=True,
    split="held-out",
    figures="workbench.analyses.pruning.figures:GATES",
    findings="workbench.analyses.pruning.findings:head_gates",
    papers=("voita-2019-heads", "louizos-2018-sparse", "li-2021-pruning"),
    title="Learned head gates of",
    demo=Demo(
        "Learned head gates with a sparsity penalty",
        models=("mini:bert",),
        settings={"max_sentences": 100, "lambdas": (0.03,), "budgets": (0.25,), "steps": 60},
        order=12,
    ),
)


# --- head-pruning ---------------------------------------------------------------------------------

By = Literal["importance", "ablation", "magnitude", "random"]
BY: tuple[By, ...] = ("importance", "ablation", "magnitude", "random")
ONCE: tuple[By, ...] = ("magnitude", "random")  # these scores do not depend on removed heads
Share = Annotated[float, Field(ge=0, le=1)]
METHOD = ("method", "rescored", "seed")


class HeadPruning(AimedSplits):
    """Which heads are removed, how many, and training before and after."""

    methods: tuple[By, ...] = Field(
        ("importance", "ablation", "magnitude", "random"),
        min_length=1,
        description="Orders of removal: gradient of the loss (importance), exact change of the "
        "loss (ablation), norm of the weights (magnitude), random.",
    )
    steps: int = Field(
        10, ge=1, le=1000, description="Number of steps from all heads to none (default 10)."
    )
    random_orders: int = Field(
        20,
        ge=1,
        le=100,
        description="Number of random orders; the other orders are tested against them (default "
        "20: with fewer than 19, no order could be significant).",
    )
    normalised: bool = Field(
        True, description="Divide importance by the L2 norm over its layer, as in the paper."
    )
    selection_texts: int = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Number of train texts on which heads are chosen (default 200).",
    )
    prune_fraction: Share = Field(
        0.3, description="Share of heads removed from the saved model (default 0.3)."
    )
    prune_by: By = Field(
        "ablation",
        description="Order of removal for the saved model, scored again after each step (default "
        "ablation).",
    )
    recovery_steps: int = Field(
        100,
        ge=0,
        le=100_000,
        description="Maximum number of fine-tuning steps after removal (default 100; 0: none).",
    )
    learning_rate: float = Field(1e-4, gt=0, le=1, description="Learning rate (default 1e-4).")
    batch_size: int = Field(32, ge=1, le=4096, description="Texts per step (default 32).")
    task: str = Field(
        "",
        description="Label of the corpus, such as sentiment. A classifier for it is trained before "
        "the pruning (default: none; the model is pruned as it is).",
    )
    max_fit_steps: int = Field(
        1000,
        ge=1,
        le=100_000,
        description="Maximum number of training steps of that classifier (default 1,000).",
    )
    max_dev: int | None = Field(
        None,
        ge=1,
        description="Maximum number of dev sentences, for early stopping (default: "
        "max_sentences, else 200).",
    )

    def in_prose(self) -> str:
        orders = {
            "importance": "by importance, the gradient of the loss at a gate on the head "
            f"({'normalised by layer' if self.normalised else 'not normalised'})",
            "ablation": "by exact ablation",
            "magnitude": "by the norm of their weights",
            "random": "at random",
        }
        ways = [
            f"in {self.random_orders:,} random order{'s' * (self.random_orders > 1)}"
            if each == "random"
            else orders[each]
            for each in self.methods
        ]
        again = "" if self.prune_by in ONCE else ", scored again after each step"
        task = (
            f"We first trained a classifier for {self.task}, for up to {self.max_fit_steps:,} "
            "steps. "
            if self.task
            else ""
        )
        recovery = (
            f" It was fine-tuned for up to {self.recovery_steps:,} steps (learning rate "
            f"{self.learning_rate:g}), as was the whole model."
            if self.recovery_steps
            else ""
        )
        return (
            f"{task}We removed attention heads in {self.steps:,} steps (Michel et al. 2019), "
            f"{'; '.join(ways)}. Orders were chosen on up to {self.selection_texts:,} train texts, "
            f"and models scored on {self.tested()}. The saved model lacks "
            f"{100 * self.prune_fraction:g} % of the heads, chosen "
            f"{orders[self.prune_by].split(',')[0]}{again}.{recovery}"
        )


FITTED = Table(
    "The classifier, trained on a share of the train texts and scored on test, next to its trivial "
    "baseline (see the table baseline). best_step: the step with the lowest dev loss, whose "
    "weights are used. best_epoch: number of passes over the texts by then. converged: the dev "
    "loss stopped falling before the maximum number of steps.",
    ("share", "metric"),
)

PRUNING_TABLES = {
    "curve": Table(
        "Score after each step, on held-out texts. seconds: one pass over them. memory: MiB of "
        "weights (on a GPU: peak).",
        (*METHOD, "heads_removed", "metric"),
    ),
    "summary": Table(
        "area: mean score over all shares of removed heads. falls_1, falls_5: share of removed "
        "heads at which 1 % and 5 % of the score are first lost (the loss has risen by 1 % and 5 "
        "%); 1 if never. p_value: the area is no better than those of random orders (t prediction "
        "interval, Holm over orders). better: p < 0.05, in a model better than its trivial "
        "baseline.",
        (*METHOD, "metric"),
    ),
    "order": Table(
        "The order in which heads are removed; heads with the same `place` are removed together.",
        (*METHOD, *HEAD),
        ("place",),
    ),
    "alone": Table(
        "Score with only the best head of one layer; all other layers are complete.",
        (*HEAD, "metric"),
    ),
    "kept": Table(
        "The whole model, the pruned model, the pruned model after fine-tuning (recovered), "
        "the whole model after the same maximum number of steps, and the smaller model as it is "
        "opened from the folder in which it was saved. delta: difference to the stage "
        "`against` on the same texts, with its 95 % interval and p_value (sign flips, corrected "
        "over stages). converged: the dev loss stopped falling before the maximum number of steps. "
        "size: MiB of weights in memory. disk: MiB of their files, of the saved model (else 0).",
        ("stage", "metric"),
    ),
    "heads": Table("Every head of the whole model, and whether it was kept.", HEAD),
    "speed": Table(
        "Seconds of a forward pass by number of texts (median of five), of the whole model and of "
        "the smaller one as it was saved. speedup: time of the whole model divided by that of the "
        "smaller one; lowest, highest: of the five. memory: MiB of weights (on a GPU: peak).",
        ("texts",),
    ),
    "learning": Table(
        "Loss of each step of training the classifier and of fine-tuning (train), and on dev.",
        ("stage", "split", "step"),
    ),
    "classifier": FITTED,
    "baseline": BASELINE,
    "objective": OBJECTIVE,
}

HEAD_PRUNING = Experiment(
    name="head-pruning",
    about="How many heads can you remove, and in which order? Saves the smaller model.",
    subject="Heads",
    settings=HeadPruning,
    run="workbench.analyses.pruning.head_pruning:run",
    exact_up_to=1e9,
    tables=PRUNING_TABLES,
    # with a task, a classifier is trained first
    needs=lambda settings: (HEADS,) if settings.task else (HEADS, PREDICTS),
    fits="workbench.analyses.pruning.head_pruning:fits",
    suits="workbench.corpora.task_gold:require_gold",
    version=3,
    measures=True,
    split="held-out",
    trains=True,
    figures="workbench.analyses.pruning.figures:PRUNING",
    findings="workbench.analyses.pruning.findings:head_pruning",
    papers=("michel-2019-heads",),
    title="Pruning the attention heads of",
    demo=Demo(
        "Head pruning: how many heads can be removed, and in which order",
        models=("mini:bert",),
        settings={
            "max_sentences": 100,
            "selection_texts": 40,
            "steps": 4,
            "random_orders": 1,
            "recovery_steps": 10,
        },
        order=11,
    ),
)
