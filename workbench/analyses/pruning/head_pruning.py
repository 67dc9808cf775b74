"""How many heads can be removed, and in which order: the experiment `head-pruning`.

Pruning curves of every order (`curves`), on texts other than those for choosing heads; each layer
with one head; and a smaller model, which is saved. For a corpus with classes a classifier can be
trained first (`evaluation`), on all texts and on half of them. Fine-tuning stops early on the dev
loss; if it reaches its maximum number of steps first, tables and a caveat say so. Costs: a forward
pass for each step and method, the ordering of heads, and the fine-tuning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from workbench.analyses.pruning import curves
from workbench.analyses.pruning.ablation import ablated
from workbench.analyses.pruning.curves import Method, methods, order_of
from workbench.analyses.pruning.evaluation import (
    Evaluation,
    TrainedClassifier,
    baseline,
    better,
    build_evaluation,
    build_head_evaluation,
    caveats,
    cut_off_caveat,
    not_better_caveat,
    train_classifier,
)
from workbench.analyses.pruning.experiments import ONCE, HeadPruning
from workbench.analyses.pruning.head_masks import Head
from workbench.core.errors import require_one_of
from workbench.corpora.splits import Parts
from workbench.corpora.tasks import learnable_labels, repeated_texts_caveat
from workbench.engine.model import Model
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.head_removal import Unit, units, without
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import Learnt, Plan, learn

if TYPE_CHECKING:
    from workbench.corpora import Corpus


@dataclass(eq=False)
class _Tuning:
    """Fine-tunes models on the train texts, and keeps the losses of each."""

    inputs: Inputs
    settings: HeadPruning
    parts: Parts
    label: str
    progress: Progress
    learnt: dict[str, Learnt] = field(default_factory=dict)

    def __call__(self, stage: str, model: HuggingFace, steps: int, share: float = 1.0) -> Learnt:
        """Fine-tune a model in place, on a share of the train texts."""
        train = self.parts.train[: max(1, round(share * len(self.parts.train)))]
        seed, name = self.inputs.seed, self.inputs.corpus.name
        learning, dev = (
            build_evaluation(model, docs, self.label, seed, name)
            for docs in (train, self.parts.dev)
        )
        plan = Plan(steps, self.settings.learning_rate, self.settings.batch_size, seed)
        self.learnt[stage] = learn(
            model, learning.aim, learning.batch, range(len(learning.batch)), plan,
            dev=dev.questions,
            on_progress=lambda step, loss: self.progress(
                step, steps, f"training: {stage}, loss {loss:.3f}"
            ),
        )  # fmt: skip
        return self.learnt[stage]

    def table(self) -> pd.DataFrame:
        """One row per training step, and one per evaluation on dev."""
        rows = [
            (stage, split, step, loss)
            for stage, learnt in self.learnt.items()
            for split, losses in (("train", dict(enumerate(learnt.losses, 1))), ("dev", learnt.dev))
            for step, loss in losses.items()
        ]
        return pd.DataFrame(rows, columns=["stage", "split", "step", "loss"])


def fits(corpus: "Corpus", settings: HeadPruning) -> None:
    """Raise an error if a classifier is to be trained for a label that the corpus lacks."""
    if settings.task:
        require_one_of(
            settings.task,
            learnable_labels(corpus),
            f"the corpus has no label {settings.task!r} to learn.",
            code="label-missing",
            where=corpus.name,
        )


def run(inputs: Inputs, settings: HeadPruning, progress: Progress) -> Result:
    """Compute the tables of `head-pruning`, and save the smaller model."""
    n_train = settings.batch_size * max(
        settings.recovery_steps, settings.max_fit_steps if settings.task else 0
    )
    parts = settings.parts(inputs, max(settings.selection_texts, n_train), settings.max_dev)
    model: Model = inputs.model
    tune = _Tuning(inputs, settings, parts, settings.task, progress)
    classifier: TrainedClassifier | None = None
    if settings.task:
        classifier = train_classifier(
            inputs, parts, settings.task, settings.max_fit_steps, settings.batch_size, tune
        )
        model = classifier.model
    seed, name = inputs.seed, inputs.corpus.name
    train = parts.train[: settings.selection_texts]
    selection = build_head_evaluation(model, train, settings.label, seed, name)
    held_out = build_head_evaluation(model, parts.test, selection.aim.task.label, seed, name)
    tune.label = selection.aim.task.label
    whole, all_ = selection.model, units(selection.model)
    steps = curves.removal_steps(settings.steps, len(all_))
    orders = methods(settings.methods, settings.random_orders)
    ruler = curves.Ruler(held_out)
    drawn: list[curves.Curve] = []

    def on_progress(text: str) -> None:
        progress(len(drawn), len(orders) + 2, text)

    drawn.extend(
        curves.curve(selection, ruler, method, steps, settings.normalised, on_progress)
        for method in orders
    )
    on_progress("measuring curves: each layer with one head")
    alone = curves.alone(ruler, all_, _losses_without(selection, all_))
    removed = _heads_to_remove(selection, settings, all_, on_progress)
    small = without(whole, removed)
    base = ruler.measured([]).texts
    stages = [curves.stage("whole", whole, base)]
    stages.append(curves.stage("pruned", small, held_out.scored(small), "whole"))
    if settings.recovery_steps and removed:
        learnt = tune("recovered", small, settings.recovery_steps)
        pruned = curves.stage("recovered", small, held_out.scored(small), "whole, tuned", learnt)
        longer = whole.copy()
        learnt = tune("whole, tuned", longer, settings.recovery_steps)
        tuned = curves.stage("whole, tuned", longer, held_out.scored(longer), "whole", learnt)
        stages += [pruned, tuned]
    if inputs.keep is not None:
        small, disk = curves.saved(small, inputs.keep)
        texts = held_out.scored(small)
        stages.append(curves.stage("saved", small, texts, "whole", disk=disk))
        progress.log(f"Saved the smaller model: {disk:.2f} MiB on disk.")
    trivial = baseline(held_out, base, seed)
    is_better = {metric: better(trivial, metric) for metric in base.metrics}
    tables = {
        "curve": curves.rows(drawn, seed),
        "summary": curves.summary(drawn, is_better),
        "order": curves.orders(drawn, whole),
        "alone": alone,
        "kept": curves.kept(stages, seed),
        "heads": curves.heads(whole, removed),
        "speed": curves.speed(held_out, whole, small),
        "baseline": trivial,
        "objective": objective_table(held_out.aim.task),
    }
    notes: list[Caveat] = [
        *caveats(held_out, len(parts.test), parts.notes),
        *not_better_caveat(trivial),
    ]
    if not held_out.aim.task.is_language_model:
        repeated = repeated_texts_caveat(inputs.corpus, parts)
        notes += [Caveat(text) for text in repeated if text not in parts.notes]
    if tune.learnt:
        tables["learning"] = tune.table()
        notes += cut_off_caveat(tune.learnt)
    if classifier is not None:
        tables["classifier"] = classifier.table
        notes += classifier.caveats
    return Result(tables, caveats=tuple(notes))


def _losses_without(selection: Evaluation, all_: Sequence[Unit]) -> list[float]:
    """The loss without each unit alone."""
    sets = [unit.heads for unit in all_]
    result = ablated(selection.model, selection.aim, selection.questions, sets)
    return [float(value) for value in result.values("loss")]


def _heads_to_remove(
    selection: Evaluation,
    settings: HeadPruning,
    all_: Sequence[Unit],
    on_progress: Callable[[str], object],
) -> list[Head]:
    """The heads that the saved model lacks."""
    n_removed = round(settings.prune_fraction * len(all_))
    if not n_removed:
        return []
    method = Method(settings.prune_by, settings.prune_by not in ONCE)
    steps = curves.removal_steps(settings.steps, n_removed)
    order = order_of(selection, all_, method, steps, settings.normalised, on_progress)
    return [head for unit in order[:n_removed] for head in all_[unit].heads]
