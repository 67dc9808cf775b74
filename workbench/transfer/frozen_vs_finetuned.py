"""Frozen or fine-tuned, of any models and tasks: the experiment `frozen-vs-finetuned`.

Each cell (a model, a task, a method, a head) is a `finetune` run of its own, answered from disk
where it was asked before; here their texts are compared pair by pair. Several models, or many
tasks, are several runs of this, side by side where there is room. Costs the cells that are new.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.core.errors import listed
from workbench.core.experiment import Answer, Asked, Caveat, Inputs, Progress, Result
from workbench.core.stats import Floats, difference, interval, resampled
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.transfer.adaptation import fitting_of
from workbench.transfer.backbone import body_of, names_of
from workbench.transfer.experiments import (
    FROZEN,
    FROZEN_TABLES,
    LEARNT,
    Adapting,
    Finetune,
    FrozenVsFinetuned,
    HeadKind,
    Method,
)
from workbench.transfer.metrics import Metric
from workbench.transfer.tasks import (
    Split,
    Task,
    corpora_of,
    majority,
    metrics_of,
    split_of,
    task_of,
)

if TYPE_CHECKING:
    from workbench.corpora import Corpus

TOGETHER = 3  # tasks of a model that one process learns


@dataclass(frozen=True)
class Cell:
    """One model, task, method and head, and its run."""

    model: str
    task: str
    method: Method
    head: HeadKind
    answer: Answer

    @property
    def key(self) -> dict[str, str]:
        return {
            "task": self.task, "model": self.model, "method": self.method, "head": self.head,
        }  # fmt: skip


def fits(corpus: "Corpus", settings: FrozenVsFinetuned) -> None:
    """Raise where the corpus has none of the tasks."""
    for own, name in corpora_of(corpus, settings.tasks):
        task_of(own, name)


def run(inputs: Inputs, settings: FrozenVsFinetuned, progress: Progress) -> Result:
    """Have every cell answered, and compare."""
    for model in inputs.models:
        _require(model, settings)
    parts = _parts(inputs, settings)
    if len(parts) > 1:
        return _together(inputs, parts, progress)
    ways = _ways(settings)
    asked = [
        (corpus, name)
        for given in inputs.corpora
        for corpus, name in corpora_of(given, settings.tasks)
    ]
    total = len(asked) * len(ways)
    notes = list[str]()
    rows: dict[str, list[Any]] = {"delta": [], "means": []}
    cells: list[Cell] = []
    for corpus, name in asked:
        split = texts_of(inputs, settings, corpus, name)
        notes += [f"{split.task.name}: {note}" for note in split.notes]
        own: list[Cell] = []
        for method, head in ways:
            what = f"{split.task.name}, {method}"
            progress(len(cells) + len(own), total, what if head == "plain" else f"{what}, LSTM")
            cell = cell_of(
                inputs, settings, inputs.model, corpus, name, method, head, settings.keep
            )
            (answer,) = inputs.ask_all([cell])
            own.append(Cell(inputs.model.name, split.task.name, method, head, answer))
        cells += own
        means, delta = _compared(own, split, inputs.seed)
        rows["means"] += means
        rows["delta"] += delta
    tables = {name: pd.DataFrame(found) for name, found in rows.items()}
    for name in LEARNT:
        tables[name] = pd.concat([cell.answer.tables[name] for cell in cells], ignore_index=True)
    tables["cells"] = pd.DataFrame([{**cell.key, "run": cell.answer.name} for cell in cells])
    if len(settings.seeds) < 3:
        notes.append("Fewer than three seeds: how much they differ is not known.")
    caveats = [*(Caveat(note) for note in dict.fromkeys(notes)), *_marked(tables["means"])]
    return Result(tables, caveats=tuple(caveats))


def _require(model: Model, settings: FrozenVsFinetuned) -> None:
    """Raise where a model cannot be adapted by one of the methods, before anything is learnt."""
    for method in set(settings.methods) - {FROZEN}:
        fitting_of(body_of(model), method, settings.sizes, seed=0).close()


@dataclass(frozen=True)
class Part:
    """Some tasks of one model, which are a run of their own."""

    model: Model
    name: str  # of the model, among the others
    corpus: "Corpus"
    settings: FrozenVsFinetuned


def _parts(inputs: Inputs, settings: FrozenVsFinetuned) -> list[Part]:
    """A few tasks of a model each, so that no processor waits long for the last of them."""
    asked = []
    for corpus in inputs.corpora:
        tasks = tuple(task for _, task in corpora_of(corpus, settings.tasks))
        asked += [(corpus, few) for few in chunks(tasks, TOGETHER)]
    return [
        Part(model, name, corpus, settings.model_copy(update={"tasks": few}))
        for model, name in zip(inputs.models, names_of(inputs.models), strict=True)
        for corpus, few in asked
    ]


def _together(inputs: Inputs, parts: Sequence[Part], progress: Progress) -> Result:
    """Each part by itself, and their tables under one another."""
    number = len(parts)
    progress(0, number, "parts")
    cost = [part.model.parameters * len(part.settings.tasks) for part in parts]
    order = sorted(range(number), key=lambda place: -cost[place])  # what takes longest goes first
    questions = [
        Asked(
            "frozen-vs-finetuned",
            [part.model],
            [part.corpus],
            part.settings.model_dump(),
            part_of(inputs, part.corpus),
            inputs.seed,
        )
        for part in (parts[place] for place in order)
    ]
    found = inputs.ask_all(questions, lambda done: progress(done, number, "parts"))
    answers = [found[order.index(place)] for place in range(number)]
    tables = {
        name: pd.concat(
            [
                answer.tables[name].assign(model=part.name)
                for part, answer in zip(parts, answers, strict=True)
            ],
            ignore_index=True,
        )
        for name in FROZEN_TABLES
    }
    caveats = dict.fromkeys(
        Caveat(each.text, tuple(each.beside))
        for answer in answers
        for each in answer.caveats
        if not each.beside  # of cells, told once for all of them
    )
    return Result(tables, caveats=(*caveats, *_marked(tables["means"])))


def _ways(settings: FrozenVsFinetuned) -> list[tuple[Method, HeadKind]]:
    others = [method for method in settings.methods if method != FROZEN]
    ways: list[tuple[Method, HeadKind]] = [(FROZEN, "plain")]
    ways += [(method, "plain") for method in others]
    return [*ways, (FROZEN, "lstm")] if settings.strong else ways


def _compared(
    cells: Sequence[Cell], split: Split, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Means of every cell, and what each way wins over the frozen model under the same head."""
    metric = split.task.metric
    measure = metrics_of(split.task, split.test, split.test.gold)[metric].measure
    counts = np.stack([np.asarray(cell.answer.arrays["counts"]) for cell in cells])
    values = measure(counts.sum(2)).mean(1)  # [cells, seeds, numbers] -> [cells]
    draws = resampled(counts, measure, seed)  # [cells, draws]
    lower, upper = interval(draws)
    means = [
        {**cell.key, "metric": metric, "value": values[n], "lower": lower[n], "upper": upper[n]}
        for n, cell in enumerate(cells)
    ]
    place = {(cell.method, cell.head): n for n, cell in enumerate(cells)}
    blind = metrics_of(split.task, split.test, majority(split.task, split.train, split.test))[
        metric
    ]
    baseline = blind.value()
    learned = _learned(split.task, draws, blind, counts.shape[1], seed)
    for row, cell, own in zip(means, cells, learned, strict=True):
        row["learned"] = bool(own)
        row["converged"] = bool(cell.answer.tables["scores"]["converged"].all())
    frozen, strong = place[FROZEN, "plain"], place.get((FROZEN, "lstm"))
    delta = []
    for n, cell in enumerate(cells):
        if cell.method == FROZEN:
            continue
        low, high, p = difference(draws[frozen], draws[n])
        least, most = sorted((split.task.sign * low, split.task.sign * high))
        delta.append(
            {
                "task": cell.task, "model": cell.model, "method": cell.method, "metric": metric,
                "frozen": values[frozen], "tuned": values[n], "delta": values[n] - values[frozen],
                "lower": low, "upper": high, "p_value": p,
                "strong": np.nan if strong is None else values[strong], "majority": baseline,
                "verdict": _verdict(least, most, learned[frozen], learned[n]),
                "converged": means[n]["converged"] and means[frozen]["converged"],
            }
        )  # fmt: skip
    return means, delta


def _learned(task: Task, draws: Floats, blind: Metric, seeds: int, seed: int) -> list[bool]:
    """Whether each cell is better than a constant prediction: the 95 % interval of the difference,
    over the same drawn texts, leaves out 0."""
    same = np.repeat(blind.counts[None, None], seeds, axis=1)  # [1, seeds, texts, numbers]
    constant = np.nan_to_num(resampled(same, blind.measure, seed))  # a constant correlates with 0
    lower, _ = interval(task.sign * (draws - constant))
    return [bool(low > 0) for low in lower]


def _verdict(low: float, high: float, frozen: bool, tuned: bool) -> str:
    """What an interval of a gain says; a gain over nothing is none."""
    if not (frozen or tuned):
        return "not learned"
    if low > 0 and tuned:
        return "helps"
    return "hurts" if high < 0 and frozen else "undecided"


def _marked(means: pd.DataFrame) -> list[Caveat]:
    """One caveat for cells that were cut off, and one for those that learned nothing."""
    found = []
    for column, what in (
        ("converged", "Cut off by the maximum number of epochs (hollow marks), so that more may "
         "help"),
        ("learned", "Not better than the majority baseline by more than chance (crosses): these "
         "heads did not learn, and their scores tell nothing about the model"),
    ):  # fmt: skip
        own = means[~means[column].astype(bool)]
        if len(own):
            cells = [
                f"{row['task']}, {row['model']}, {row['method']}"
                + (", LSTM" if row["head"] == "lstm" else "")
                for row in own.to_dict("records")
            ]
            found.append(Caveat(f"{what}: {listed(cells)}.", ("delta", "means", "scores")))
    return found


# --- cells: one model, task and method each -------------------------------------------------------
#
# What a table of cells asks: a task's texts, and one `finetune` run for each model and method.
#
# Shared by the experiments that lay many adaptations side by side. Costs reading the corpus.


def texts_of(inputs: Inputs, settings: Adapting, corpus: "Corpus", task: str) -> Split:
    """The texts that every cell of the task learns from and is scored on."""
    return split_of(
        corpus,
        task_of(corpus, task),
        part_of(inputs, corpus),
        inputs.seed,
        settings.split_sizes,
    )


def cell_of(
    inputs: Inputs,
    settings: Adapting,
    model: "Model | str",
    corpus: "Corpus",
    task: str,
    method: Method,
    head: HeadKind,
    keep: bool = False,
) -> Asked:
    """The question whose answer is a cell."""
    shared = {name: getattr(settings, name) for name in Adapting.model_fields}
    own = Finetune(**shared, task=task, method=method, head=head, keep=keep)
    part = part_of(inputs, corpus)
    return Asked("finetune", [model], [corpus], own.model_dump(), part, inputs.seed)


def part_of(inputs: Inputs, corpus: "Corpus") -> str | None:
    """The part that was asked for, where this corpus has it."""
    return inputs.split if inputs.split in corpus.splits else None
