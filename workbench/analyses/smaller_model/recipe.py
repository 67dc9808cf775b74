"""The experiment `smaller-model`: the smallest model that keeps a share of the score of one task.

First a model for the task: the given one, or a run of `finetune`. Then one stage for each method of
`compress`: every amount is tried on dev, the smallest model on disk that keeps enough is chosen,
and those that were cut too far are trained again, the largest first, until one does not keep
enough. Test texts choose nothing: they score the original and the last model that was chosen.
A stage that is done is not repeated after an interruption. Costs: the fine-tuning; a pass over dev
for each model that is tried; a training of a few epochs for each that is trained again.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.analyses.compression import compress, cost
from workbench.analyses.compression.experiments import Compress
from workbench.analyses.compression.lost import FEWEST, lost
from workbench.analyses.compression.scores import text_items
from workbench.analyses.pruning.evaluation import Evaluation, TextScores
from workbench.analyses.smaller_model.experiments import ORIGINAL, SMALLER, SmallerModel
from workbench.analyses.smaller_model.opening import opened
from workbench.analyses.transfer.adaptation import (
    Fitting,
    Group,
    default_learning_rates,
)
from workbench.analyses.transfer.backbone import Body, body_of
from workbench.analyses.transfer.features import Live
from workbench.analyses.transfer.trainer import Plan, guessed, own_weights, train_head
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.files import folder_or_temporary, read_json, write_atomically
from workbench.core.findings import listing, percent
from workbench.core.metrics import spelt
from workbench.core.stats import interval_around, resampled
from workbench.corpora.encode import encode
from workbench.corpora.splits import Parts
from workbench.corpora.task_gold import task_on
from workbench.corpora.tasks import (
    Examples,
    Split,
    corpus_of,
    labelled_parts,
    majority,
    metrics_of,
    split_of,
    task_of,
)
from workbench.engine.batch import Batch
from workbench.engine.task import Task
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.fine_tuning import Checkpoint
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.loading import load
from workbench.models.output_heads.task_heads import StandardHead
from workbench.models.scoring.eval_tasks import EvalTask
from workbench.runs.model_card import is_plain, size_on_disk

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus

FINE_TUNED: Any = "fine-tuned"
BATCH, PATIENCE = 16, 3  # of a model that is trained again
SHOWN_TO = 1000  # train texts that show what is used least
UNBALANCED = 1.5  # times the share of a class if all were alike
PER_TEXT = {"class": "accuracy", "score": "mse", "tags": "accuracy", "entities": "f1",
            "answers": "f1"}  # fmt: skip
STATE = "stages.json"


def fits(corpus: "Corpus", settings: SmallerModel) -> None:
    """Raise an error if the corpus does not have the task."""
    task_corpus, name = corpus_of(corpus, settings.task)
    task_of(task_corpus, name, settings.metric)


@dataclass
class Bench:
    """What models are made from and scored with."""

    inputs: Inputs
    settings: SmallerModel
    progress: Progress
    home: Path
    whole: HuggingFace
    split: Split
    docs: "Sequence[Doc]"  # of test
    shown: Batch  # texts of train that show what is used least
    dev: list[Any] = field(init=False)  # the original's predictions
    disk: float = 0.0

    @property
    def task(self) -> Task:
        return self.split.task


@dataclass
class State:
    """What was tried, and the folders of the chosen model and of the one nearest to the bound."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    chosen: str = ""
    nearest: str = ""

    @classmethod
    def read(cls, home: Path) -> "State":
        """The state before an interruption; an empty one where there is none."""
        with suppress(OSError, ValueError, TypeError):
            return cls(**read_json(home / STATE))
        return cls()

    def write(self, home: Path) -> None:
        """Write the state, and remove folders that it does not name."""
        write_atomically(home / STATE, json.dumps(vars(self)))
        for folder in home.glob("model-*"):
            if folder.name not in (self.chosen, self.nearest):
                shutil.rmtree(folder)


def run(inputs: Inputs, settings: SmallerModel, progress: Progress) -> Result:
    """Make the original, cut it stage by stage, and measure what is left."""
    with folder_or_temporary(inputs.scratch) as home:
        began = perf_counter()
        whole, split, parts, notes = _original(inputs, settings, progress)
        shown = encode(parts.train[:SHOWN_TO])
        bench = Bench(inputs, settings, progress, home, whole, split, parts.test, shown)
        whole.language_head = None  # which a model of the task does not need
        whole.save(home / ORIGINAL)
        bench.disk = size_on_disk(home / ORIGINAL)
        progress(0, None, "scoring the original")
        bench.dev = guesses_of(whole, split.dev)
        test = guesses_of(whole, split.test)
        state = State.read(home)
        if not state.stages:
            tuned = perf_counter() - began
            state.stages.append(_stage_row(ORIGINAL, "opened, or fine-tuned", tuned, bench.disk))
        tables: dict[str, pd.DataFrame] = {}
        if learned := _learned(bench, test):
            for stage in stages_of(settings):
                if all(row["stage"] != stage for row in state.stages):
                    _cut(bench, state, stage)
                    state.write(home)
            if folder := state.chosen or state.nearest:
                tables |= _measured(bench, test, home / folder)
                if inputs.keep is not None:
                    shutil.copytree(home / folder, inputs.keep, dirs_exist_ok=True)
        tables = {
            "scores": _scores(bench, {ORIGINAL: test}),
            "kept": pd.DataFrame([_kept_row(bench, split.scored, split.test, test, test, learned)]),
            "sizes": pd.DataFrame([_size(ORIGINAL, whole, bench.disk)]),
            **tables,
            "stages": pd.DataFrame(state.stages),
        }
        if state.rows:
            tables["points"] = pd.DataFrame(state.rows)
            tables["points"]["left"] = tables["points"]["folder"] == (state.chosen or state.nearest)
            del tables["points"]["folder"]
    return Result(tables, caveats=tuple(map(Caveat, [*notes, *_caveats(bench, state, learned)])))


# --- the original, which has a head for the task --------------------------------------------------


def _original(
    inputs: Inputs, settings: SmallerModel, progress: Progress
) -> tuple[HuggingFace, Split, Parts, list[str]]:
    """The model with a head for the task, its texts, their Docs, and notes."""
    progress(0, None, "reading the corpus")
    corpus, name = corpus_of(inputs.corpus, settings.task)
    task = task_of(corpus, name, settings.metric)
    model = inputs.model
    parts = labelled_parts(corpus, task, inputs.split, inputs.seed, settings.sizes)
    own = _own_task(model.predicts, task, [*parts.train, *parts.test], model.name)
    task = own or task
    if settings.metric:
        task = replace(task, metric=settings.metric)
    split = split_of(corpus, task, inputs.split, inputs.seed, settings.sizes)
    notes = list(split.notes)
    metric, why = _metric(split, settings)
    notes += [why] if why else []
    split = replace(split, task=replace(task, metric=metric))
    if own is None:
        progress(0, None, "fine-tuning a head for the task")
        tuned = inputs.run_experiment(
            "finetune", [model], [inputs.corpus],
            {**settings.fine_tuning, "metric": metric, "seeds": [inputs.seed]}, inputs.split,
        )  # fmt: skip
        notes.append(
            f"The model had no head for {task.name}: {tuned.name} fine-tuned it first. To "
            "change how, fine-tune it with workbench run finetune, and cut the model of that run."
        )
        notes += [
            caveat.text
            for caveat in tuned.caveats
            if "seeds" not in caveat.text and not caveat.text.startswith("Undecided")
        ]
        assert tuned.model is not None, "a finished run of finetune has a model"
        model = load(str(tuned.model), inputs.device, "fp32")
    else:
        notes.append(
            "The model was fine-tuned before: if it was trained on texts that are test texts here, "
            "its own score is too high, and so is the share that is kept."
        )
    net = require_transformer(model, "cannot be cut", "Choose a transformer, such as mini:bert.")
    return net, split, parts, list(dict.fromkeys(notes))


def _own_task(predicts: Task | None, task: Task, docs: "Sequence[Doc]", model: str) -> Task | None:
    """The task of a model that has a head for this label, with its order of the classes."""
    if predicts is None or predicts.kind != task.kind:
        return None
    with suppress(WorkbenchError):
        return task_on(predicts, docs, task.label if task.kind in ("class", "score") else "",
                       model, "")  # fmt: skip
    return None


def _name(task: Task) -> str:
    """The name of the metric: with more than two classes, F1 is a mean over them."""
    is_mean = task.kind == "class" and task.metric == "f1" and len(task.names) > 2
    return f"{'macro ' * is_mean}{spelt(task.metric)}"


def _metric(split: Split, settings: SmallerModel) -> tuple[str, str]:
    """The metric of the bound, and why it is another one than usual."""
    task = split.task
    if settings.metric or task.kind != "class" or task.metric != "accuracy":
        return task.metric, ""
    gold: Any = (*split.train.gold, *split.dev.gold)
    most, number = Counter(gold).most_common(1)[0]
    share = number / len(gold)
    if share < UNBALANCED / len(task.names):
        return task.metric, ""
    metric = "matthews" if len(task.names) == 2 else "f1"
    name = _name(replace(task, metric=metric))
    name += ", in which all classes count alike" if metric == "f1" else ""
    return metric, (
        f"The classes are unbalanced ({percent(share)} of train and dev are {task.names[most]!r}): "
        f"the score is {name}, not accuracy."
    )


# --- the stages -----------------------------------------------------------------------------------


def stages_of(settings: SmallerModel) -> list[str]:
    """The methods in their order; those that leave fewer bits, which cannot be cut, come last."""
    return sorted(
        settings.used, key=lambda name: any(p.bits for p in points_of(settings, name))
    )  # fmt: skip


def points_of(settings: SmallerModel, method: Any) -> list[compress.Point]:
    """What a stage tries."""
    points = compress.points_of(_compress(settings, method))
    return [point for point in points if point.order == "best" and point.method == method]


def _compress(settings: SmallerModel, method: Any) -> Compress:
    chosen: dict[str, Any] = {
        "methods": (method,), "amounts": settings.amounts, "bits": settings.bits,
        "combined": False, "random_orders": 0, "rounds": 0, "max_pairs": 0,
    }  # fmt: skip
    return Compress(**chosen)


def _cut(bench: Bench, state: State, stage: str) -> None:
    """Try all amounts of a method on the model that was chosen last, and choose one."""
    began, settings, home = perf_counter(), bench.settings, bench.home
    model = bench.whole
    if state.chosen:
        model = _loaded(home / state.chosen, bench)
    disk = size_on_disk(home / (state.chosen or ORIGINAL))
    points = points_of(settings, stage)
    failed: list[tuple[float, compress.Point]] = []
    for number, point in enumerate(points):
        bench.progress(number, len(points), f"cutting {stage}: {point.keys['amount']}")
        try:
            row = _tried(bench, state, stage, point, _made(bench, model, point), False)
        except WorkbenchError as error:
            bench.progress(0, None, f"leaving out {stage}")
            state.left_out[stage] = f"{error.what} {error.remedy}"
            break
        if not row["keeps"] and row["disk"] < disk and point.bits is None:
            failed.append((row["disk"], point))
    smallest = size_on_disk(home / (state.chosen or ORIGINAL))
    for size, point in (
        sorted(failed, key=lambda pair: -pair[0]) if settings.recovery_epochs else ()
    ):
        if size >= smallest:
            continue
        again = _trained_again(bench, _made(bench, model, point), stage, point)
        if not _tried(bench, state, stage, point, again, True)["keeps"]:
            break
    chosen = [row for row in state.rows if row["stage"] == stage and row["chosen"]]
    what = ", ".join(
        f"{row['amount']}{' and trained again' if row['trained'] else ''}" for row in chosen[-1:]
    )
    after = size_on_disk(home / (state.chosen or ORIGINAL))
    state.stages.append(_stage_row(stage, what or "nothing", perf_counter() - began, after))


def _stage_row(stage: str, what: str, seconds: float, disk: float) -> dict[str, Any]:
    return {"stage": stage, "cut": what, "seconds": seconds, "disk": disk}


def _loaded(folder: Path, bench: Bench) -> HuggingFace:
    model: Any = load(str(folder), bench.inputs.device, "fp32")
    return model  # type: ignore[no-any-return]


def _made(bench: Bench, model: HuggingFace, point: compress.Point) -> HuggingFace:
    """The model of a point of `compress`."""
    train = bench.split.train
    evaluation = Evaluation(model, train.batch, EvalTask(bench.task, train.gold, bench.inputs.seed))
    settings = _compress(bench.settings, point.method)
    within = compress.Bench(bench.inputs, settings, evaluation, (), (), bench.shown, bench.home)
    vars(within)["train"] = evaluation  # for methods that train
    return compress.made(within, point)


def _tried(
    bench: Bench, state: State, stage: str, point: compress.Point, model: HuggingFace, trained: bool
) -> dict[str, Any]:
    """Score a model on dev, note it, and keep its folder if it is the best so far."""
    home, folder = bench.home, f"model-{len(state.rows)}"
    shutil.rmtree(home / folder, ignore_errors=True)  # of a stage that was interrupted
    model.save(home / folder)
    if bench.settings.plain and is_plain(home / ORIGINAL) and not is_plain(home / folder):
        raise WorkbenchError(
            "Plain transformers does not open such a model.",
            code="model-unsupported",
            where=stage,
            remedy="plain=false allows it.",
        )
    disk = size_on_disk(home / folder)
    guesses = guesses_of(model, bench.split.dev)
    row: dict[str, Any] = {
        "stage": stage, "amount": point.keys["amount"], "trained": trained, "disk": disk,
        "parameters": model.parameters, "metric": bench.task.metric,
        **_compared(bench, bench.split.dev, bench.dev, guesses),
        "keeps": False, "chosen": False, "folder": folder,
    }  # fmt: skip
    row["keeps"] = row["kept"] >= bench.settings.keep
    if row["keeps"] and disk < size_on_disk(home / (state.chosen or ORIGINAL)):
        row["chosen"] = True
        for other in state.rows:
            other["chosen"] &= other["stage"] != stage
        state.chosen = folder
    elif not row["keeps"] and disk < bench.disk and not state.chosen:
        before = [each["kept"] for each in state.rows if each["folder"] == state.nearest]
        if all(row["kept"] > kept for kept in before):
            state.nearest = folder
    state.rows.append(row)
    return row


def _trained_again(
    bench: Bench, model: HuggingFace, stage: str, point: compress.Point
) -> HuggingFace:
    """The model after a few epochs on train, with the weights of the best dev score."""
    body = body_of(model)
    twin: Any = body.model
    head = twin.task_head
    if isinstance(head, StandardHead):
        head.own_weights = own_weights(body)
    fitting = Fitting(body, [Group(list(body.weights.values()))])
    for weights in (*fitting.trained_weights, *head.parameters()):
        weights.requires_grad_(True)
    words = " ".join(point.keys.values())
    seed, split = bench.inputs.seed, bench.split
    rate = default_learning_rates(FINE_TUNED, model)[0]
    train_head(
        split.task, head, fitting,
        (Live(body, split.train.batch, head), split.train),
        (Live(body, split.dev.batch, head), split.dev),
        Plan(rate, bench.settings.recovery_epochs, BATCH, PATIENCE, seed),
        lambda step, steps, loss: bench.progress(
            step, steps, f"training again: {words}, loss {loss:.3f}"
        ),
        Checkpoint(bench.home / f"again-{stage}-{point.share:g}.safetensors"),
    )  # fmt: skip
    for weights in (*fitting.trained_weights, *head.parameters()):
        weights.requires_grad_(False)
    return twin  # type: ignore[no-any-return]


# --- scores ---------------------------------------------------------------------------------------


def guesses_of(model: HuggingFace, examples: Examples) -> list[Any]:
    """The predictions of a model for every text."""
    body = Body(model, {}, {})
    head: Any = model.task_head
    return guessed(head, Fitting(body), Live(body, examples.batch, head), examples)


def _compared(
    bench: Bench, examples: Examples, before: Sequence[Any], after: Sequence[Any]
) -> dict[str, float]:
    """The metric, and the share that is kept of the original's, with its paired interval."""
    task = bench.task
    whole, own = (metrics_of(task, examples, each)[task.metric] for each in (before, after))
    counts = np.stack([whole.counts, own.counts])[:, None]  # [2, 1, texts, numbers]
    draws = resampled(counts, whole.measure, bench.inputs.seed)  # [2, draws]
    kept = float(_share(whole.value(), own.value(), task.sign))
    lower, upper = interval_around(kept, _share(draws[0], draws[1], task.sign))
    return {
        "value": float(np.nan_to_num(own.value())), "kept": kept, "lower": float(lower),
        "upper": float(upper),
    }  # fmt: skip


def _share(before: Any, after: Any, sign: int) -> Floats:
    """The share of a score that is kept; none of a score that is not above zero."""
    first, second = (before, after) if sign > 0 else (after, before)
    first, second = np.nan_to_num(first), np.nan_to_num(second)
    share: Floats = np.divide(second, first, out=np.zeros(np.shape(first)), where=first > 0)
    return share


def _learned(bench: Bench, guesses: Sequence[Any]) -> bool:
    """Whether the original beats a constant prediction on test, beyond the interval."""
    task, test = bench.task, bench.split.test
    constant = majority(task, bench.split.train, test)
    own, other = (metrics_of(task, test, each)[task.metric] for each in (guesses, constant))
    counts = np.stack([own.counts, other.counts])[:, None]
    draws = np.nan_to_num(resampled(counts, own.measure, bench.inputs.seed))
    return bool(np.percentile(task.sign * (draws[0] - draws[1]), 2.5) > 0)


def _scores(bench: Bench, guesses: dict[str, Sequence[Any]]) -> pd.DataFrame:
    """Every metric of each model on test, next to a constant prediction."""
    task, test = bench.task, bench.split.test
    constant = metrics_of(task, test, majority(task, bench.split.train, test))
    rows = []
    for model, own in guesses.items():
        for name, metric in metrics_of(task, test, own).items():
            draws = resampled(metric.counts[None, None], metric.measure, bench.inputs.seed)[0]
            value = float(np.nan_to_num(metric.value()))
            lower, upper = interval_around(value, draws)
            rows.append(
                {
                    "model": model, "metric": name, "decides": name == task.metric,
                    "value": value, "lower": float(lower), "upper": float(upper),
                    "baseline": float(np.nan_to_num(constant[name].value())), "n": len(test),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _kept_row(
    bench: Bench, split: str, examples: Examples, before: Sequence[Any], after: Sequence[Any],
    learned: bool = True,
) -> dict[str, Any]:  # fmt: skip
    task = bench.task
    first = float(np.nan_to_num(metrics_of(task, examples, before)[task.metric].value()))
    return {
        "split": split, "task": task.name, "metric": task.metric, "score": _name(task),
        "original": first,
        **_compared(bench, examples, before, after), "bound": bench.settings.keep,
        "learned": learned, "n": len(examples),
    }  # fmt: skip


def _measured(bench: Bench, test: list[Any], folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of the smaller model, opened from its folder."""
    split, seed, rounds = bench.split, bench.inputs.seed, bench.settings.rounds
    bench.progress(0, None, "scoring the smaller model on test")
    small = _loaded(folder, bench)
    own = guesses_of(small, split.test)
    rows = [
        _kept_row(bench, split.chosen_by, split.dev, bench.dev, guesses_of(small, split.dev)),
        _kept_row(bench, split.scored, split.test, test, own),
    ]
    before, after = (
        list(text_items(_per_text(bench, guesses), bench.docs, bench.task))
        for guesses in (test, own)
    )
    sizes = [
        _size(ORIGINAL, bench.whole, bench.disk),
        _size(SMALLER, small, size_on_disk(folder)),
    ]
    tables = {
        "scores": _scores(bench, {ORIGINAL: test, SMALLER: own}),
        "kept": pd.DataFrame(rows),
        "sizes": pd.DataFrame(sizes),
    }
    share = percent(size_on_disk(folder) / bench.disk)
    keys = {"method": "smaller model", "amount": f"{share} of the size"}
    if further := lost(before, after, seed):
        tables["lost"] = pd.DataFrame([{**keys, **row} for row in further])
    if rounds:
        bench.progress(0, None, "measuring both models in a new process")
        models, device = (bench.home / ORIGINAL, folder), str(bench.whole.device)
        found = cost.measured(bench.docs, models, rounds, device, seed)
        tables["cost"] = pd.DataFrame(
            cost.judged_together(
                [{**keys, "texts": int(size), **row} for size, row in found.items()]
            )
        )
    bench.progress(0, None, "opening the smaller model in a new process")
    tables["opening"] = pd.DataFrame([opened(folder, small, bench.docs)])
    return tables


def _per_text(bench: Bench, guesses: Sequence[Any]) -> TextScores:
    """A score of each text, of which more is better."""
    metric = metrics_of(bench.task, bench.split.test, guesses)[PER_TEXT[bench.task.kind]]
    scores = np.nan_to_num(metric.measure(metric.counts))
    sign = -1 if bench.task.kind == "score" else 1
    ones = np.ones(len(scores))
    return TextScores(0 * ones, sign * scores, ones)


def _size(name: str, model: HuggingFace, disk: float) -> dict[str, Any]:
    layers = sum(stack.layers for stack in model.stacks)
    return {"model": name, "disk": disk, "parameters": model.parameters, "layers": layers}


def _caveats(bench: Bench, state: State, learned: bool) -> Iterator[str]:
    yield from (f"{stage}: left out. {why}" for stage, why in state.left_out.items())
    if not learned:
        yield (
            "Fine-tune the model with more texts or other learning rates (workbench run finetune), "
            "and cut the model of that run."
        )
        return
    if any(row["trained"] for row in state.rows):
        yield (
            "Models that were cut too far were trained again on train; the original was not, so a "
            "part of what they keep may come from more training."
        )
    if len(state.rows) > 1:
        yield (
            f"The smaller model was chosen among {len(state.rows)} on {len(bench.split.dev)} texts "
            f"of {bench.split.chosen_by}, whose share is therefore too high on average; that on "
            f"{bench.split.scored} is not."
        )
    if state.rows and (why := _too_few(bench.split)):
        yield why


def _too_few(split: Split) -> str:
    """Which classes have too few texts to be tested for what they lost."""
    if split.task.kind != "class":
        return ""
    counts = Counter(split.test.gold)
    rare = [
        f"“{name}” ({counts[place]})"
        for place, name in enumerate(split.task.names)
        if counts[place] < FEWEST
    ]
    if not rare:
        return ""
    return (
        f"Classes with too few texts of {split.scored} to tell whether they fell further than the "
        f"rest ({FEWEST} are needed): {listing(rare, 5)}. Score both models on more of such texts "
        "(workbench run errors)."
    )
