"""One model adapted to one task by one method: the experiment `finetune`.

The learning rate (of a plain head over a frozen model the ridge strength) is chosen on dev, and
every seed is scored on texts that nothing was trained on, next to the majority baseline. The model
of the seed that dev scored best is kept, with its head. Costs a fine-tuning for each rate tried and
each further seed; a frozen model under a plain head one pass of the model and seconds.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.files import folder_or_temporary
from workbench.engine.model import LackingError, Model
from workbench.transfer import checkpoints
from workbench.transfer.adaptation import merged
from workbench.transfer.experiments import Finetune
from workbench.transfer.metrics import Metric
from workbench.transfer.task_heads import Head
from workbench.transfer.tasks import (
    Task,
    corpus_of,
    majority,
    metrics_of,
    split_of,
    task_of,
    tasks_of,
    told,
)
from workbench.transfer.trainer import Adapter, Trial, trials

if TYPE_CHECKING:
    from workbench.corpora import Corpus

PUT_IN = ("adapters", "prefix", "prompt")  # what no other program's model has


def fits(corpus: "Corpus", settings: Finetune) -> None:
    """Raise where the corpus has no such task."""
    _task(corpus, settings)


def run(inputs: Inputs, settings: Finetune, progress: Progress) -> Result:
    """Learn, score and keep."""
    with folder_or_temporary(inputs.scratch) as home:
        adapter, caveats = adapter_of(inputs, settings, home)
        progress(0, 100, "reading")
        found, chosen, notes = trials(
            adapter, lambda share, what: progress(int(100 * share), 100, what)
        )
        caveats += notes
        for trial in found:
            caveats += _keep(inputs, settings, trial)
            trial.forget()
        tables, counts = _tables(adapter, found, chosen)
        caveats += _not_learned(adapter, tables["scores"])
    return Result(tables, {"counts": counts}, tuple(Caveat(text) for text in caveats))


def adapter_of(inputs: Inputs, settings: Finetune, home: Path) -> tuple[Adapter, list[str]]:
    """What is adapted to what, and what to know of it."""
    corpus, task = _task(inputs.corpus, settings)
    split = split_of(
        corpus,
        task,
        inputs.split,
        inputs.seed,
        settings.split_sizes,
    )
    adapter = Adapter(inputs.model, split, settings.method, settings.head, settings, home)
    caveats = list(split.notes)
    if not settings.task and len(several := tasks_of(inputs.corpus)) > 1:
        caveats.append(
            f"{inputs.corpus.name} has several tasks: {', '.join(several)}. The first was learnt; "
            "name another with task."
        )
    parts = (split.train, split.dev, split.test)
    if cut := sum(len({row for row, *_ in inputs.model.encode(p.batch).cut}) for p in parts):
        caveats.append(
            f"{cut} texts are longer than the {inputs.model.max_pieces} pieces that "
            f"{inputs.model.name} reads: their ends were not seen."
        )
    if len(settings.seeds) < 3:
        caveats.append("Fewer than three seeds: how much they differ is not known.")
    return adapter, caveats


def _task(corpus: "Corpus", settings: Finetune) -> "tuple[Corpus, Task]":
    own, name = corpus_of(corpus, settings.task)
    return own, task_of(own, name, settings.metric)


def _keep(inputs: Inputs, settings: Finetune, trial: Trial) -> list[str]:
    if not settings.keep or inputs.keep is None or trial.weights is None:
        return []
    if settings.method in PUT_IN:
        return [f"No model is kept: what {settings.method} put in is no part of the model itself."]
    made, head = trial.weights
    model: Model = made.body.model
    if settings.method == "lora":
        merged(model)
    try:
        if isinstance(head, Head):
            checkpoints.save(model, head, inputs.keep, settings.method)
        else:  # it answers with a head of its own
            model.save(inputs.keep)
    except LackingError as lack:  # what was learnt of it is told all the same
        return [f"No model is kept: {lack.what}"]
    return []


def _not_learned(adapter: Adapter, scores: pd.DataFrame) -> list[str]:
    """What to know of heads that score no better than a constant prediction."""
    metric, scored = adapter.split.task.metric, adapter.split.scored
    own = scores[(scores["metric"] == metric) & (scores["split"] == scored)]
    failed = own[~own["learned"]]
    if failed.empty:
        return []
    return [
        f"Did not learn: {metric} on {scored} is {failed['value'].mean():.3f} for {len(failed)} of "
        f"{len(own)} seeds, no better than the majority baseline ({own['baseline'].iloc[0]:.3f}). "
        "Such a score tells nothing about the model."
    ]


def _tables(
    adapter: Adapter, found: list[Trial], chosen: list[Trial]
) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    task, test = adapter.split.task, adapter.split.test
    key = {
        "task": task.name, "model": adapter.model.name, "method": adapter.method,
        "head": adapter.head,
    }  # fmt: skip
    scores, rates, learning, epochs, thought, counts = [], [], [], [], [], []
    first = found[0].seed
    constant = metrics_of(task, test, majority(task, adapter.split.train, test))
    dev = adapter.split.dev
    of_dev = metrics_of(task, dev, majority(task, adapter.split.train, dev))[task.metric]
    for trial in found:
        own = {
            **key, "seed": trial.seed, "learning_rate": trial.rate, "ridge": trial.ridge,
        }  # fmt: skip
        cost = {
            "trainable": trial.trainable, "peak_memory": trial.memory,
            "seconds": trial.seconds, "size": trial.size,
        }  # fmt: skip
        decided = {"metric": task.metric, "value": task.sign * trial.learnt.score}
        if trial.seed == first:
            rates.append({**key, "learning_rate": trial.rate, "ridge": trial.ridge, **decided})
        if trial.rate or trial.seed == first:  # an optimum is the same for every seed
            learning += [{**own, "step": n, "loss": v} for n, v in enumerate(trial.learnt.losses)]
            numbers = range(1, len(trial.learnt.dev) + 1) if trial.rate else [trial.learnt.epoch]
            epochs += [
                {**own, "epoch": n, "metric": task.metric, "value": task.sign * v,
                 "converged": trial.learnt.converged}
                for n, v in zip(numbers, trial.learnt.dev, strict=True)
            ]  # fmt: skip
        if not any(trial is each for each in chosen):
            continue
        metrics = metrics_of(task, test, trial.guesses)
        counts.append(metrics[task.metric].counts)
        value, baseline = metrics[task.metric].value(), _number(constant[task.metric])
        ended = {
            "learned": bool(task.sign * value > task.sign * baseline),
            "converged": trial.learnt.converged,
        }
        on_dev = {"split": adapter.split.chosen_by, **decided, "baseline": _number(of_dev)}
        scores.append({**own, **on_dev, **ended, **cost})
        scores += [
            {**own, "split": adapter.split.scored, "metric": name, "value": metric.value(),
             "baseline": _number(constant[name]), **ended, **cost}
            for name, metric in metrics.items()
        ]  # fmt: skip
        thought += [
            {
                **key, "seed": trial.seed, "text": place, "gold": told(task, test, place, gold),
                "guess": told(task, test, place, guess),
                "said": test.batch.text_of(place),
            }
            for place, (gold, guess) in enumerate(zip(test.gold, trial.guesses, strict=True))
        ]  # fmt: skip
    tables = {
        "scores": pd.DataFrame(scores),
        "rates": pd.DataFrame(rates),
        "learning": pd.DataFrame(learning),
        "epochs": pd.DataFrame(epochs, columns=[*key, "seed", "learning_rate", "ridge", "epoch",
                                                "metric", "value", "converged"]),
        "predictions": pd.DataFrame(thought),
    }  # fmt: skip
    return tables, np.stack(counts)  # [seeds, texts, numbers]


def _number(metric: Metric) -> float:
    """Its value; 0 where it has none, such as the correlation of a constant."""
    value = metric.value()
    return 0.0 if np.isnan(value) else value
