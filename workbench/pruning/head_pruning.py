"""How many heads can go, and which first: the experiment `head-pruning`.

Curves of every way to choose (`curves`), on texts that heads were not chosen on; each layer with
one head alone; and the model that is kept. For a corpus with classes a classifier can be fitted
first (`evaluation`), on all texts and on half of them. Fine-tuning stops where the loss on dev
stops falling; where its steps run out before, tables and a caveat say so. Costs a pass a step and
method, what ordering costs, and the fine-tuning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.splits import Parts
from workbench.engine.model import Model
from workbench.models.eval_tasks import Learnt, Plan, learn
from workbench.models.head_removal import Unit, units, without
from workbench.models.huggingface import HuggingFace
from workbench.pruning import curves
from workbench.pruning.ablation import ablated
from workbench.pruning.curves import Method, methods, order_of
from workbench.pruning.evaluation import (
    METRICS,
    Asking,
    Fitted,
    asked_of,
    asking_of,
    baseline,
    better,
    caveats,
    cut_off,
    fitted,
    not_better,
)
from workbench.pruning.experiments import ONCE, HeadPruning
from workbench.pruning.head_masks import Head


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
        plan = Plan(steps, self.settings.learning_rate, self.settings.batch_size, seed)
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
    enough = settings.batch_size * max(
        settings.recovery_steps, settings.max_fit_steps if settings.task else 0
    )
    parts = settings.parts(inputs, max(settings.selection_texts, enough), settings.max_dev)
    model: Model = inputs.model
    tune = _Tuning(inputs, settings, parts, settings.task, progress)
    classifier: Fitted | None = None
    if settings.task:
        classifier = fitted(
            inputs, parts, settings.task, settings.max_fit_steps, settings.batch_size, tune
        )
        model = classifier.model
    seed, name = inputs.seed, inputs.corpus.name
    choosing = asking_of(model, parts.train[: settings.selection_texts], settings.label, seed, name)
    measuring = asking_of(model, parts.test, choosing.aim.label, seed, name)
    tune.label = choosing.aim.label
    whole, all_ = choosing.model, units(choosing.model)
    steps = curves.fractions(settings.steps, len(all_))
    chosen = methods(settings.methods, settings.random_orders)
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
    stages.append(curves.stage("pruned", small, measuring.scored(small), "whole"))
    if settings.recovery_steps and gone:
        learnt = tune("recovered", small, settings.recovery_steps)
        pruned = curves.stage("recovered", small, measuring.scored(small), "whole, tuned", learnt)
        longer = whole.copy()
        learnt = tune("whole, tuned", longer, settings.recovery_steps)
        tuned = curves.stage("whole, tuned", longer, measuring.scored(longer), "whole", learnt)
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
    wanted = round(settings.prune_fraction * len(all_))
    if not wanted:
        return []
    method = Method(settings.prune_by, settings.prune_by not in ONCE)
    steps = curves.fractions(settings.steps, wanted)
    order = order_of(choosing, all_, method, steps, settings.normalised, told)
    return [head for unit in order[:wanted] for head in all_[unit].heads]
