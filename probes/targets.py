"""What can be asked of a corpus' layers: each task's spans, its metric, and labels left out.

The eight of Tenney et al. 2019 are known by name, also where a file calls them as others do
(`srl-ewt` holds roles); any other layer of labelled edges is a task of its own. Costs nothing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.experiments import LossName
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.splits import PARTS, TRAIN
from workbench.engine.batch import Batch, Edges


def _none(label: str) -> bool:
    return False


@dataclass(frozen=True)
class Task:
    """A layer to be predicted from spans."""

    name: str
    layer: str  # what the corpus calls it
    about: str = ""
    positive: str = ""  # the one label whose F1 is the score; all where it is ""
    left_out: Callable[[str], bool] = _none  # labels that are learnt but not scored

    @property
    def metric(self) -> str:
        return "positive_f1" if self.positive else "micro_f1"


@dataclass(frozen=True)
class _Known:
    about: str
    called: tuple[str, ...] = ()  # what files call it
    positive: str = ""
    left_out: Callable[[str], bool] = _none


KNOWN: Mapping[str, _Known] = {
    "pos": _Known("the part of speech of a word"),
    "constituents": _Known("the kind of a phrase", ("constituent", "nonterminal", "phrases")),
    "dependencies": _Known("the relation of a word to its head", ("dep", "deps", "ud")),
    "entities": _Known("the type of a named entity", ("ner", "entity")),
    "roles": _Known(
        "the role of an argument of a predicate",
        ("srl", "propbank"),
        left_out=lambda label: label.startswith(("R-", "C-")),
    ),
    "coreference": _Known("whether two mentions are one", ("coref",), positive="1"),
    "proto-roles": _Known("the properties of an argument", ("spr", "spr1", "spr2", "protoroles")),
    "relations": _Known(
        "the relation between two entities",
        ("rel", "semeval", "relation"),
        left_out=lambda label: label.split("(")[0] in ("Other", "no_relation"),
    ),
}  # in the order of the published pipeline
NOT_ASKED = ("tags", "answers", "segments")  # layers that are a task only where they are named
_READABLE = ("pos", "tags", "dependencies", "entities", "constituents", "coreference", "answers")


def tasks_of(
    layers: Iterable[str], asked: Sequence[str] = (), edges: Iterable[str] = (), where: str = ""
) -> tuple[Task, ...]:
    """The tasks of a corpus with these layers, `edges` being those of its own labelled edges.

    All it has, in the order of the pipeline, or those asked for: by a task's name, a layer's, or
    what others call the task.
    """
    present = [*(layer for layer in _READABLE if layer in set(layers)), *sorted(set(edges))]
    named = _named(present)
    if not asked:
        found = [task for task in named if task.layer not in NOT_ASKED]
        if not found:
            raise WorkbenchError(
                "this corpus has no layer to probe for.",
                where=where,
                remedy="Read one with parts of speech, trees, entities or labelled edges: CoNLL-U, "
                "brackets, or edge JSONL.",
            )
        return tuple(found)
    chosen = []
    for name in dict.fromkeys(asked):
        match = next((task for task in named if name in _names(task)), None)
        if match is None:
            known = [task.name for task in named]
            raise WorkbenchError(
                f"there is no task {name!r} in this corpus.",
                where=where,
                remedy=did_you_mean(name, known),
            )
        chosen.append(match)
    return tuple(chosen)


def _named(layers: Sequence[str]) -> list[Task]:
    """A task for each layer; two layers of one kind keep their own names."""
    kinds = {layer: _kind(layer) for layer in layers}
    tasks = []
    for layer, kind in kinds.items():
        known = KNOWN.get(kind, _Known(""))
        alone = list(kinds.values()).count(kind) == 1
        name = kind if kind and alone else layer
        tasks.append(Task(name, layer, known.about, known.positive, known.left_out))
    order = list(KNOWN)
    return sorted(
        tasks, key=lambda t: (order.index(k) if (k := kinds[t.layer]) else len(order), t.name)
    )


def _names(task: Task) -> tuple[str, ...]:
    """What a task may be asked for by."""
    known = KNOWN.get(task.name, _Known(""))
    return (task.name, task.layer, *known.called)


def _kind(layer: str) -> str:
    """The known task a layer's name speaks of, or ""."""
    for part in [layer.lower(), *re.split(r"[^a-z0-9]+", layer.lower())]:
        for name, known in KNOWN.items():
            if part == name or part in known.called:
                return name
    return ""


# --- targets as tensors ---------------------------------------------------------------------------
#
# Targets of one task: spans as rows of the corpus' words, labels as numbers, the part of each.
#
# Labels are those of the train part; others are gold that no probe can predict, and count as
# missed. A span of no words, or one whose words own no piece, is left out and counted. Costs one
# byte a target and label.


@dataclass(frozen=True)
class Examples:
    """Targets of a task, or some of them."""

    task: Task
    names: tuple[str, ...]  # labels seen in train
    span1: Tensor  # [n, 2], half-open rows of the corpus' words
    span2: Tensor | None  # [n, 2]; None where a target is one span
    labels: Tensor  # [n, labels], bool
    unseen: Tensor  # [n], how many gold labels are not among `names`
    part: Tensor  # [n], place in PARTS
    document: Tensor  # [n]
    edge: Tensor  # [n], place among the layer's edges
    left_out: Mapping[str, int]  # why targets were left out, and how many

    def __len__(self) -> int:
        return len(self.span1)

    @property
    def spans(self) -> tuple[Tensor, ...]:
        return (self.span1,) if self.span2 is None else (self.span1, self.span2)

    @property
    def scored(self) -> Tensor:
        """Which labels count in the score.  # [labels], bool"""
        task = self.task
        wanted = [
            name == task.positive if task.positive else not task.left_out(name)
            for name in self.names
        ]
        return torch.tensor(wanted, dtype=torch.bool)

    @property
    def single(self) -> bool:
        """Whether each target has one label."""
        return bool(((self.labels.sum(1) + self.unseen) == 1).all())

    def softmax(self, loss: LossName) -> bool:
        """Whether probes learn one label a target by softmax, or each label by a sigmoid."""
        one = bool((self.labels[self.of(TRAIN)].sum(1) == 1).all())
        if loss == "softmax" and not one:
            raise WorkbenchError(
                "a softmax predicts one label, and some targets have several or none.",
                where=self.task.name,
                remedy="Leave loss at auto, or leave this task out with tasks=.",
            )
        return one and loss != "sigmoid"

    def of(self, part: str) -> Tensor:
        """Places of the targets of a part.  # [some]"""
        return torch.nonzero(self.part == PARTS.index(part)).flatten()

    def take(self, places: Tensor) -> "Examples":
        """Some of them."""
        return replace(
            self,
            span1=self.span1[places],
            span2=None if self.span2 is None else self.span2[places],
            labels=self.labels[places],
            unseen=self.unseen[places],
            part=self.part[places],
            document=self.document[places],
            edge=self.edge[places],
        )


def examples_of(
    task: Task,
    batch: Batch,
    part_of: NDArray[np.int64],
    missing: Tensor,
    most: int | None,
    seed: int,
) -> Examples:
    """All targets of a task; of train at most `most`, sampled by the seed.

    `part_of` is the part of each document, `missing` which words have no states.
    """
    edges = batch.edges[task.layer]
    number = len(edges.span1)
    document = np.repeat(np.arange(len(batch)), np.diff(edges.offsets))  # [edges]
    start = batch.word_offsets[document]
    two = bool((edges.span2 >= 0).any())
    spans = [edges.span1 + start[:, None], edges.span2 + start[:, None]][: 1 + two]
    keep = np.ones(number, dtype=np.bool_)
    left: Counter[str] = Counter()

    def leave(bad: NDArray[np.bool_], why: str) -> None:
        if number_of := int((keep & bad).sum()):
            left[why] += number_of
        keep[bad] = False

    if two:
        leave(edges.span2[:, 0] < 0, "have one span where others have two")
    leave(_any(spans, lambda span: span[:, 1] <= span[:, 0]), "have a span of no words")
    gone = np.concatenate([[0], np.cumsum(missing.numpy())])  # words without states so far
    leave(
        _any(spans, lambda span: gone[span[:, 1]] - gone[span[:, 0]] == span[:, 1] - span[:, 0]),
        "have a span whose words the model did not read",
    )
    part = part_of[document]
    train = np.flatnonzero(keep & (part == PARTS.index(TRAIN)))
    if most is not None and len(train) > most:
        chosen = Random(f"examples {task.layer} {seed}").sample(range(len(train)), most)
        keep[np.delete(train, chosen)] = False
        train = train[np.sort(chosen)]
    labels, names = _labels(edges, train)
    places = np.flatnonzero(keep)
    gold = torch.from_numpy(labels[places])
    total = torch.from_numpy(np.diff(edges.label_offsets)[places])
    rows = [torch.from_numpy(span[places].astype(np.int64)) for span in spans]
    return Examples(
        task=task,
        names=names,
        span1=rows[0],
        span2=rows[1] if two else None,
        labels=gold,
        unseen=total - gold.sum(1),
        part=torch.from_numpy(part[places]),
        document=torch.from_numpy(document[places]),
        edge=torch.from_numpy(places),
        left_out=dict(left),
    )


def _any(
    spans: list[NDArray[np.int64]], bad: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    found = bad(spans[0])
    return found | bad(spans[1]) if len(spans) > 1 else found


def _labels(edges: Edges, train: NDArray[np.int64]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Which of the labels seen in train each edge has.  # [edges, labels]"""
    table = np.zeros((len(edges.span1), len(edges.names)), dtype=np.bool_)
    rows = np.repeat(np.arange(len(edges.span1)), np.diff(edges.label_offsets))
    table[rows, edges.labels] = True
    seen = table[train].any(axis=0)
    names = tuple(edges.names[place] for place in np.flatnonzero(seen))
    return np.ascontiguousarray(table[:, seen]), names


# --- control tasks (Hewitt and Liang 2019): labels that only a memory for words can learn ---------
#
# Each type draws one label at random from the task's own distribution, and keeps it wherever it
# stands, in train and in test. The type of a target is the words of its first span. What a probe
# scores on this is its own doing and not the model's; the difference is its selectivity. Costs
# one draw a type.


def control_labels(examples: Examples, words: list[str], seed: int) -> Tensor:
    """Labels by type; `words` are those of the whole corpus.  # [n, labels], bool"""
    train = examples.of(TRAIN).tolist()
    drawn: dict[str, int] = {}
    for first, last in examples.span1.tolist():
        kind = " ".join(words[first:last])
        if kind not in drawn:
            drawn[kind] = Random(f"control {seed} {kind}").choice(train)
    rows = [drawn[" ".join(words[first:last])] for first, last in examples.span1.tolist()]
    return examples.labels[torch.tensor(rows, dtype=torch.long)]


def order_of(number: int, seed: int) -> Tensor:
    """A random order of so many targets.  # [n]"""
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed))
