"""The experiment `frozen-vs-finetuned`: frozen and fine-tuned models compared on several tasks.

Each cell (a model, a task, a method, a head) is a `finetune` run of its own, read from disk if it
was finished before. This module compares the cells in paired tests over texts. Several models, or
many tasks, become several runs of this experiment, in parallel if the machine has room. Costs: the
cells that are new.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.analyses.transfer.adaptation import fitting_of
from workbench.analyses.transfer.backbone import body_of, names_of
from workbench.analyses.transfer.experiments import (
    FROZEN,
    FROZEN_TABLES,
    LEARNT,
    SAVED_MIB,
    Adapting,
    Finetune,
    FrozenVsFinetuned,
    HeadKind,
    Method,
)
from workbench.core.errors import listed
from workbench.core.stats import difference, resampled
from workbench.corpora.tasks import (
    Split,
    corpora_of,
    majority,
    metrics_of,
    split_of,
    task_of,
)
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.experiment.definition import (
    Caveat,
    Inputs,
    Progress,
    Result,
    SubrunRequest,
    SubrunResult,
)

if TYPE_CHECKING:
    from workbench.corpora import Corpus

TASKS_PER_RUN = 3  # tasks of one model in one run


@dataclass(frozen=True)
class Cell:
    """One model, task, method and head, with the result of its run."""

    model: str
    task: str
    method: Method
    head: HeadKind
    result: SubrunResult

    @property
    def key(self) -> dict[str, str]:
        return {
            "task": self.task, "model": self.model, "method": self.method, "head": self.head,
        }  # fmt: skip


def fits(corpus: "Corpus", settings: FrozenVsFinetuned) -> None:
    """Raise an error if the corpus does not have one of the tasks."""
    for own, name in corpora_of(corpus, settings.tasks):
        task_of(own, name)


def run(inputs: Inputs, settings: FrozenVsFinetuned, progress: Progress) -> Result:
    """Run every cell and compare them."""
    for model in inputs.models:
        _require(model, settings)
    settings, too_large = _within_budget(inputs, settings)
    parts = _parts(inputs, settings)
    if len(parts) > 1:
        joined = _together(inputs, parts, progress)
        return replace(joined, caveats=(*joined.caveats, *too_large))
    methods = _methods(settings)
    tasks = [
        (corpus, name)
        for input_corpus in inputs.corpora
        for corpus, name in corpora_of(input_corpus, settings.tasks)
    ]
    total = len(tasks) * len(methods)
    notes = list[str]()
    delta: list[dict[str, Any]] = []
    cells: list[Cell] = []
    for corpus, name in tasks:
        split = texts_of(inputs, settings, corpus, name)
        notes += [f"{split.task.name}: {note}" for note in split.notes]
        task_cells: list[Cell] = []
        for method, head in methods:
            activity = f"training: {split.task.name}, {method}"
            progress(
                len(cells) + len(task_cells),
                total,
                activity if head == "plain" else f"{activity}, LSTM",
            )
            request = finetune_request(
                inputs, settings, inputs.model, corpus, name, method, head, settings.save_models
            )
            n_later = total - len(cells) - len(task_cells) - 1
            (result,) = inputs.run_experiments([request], later=n_later)
            task_cells.append(Cell(inputs.model.name, split.task.name, method, head, result))
        cells += task_cells
        delta += _compared(task_cells, split, inputs.seed)
    tables = {"delta": pd.DataFrame(delta)}
    for name in LEARNT:
        tables[name] = pd.concat([cell.result.tables[name] for cell in cells], ignore_index=True)
    tables["cells"] = pd.DataFrame([{**cell.key, "run": cell.result.name} for cell in cells])
    if len(settings.seeds) < 3:
        notes.append("Fewer than three seeds: the variation between seeds is not known.")
    caveats = [*(Caveat(note) for note in dict.fromkeys(notes)), *cell_caveats(tables["means"])]
    return Result(tables, caveats=(*caveats, *too_large))


def _within_budget(
    inputs: Inputs, settings: FrozenVsFinetuned
) -> tuple[FrozenVsFinetuned, tuple[Caveat, ...]]:
    """The settings without saved models if all together take too much disk, and why."""
    n_tasks = sum(len(corpora_of(corpus, settings.tasks)) for corpus in inputs.corpora)
    n_models = n_tasks * len(_methods(settings))
    size = n_models * sum(4 * model.parameters for model in inputs.models) / 2**20  # MiB
    if not settings.save_models or size <= SAVED_MIB:
        return settings, ()
    caveat = Caveat(
        f"No models were saved: {n_models * len(inputs.models)} models take {size:,.0f} MiB, more "
        f"than {SAVED_MIB:,} MiB. Try a text offers to save one."
    )
    return settings.model_copy(update={"save_models": False}), (caveat,)


def _require(model: Model, settings: FrozenVsFinetuned) -> None:
    """Raise an error if a method does not support a model, before training starts."""
    for method in set(settings.methods) - {FROZEN}:
        fitting_of(body_of(model), method, settings.part_sizes, seed=0)


@dataclass(frozen=True)
class Part:
    """Some tasks of one model, which become one run."""

    model: Model
    name: str  # of the model, unique among the models
    corpus: "Corpus"
    settings: FrozenVsFinetuned


def _parts(inputs: Inputs, settings: FrozenVsFinetuned) -> list[Part]:
    """Parts of a few tasks of one model, small enough to keep all processors busy."""
    corpus_tasks = []
    for corpus in inputs.corpora:
        tasks = tuple(task for _, task in corpora_of(corpus, settings.tasks))
        corpus_tasks += [(corpus, few) for few in chunks(tasks, TASKS_PER_RUN)]
    return [
        Part(model, name, corpus, settings.model_copy(update={"tasks": few}))
        for model, name in zip(inputs.models, names_of(inputs.models), strict=True)
        for corpus, few in corpus_tasks
    ]


def _together(inputs: Inputs, parts: Sequence[Part], progress: Progress) -> Result:
    """Run each part and concatenate their tables."""
    n_parts = len(parts)
    progress(0, n_parts, "training on parts of the tasks")
    cost = [part.model.parameters * len(part.settings.tasks) for part in parts]
    order = sorted(range(n_parts), key=lambda index: -cost[index])  # the most expensive parts first
    requests = [
        SubrunRequest(
            "frozen-vs-finetuned",
            [part.model],
            [part.corpus],
            part.settings.model_dump(),
            requested_split(inputs, part.corpus),
            inputs.seed,
        )
        for part in (parts[index] for index in order)
    ]
    finished = inputs.run_experiments(
        requests, lambda done: progress(done, n_parts, "training on parts of the tasks")
    )
    results = [finished[order.index(index)] for index in range(n_parts)]
    tables = {
        name: pd.concat(
            [
                result.tables[name].assign(model=part.name)
                for part, result in zip(parts, results, strict=True)
            ],
            ignore_index=True,
        )
        for name in FROZEN_TABLES
    }
    caveats = dict.fromkeys(
        Caveat(caveat.text, tuple(caveat.applies_to))
        for result in results
        for caveat in result.caveats
        if not caveat.applies_to  # caveats about cells follow once for all parts
    )
    return Result(tables, caveats=(*caveats, *cell_caveats(tables["means"])))


def _methods(settings: FrozenVsFinetuned) -> list[tuple[Method, HeadKind]]:
    """The methods and heads of the cells, frozen first."""
    others = [method for method in settings.methods if method != FROZEN]
    methods: list[tuple[Method, HeadKind]] = [(FROZEN, "plain")]
    methods += [(method, "plain") for method in others]
    return [*methods, (FROZEN, "lstm")] if settings.lstm_baseline else methods


def _compared(cells: Sequence[Cell], split: Split, seed: int) -> list[dict[str, Any]]:
    """Rows of the table `delta` for the cells of one task."""
    metric = split.task.metric
    constant = metrics_of(split.task, split.test, majority(split.task, split.train, split.test))[
        metric
    ]
    counts = np.stack([np.asarray(cell.result.arrays["counts"]) for cell in cells])
    draws = resampled(counts, constant.measure, seed)  # [cells, draws]
    means = [cell.result.tables["means"].iloc[0] for cell in cells]
    index = {(cell.method, cell.head): n for n, cell in enumerate(cells)}
    frozen = index[FROZEN, "plain"]
    before = means[frozen]
    strong = means[index[FROZEN, "lstm"]]["value"] if (FROZEN, "lstm") in index else np.nan
    delta = []
    for cell, own, after in zip(cells, draws, means, strict=True):
        if cell.method == FROZEN:
            continue
        low, high, p = difference(draws[frozen], own)
        gain_lower, gain_upper = sorted((split.task.sign * low, split.task.sign * high))
        delta.append(
            {
                "task": cell.task, "model": cell.model, "method": cell.method, "metric": metric,
                "frozen": before["value"], "tuned": after["value"],
                "delta": after["value"] - before["value"], "lower": low, "upper": high,
                "p_value": p, "strong": strong, "majority": constant.value(),
                "verdict": _verdict(gain_lower, gain_upper, before["learned"], after["learned"]),
                "converged": bool(after["converged"] and before["converged"]),
            }
        )  # fmt: skip
    return delta


def _verdict(low: float, high: float, frozen: bool, tuned: bool) -> str:
    """The verdict for the interval of a gain; without a learned model there is no verdict."""
    if not (frozen or tuned):
        return "not learned"
    if low > 0 and tuned:
        return "helps"
    return "hurts" if high < 0 and frozen else "undecided"


def cell_caveats(means: pd.DataFrame) -> list[Caveat]:
    """One caveat for cells that were cut off, and one for cells that did not learn."""
    caveats = []
    for column, message in (
        ("converged", "Cut off by max_epochs (hollow marks); more epochs may help"),
        ("learned", "Not significantly better than the majority baseline (crosses): these heads "
         "did not learn, and their scores say nothing about the model"),
    ):  # fmt: skip
        failed = means[~means[column].astype(bool)]
        if len(failed):
            cells = [
                f"{row['task']} ({row['model']}, {row['method']}"
                + (", LSTM)" if row["head"] == "lstm" else ")")
                for row in failed.to_dict("records")
            ]
            caveats.append(Caveat(f"{message}: {listed(cells)}.", ("delta", "means", "scores")))
    return caveats


# --- cells: one model, task and method each -------------------------------------------------------
#
# The texts of a task, and the request of one `finetune` run for each model and method.
#
# Shared by the experiments that compare many adapted models. Costs: reading the corpus.


def texts_of(inputs: Inputs, settings: Adapting, corpus: "Corpus", task: str) -> Split:
    """The texts that every cell of a task trains on and is scored on."""
    return split_of(
        corpus,
        task_of(corpus, task),
        requested_split(inputs, corpus),
        inputs.seed,
        settings.split_sizes,
    )


def finetune_request(
    inputs: Inputs,
    settings: Adapting,
    model: "Model | str",
    corpus: "Corpus",
    task: str,
    method: Method,
    head: HeadKind,
    save_model: bool = False,
) -> SubrunRequest:
    """The request of a `finetune` run."""
    shared = {name: getattr(settings, name) for name in Adapting.model_fields}
    finetune = Finetune(**shared, task=task, method=method, head=head, save_model=save_model)
    split = requested_split(inputs, corpus)
    return SubrunRequest("finetune", [model], [corpus], finetune.model_dump(), split, inputs.seed)


def requested_split(inputs: Inputs, corpus: "Corpus") -> str | None:
    """The requested split, if this corpus has it."""
    return inputs.split if inputs.split in corpus.splits else None
