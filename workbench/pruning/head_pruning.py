"""How many heads can go, and which first: the experiment `head-pruning`.

Curves of every way to choose (`curves`, `orders`), on texts that heads were not chosen on; each
layer with one head alone; and the model that is kept (`smaller`). For a corpus with classes a
classifier can be fitted first (`fitted`), on all texts and on half of them. Fine-tuning stops where
the loss on dev stops falling; where its steps run out before, tables and a caveat say so. Costs a
pass a step and method, what ordering costs, and the fine-tuning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import pandas as pd
from pydantic import Field

from workbench.core.experiment import HEADS, Caveat, Experiment, Inputs, Progress, Result, Table
from workbench.core.splits import Parts
from workbench.engine.model import Model
from workbench.models.eval_tasks import Learnt, Plan, learn
from workbench.models.head_removal import Unit, units, without
from workbench.models.huggingface import HuggingFace
from workbench.pruning import curves
from workbench.pruning.ablation import ablated
from workbench.pruning.curves import ONCE, By, Method, methods, order_of
from workbench.pruning.evaluation import (
    BASELINE,
    FITTED,
    METRICS,
    AimedSplits,
    Asking,
    Fitted,
    Texts,
    asked,
    asked_of,
    asking_of,
    baseline,
    better,
    caveats,
    cut_off,
    fitted,
    not_better,
)
from workbench.pruning.head_masks import HEAD, Head

METHOD = ("method", "rescored", "seed")
Share = Annotated[float, Field(ge=0, le=1)]


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
        description="Maximum number of sentences for early stopping (default: limit, else 200).",
    )


TABLES = {
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


@dataclass(eq=False)
class _Tuning:
    """Fine-tunes models on one set of texts, and keeps how each went."""

    inputs: Inputs
    settings: HeadPruning
    parts: Parts
    label: str
    progress: Progress
    learnt: dict[str, Learnt] = field(default_factory=dict)

    def __call__(self, stage: str, model: HuggingFace, steps: int, share: float = 1.0) -> Learnt:
        """Fine-tune a model in place by what it is measured by, on a share of the train texts."""
        train = self.parts.train[: max(1, round(share * len(self.parts.train)))]
        seed, name = self.inputs.seed, self.inputs.corpus.name
        own, dev = (
            asked_of(model, docs, self.label, seed, name) for docs in (train, self.parts.dev)
        )
        plan = Plan(steps, self.settings.rate, self.settings.texts, seed)
        self.learnt[stage] = learn(
            model, own.aim, own.batch, range(len(own.batch)), plan, dev=dev.questions,
            told=lambda step, loss: self.progress(step, steps, f"{stage}, loss {loss:.3f}"),
        )  # fmt: skip
        return self.learnt[stage]

    def table(self) -> pd.DataFrame:
        """A row a step, and a row a check on dev."""
        rows = [
            (stage, split, step, loss)
            for stage, found in self.learnt.items()
            for split, losses in (("train", dict(enumerate(found.losses, 1))), ("dev", found.dev))
            for step, loss in losses.items()
        ]
        return pd.DataFrame(rows, columns=["stage", "split", "step", "loss"])


def run(inputs: Inputs, settings: HeadPruning, progress: Progress) -> Result:
    """Draw the curves, then make the model that is kept."""
    enough = settings.texts * max(settings.recover, settings.fit if settings.task else 0)
    parts = settings.parts(inputs, max(settings.choosing, enough), settings.max_dev)
    model: Model = inputs.model
    tune = _Tuning(inputs, settings, parts, settings.task, progress)
    classifier: Fitted | None = None
    if settings.task:
        classifier = fitted(inputs, parts, settings.task, settings.fit, settings.texts, tune)
        model = classifier.model
    seed, name = inputs.seed, inputs.corpus.name
    choosing = asking_of(model, parts.train[: settings.choosing], settings.label, seed, name)
    measuring = asking_of(model, parts.test, choosing.aim.label, seed, name)
    tune.label = choosing.aim.label
    whole, all_ = choosing.model, units(choosing.model)
    steps = curves.fractions(settings.steps, len(all_))
    chosen = methods(settings.methods, settings.seeds)
    ruler = curves.Ruler(measuring)
    found: list[curves.Curve] = []

    def told(text: str) -> None:
        progress(len(found), len(chosen) + 2, text)

    for method in chosen:
        found.append(curves.curve(choosing, ruler, method, steps, settings.normalised, told))
    told("each layer with one head alone")
    alone = curves.alone(ruler, all_, _lost(choosing, all_))
    gone = _gone(choosing, settings, all_, told)
    small = without(whole, gone)
    base = ruler.measured([]).texts
    stages = [curves.stage("whole", whole, base)]
    stages.append(curves.stage("pruned", small, _texts(measuring, small), "whole"))
    if settings.recover and gone:
        learnt = tune("recovered", small, settings.recover)
        pruned = curves.stage("recovered", small, _texts(measuring, small), "whole, tuned", learnt)
        longer = whole.copy()
        learnt = tune("whole, tuned", longer, settings.recover)
        tuned = curves.stage("whole, tuned", longer, _texts(measuring, longer), "whole", learnt)
        stages += [pruned, tuned]
    size = curves.saved(small, inputs.keep)
    progress.log(f"the smaller model takes {size:.2f} MiB on disk")
    beside = baseline(measuring, base, seed)
    known = {metric: better(beside, metric) for metric in METRICS}
    tables = {
        "curve": curves.rows(found, seed),
        "summary": curves.summary(found, known),
        "order": curves.orders(found, whole),
        "alone": alone,
        "kept": curves.kept(stages, seed),
        "heads": curves.heads(whole, gone),
        "speed": curves.speed(measuring, whole, small),
        "baseline": beside,
    }
    notes: list[Caveat] = [*caveats(measuring, len(parts.test), parts.notes), *not_better(beside)]
    if tune.learnt:
        tables["learning"] = tune.table()
        notes += cut_off(tune.learnt)
    if classifier is not None:
        tables["classifier"] = classifier.table
        notes += classifier.caveats
    return Result(tables, caveats=tuple(notes))


def _texts(measuring: Asking, model: HuggingFace) -> Texts:
    return asked(model, measuring.aim, measuring.questions)


def _lost(choosing: Asking, all_: Sequence[Unit]) -> list[float]:
    """The loss without each unit by itself."""
    sets = [unit.heads for unit in all_]
    found = ablated(choosing.model, choosing.aim, choosing.questions, sets)
    return [float(value) for value in found.values("loss")]


def _gone(
    choosing: Asking,
    settings: HeadPruning,
    all_: Sequence[Unit],
    told: Callable[[str], object],
) -> list[Head]:
    """The heads that go from the model that is kept."""
    wanted = round(settings.prune * len(all_))
    if not wanted:
        return []
    method = Method(settings.by, settings.by not in ONCE)
    steps = curves.fractions(settings.steps, wanted)
    order = order_of(choosing, all_, method, steps, settings.normalised, told)
    return [head for unit in order[:wanted] for head in all_[unit].heads]


EXPERIMENT = Experiment(
    name="head-pruning",
    about="How many heads can go, and which first: curves of every way to choose, and the smaller "
    "model, which the run keeps.",
    settings=HeadPruning,
    run=run,
    exact_up_to=1e9,
    tables=TABLES,
    needs=(HEADS,),
    version=2,
    split="held-out",
    trains=True,
    figures="workbench.figures.pruning:PRUNING",
)
