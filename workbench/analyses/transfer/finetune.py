"""The experiment `finetune`: one model adapted to one task with one method.

The learning rate (for a plain head over a frozen model, the ridge strength) is chosen on dev. Every
seed is scored on texts that were not used for training, next to the majority baseline. The model
of the seed with the best dev score is saved with its head. Costs: one fine-tuning per learning rate
and per further seed; a plain head over a frozen model takes one pass of the model and seconds.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from workbench.analyses.transfer.experiments import FROZEN, Finetune, HeadKind
from workbench.analyses.transfer.text_to_text import Writer
from workbench.analyses.transfer.trainer import Adapter, Trial, checkpoints, trials
from workbench.core.arrays import Floats
from workbench.core.files import folder_or_temporary
from workbench.core.findings import of_all
from workbench.core.metrics import Metric
from workbench.core.stats import interval, resampled
from workbench.corpora.tasks import (
    as_text,
    corpus_of,
    majority,
    metrics_of,
    split_of,
    task_of,
    tasks_of,
)
from workbench.engine.model import Model, UnsupportedError
from workbench.engine.task import Task
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.formats import peft_adapter
from workbench.models.formats.task_checkpoint import save_task
from workbench.models.huggingface import require_transformer
from workbench.models.output_heads.standard_heads import finish, lacks_standard_head
from workbench.models.output_heads.task_heads import StandardHead
from workbench.models.references import known_elsewhere

if TYPE_CHECKING:
    from workbench.corpora import Corpus


def fits(corpus: "Corpus", settings: Finetune) -> None:
    """Raise an error if the corpus does not have the task."""
    _task(corpus, settings)


def run(inputs: Inputs, settings: Finetune, progress: Progress) -> Result:
    """Adapt the model, score it and save it."""
    with folder_or_temporary(inputs.scratch) as home:
        adapter, caveats = adapter_of(inputs, settings, home)
        if checkpoints(home):
            progress.log("Going on after the last epoch before the interruption.")
        progress(0, 100, "reading the corpus")
        attempts, chosen, notes = trials(
            adapter, lambda fraction, activity: progress(int(100 * fraction), 100, activity)
        )
        caveats += notes
        for trial in attempts:
            caveats += _save_model(inputs, settings, trial)
            trial.forget()
        tables, counts = _tables(adapter, attempts, chosen)
        tables["means"] = _means(adapter, chosen, counts, inputs.seed)
        caveats += _not_learned(adapter, tables["scores"])
    return Result(tables, {"counts": counts}, tuple(Caveat(text) for text in caveats))


def adapter_of(inputs: Inputs, settings: Finetune, home: Path) -> tuple[Adapter, list[str]]:
    """The model, task and settings of the run, and caveats."""
    corpus, task = _task(inputs.corpus, settings)
    split = split_of(
        corpus,
        task,
        inputs.split,
        inputs.seed,
        settings.split_sizes,
    )
    head = head_kind(inputs.model, task, settings)
    adapter = Adapter(inputs.model, split, settings.method, head, settings, home)
    caveats = list(split.notes)
    if not settings.task and len(several := tasks_of(inputs.corpus)) > 1:
        caveats.append(
            f"{inputs.corpus.name} has several tasks: {', '.join(several)}. The first was used; "
            "set task to choose another."
        )
    parts = (split.train, split.dev, split.test)
    if cut := sum(len({row for row, *_ in inputs.model.encode(p.batch).cut}) for p in parts):
        caveats.append(
            f"{cut} texts are longer than the maximum of {inputs.model.name} "
            f"({inputs.model.max_pieces} pieces); their ends were cut off."
        )
    if len(settings.seeds) < 3:
        caveats.append("Fewer than three seeds: the variation between seeds is not known.")
    return adapter, caveats


def head_kind(model: Model, task: Task, settings: Finetune) -> HeadKind:
    """The kind of task head; by default the standard one, if the model itself learns and has it."""
    if settings.head != "auto":
        return settings.head
    has_standard = settings.method != FROZEN and not lacks_standard_head(model, task)
    return "standard" if has_standard else "plain"


def _task(corpus: "Corpus", settings: Finetune) -> "tuple[Corpus, Task]":
    task_corpus, name = corpus_of(corpus, settings.task)
    return task_corpus, task_of(task_corpus, name, settings.metric)


def _save_model(inputs: Inputs, settings: Finetune, trial: Trial) -> list[str]:
    if not settings.save_model or inputs.keep is None or trial.weights is None:
        return []
    fitting, head = trial.weights
    model: Model = fitting.body.model
    model.task_head = head.head if isinstance(head, Writer) else head
    if isinstance(head, StandardHead):
        finish(model)
    if model.task_head is not None:
        model.task_head.method = settings.method
    try:
        if settings.method == "lora":
            _save_lora(inputs, settings, model, inputs.keep)
        else:
            model.save(inputs.keep)
    except UnsupportedError as error:  # the run still reports its scores
        return [f"No model was saved: {error.what}"]
    return []


def _save_lora(inputs: Inputs, settings: Finetune, model: Model, folder: Path) -> None:
    """Save a model with its updates merged, its adapter, or both."""
    net, original = (require_transformer(m, "has no LoRA", "") for m in (model, inputs.model))
    has_adapter = isinstance(model.task_head, StandardHead)
    if has_adapter:
        base = known_elsewhere(inputs.folders[0] if inputs.folders else None, inputs.model.name)
        own = folder / "adapter" if settings.merge else folder
        peft_adapter.save(net, original, own, base)
    peft_adapter.merge(net)
    if settings.merge or not has_adapter:
        model.save(folder)
    else:
        net.tokenizer.save_pretrained(folder)
        save_task(model, folder)


def _not_learned(adapter: Adapter, scores: pd.DataFrame) -> list[str]:
    """The caveat for seeds that score no better than a constant prediction."""
    metric, scored_split = adapter.split.task.metric, adapter.split.scored
    deciding = scores[(scores["metric"] == metric) & (scores["split"] == scored_split)]
    failed = deciding[~deciding["learned"]]
    if failed.empty:
        return []
    return [
        f"Did not learn: {metric} on {scored_split} is {failed['value'].mean():.3f} for "
        f"{of_all(len(failed), len(deciding), 'seed')}, no better than the majority baseline "
        f"({deciding['baseline'].iloc[0]:.3f}). "
        "Such a score says nothing about the model."
    ]


def _tables(
    adapter: Adapter, attempts: list[Trial], chosen: list[Trial]
) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    task, test = adapter.split.task, adapter.split.test
    key = {
        "task": task.name, "model": adapter.model.name, "method": adapter.method,
        "head": adapter.head,
    }  # fmt: skip
    scores, rates, learning, epochs, predictions, counts = [], [], [], [], [], []
    first = attempts[0].seed
    test_constant = metrics_of(task, test, majority(task, adapter.split.train, test))
    dev = adapter.split.dev
    dev_constant = metrics_of(task, dev, majority(task, adapter.split.train, dev))[task.metric]
    for trial in attempts:
        attempt_key = {
            **key, "seed": trial.seed, "learning_rate": trial.learning_rate, "ridge": trial.ridge,
        }  # fmt: skip
        costs = {
            "trainable": trial.trainable, "peak_memory": trial.memory,
            "seconds": trial.seconds, "size": trial.size,
        }  # fmt: skip
        decided = {"metric": task.metric, "value": task.sign * trial.outcome.score}
        if trial.seed == first:
            rates.append(
                {**key, "learning_rate": trial.learning_rate, "ridge": trial.ridge, **decided}
            )
        if (
            trial.learning_rate or trial.seed == first
        ):  # the optimum of a linear head is the same for every seed
            learning += [
                {**attempt_key, "step": n, "loss": v} for n, v in enumerate(trial.outcome.losses)
            ]
            epoch_numbers = (
                range(1, len(trial.outcome.dev) + 1)
                if trial.learning_rate
                else [trial.outcome.epoch]
            )
            epochs += [
                {**attempt_key, "epoch": n, "metric": task.metric, "value": task.sign * v,
                 "converged": trial.outcome.converged}
                for n, v in zip(epoch_numbers, trial.outcome.dev, strict=True)
            ]  # fmt: skip
        if not any(trial is each for each in chosen):
            continue
        metrics = metrics_of(task, test, trial.guesses)
        counts.append(metrics[task.metric].counts)
        value, baseline = metrics[task.metric].value(), _value_or_zero(test_constant[task.metric])
        verdicts = {
            "learned": bool(task.sign * value > task.sign * baseline),
            "converged": trial.outcome.converged,
        }
        on_dev = {
            "split": adapter.split.chosen_by,
            **decided,
            "baseline": _value_or_zero(dev_constant),
        }
        scores.append({**attempt_key, **on_dev, **verdicts, **costs})
        scores += [
            {**attempt_key, "split": adapter.split.scored, "metric": name, "value": metric.value(),
             "baseline": _value_or_zero(test_constant[name]), **verdicts, **costs}
            for name, metric in metrics.items()
        ]  # fmt: skip
        predictions += [
            {
                **key, "seed": trial.seed, "text": index, "gold": as_text(task, test, index, gold),
                "guess": as_text(task, test, index, guess),
                "said": test.batch.text_of(index),
            }
            for index, (gold, guess) in enumerate(zip(test.gold, trial.guesses, strict=True))
        ]  # fmt: skip
    tables = {
        "scores": pd.DataFrame(scores),
        "rates": pd.DataFrame(rates),
        "learning": pd.DataFrame(learning),
        "epochs": pd.DataFrame(epochs, columns=[*key, "seed", "learning_rate", "ridge", "epoch",
                                                "metric", "value", "converged"]),
        "predictions": pd.DataFrame(predictions),
    }  # fmt: skip
    return tables, np.stack(counts)  # [seeds, texts, numbers]


def _means(
    adapter: Adapter, chosen: list[Trial], counts: Floats, seed: int
) -> pd.DataFrame:  # counts: [seeds, texts, numbers]
    """The table `means`: the deciding metric over seeds, next to a constant prediction."""
    task, test = adapter.split.task, adapter.split.test
    constant = metrics_of(task, test, majority(task, adapter.split.train, test))[task.metric]
    draws = resampled(counts[None], constant.measure, seed)[0]  # [draws]
    lower, upper = interval(draws)
    constant_draws = np.nan_to_num(  # a constant correlates with 0
        resampled(np.broadcast_to(constant.counts, (1, *counts.shape)), constant.measure, seed)[0]
    )
    low, _ = interval(task.sign * (draws - constant_draws))
    row = {
        "task": task.name, "model": adapter.model.name, "method": adapter.method,
        "head": adapter.head, "metric": task.metric,
        "value": float(constant.measure(counts.sum(1)).mean()), "lower": float(lower),
        "upper": float(upper), "baseline": _value_or_zero(constant), "learned": bool(low > 0),
        "converged": all(trial.outcome.converged for trial in chosen),
    }  # fmt: skip
    return pd.DataFrame([row])


def _value_or_zero(metric: Metric) -> float:
    """The value of a metric; 0 if undefined, as for the correlation of a constant."""
    value = metric.value()
    return 0.0 if np.isnan(value) else value
