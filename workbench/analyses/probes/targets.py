"""Probing tasks of a corpus, and their targets as tensors.

The eight tasks of Tenney et al. 2019 are known by name, also under the names of other data sets
(`srl-ewt` contains roles). Any other layer of labelled edges is a task of its own. Costs: one byte
per target and label.
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

from workbench.analyses.probes.experiments import LossName
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.corpora.splits import PARTS, TRAIN
from workbench.engine.batch import Batch, Edges


def _none(label: str) -> bool:
    return False


@dataclass(frozen=True)
class Task:
    """A probing task: labels of one corpus layer, predicted from spans."""

    name: str
    layer: str  # name of the corpus layer
    about: str = ""
    positive: str = ""  # the only label that F1 scores; "": all labels
    left_out: Callable[[str], bool] = _none  # labels that are trained on but not scored

    @property
    def metric(self) -> str:
        return "positive_f1" if self.positive else "micro_f1"


@dataclass(frozen=True)
class _Known:
    about: str
    aliases: tuple[str, ...] = ()  # names in other data sets
    positive: str = ""
    left_out: Callable[[str], bool] = _none


KNOWN: Mapping[str, _Known] = {
    "pos": _Known("the part of speech of a word"),
    "constituents": _Known("the category of a phrase", ("constituent", "nonterminal", "phrases")),
    "dependencies": _Known("the relation of a word to its head", ("dep", "deps", "ud")),
    "entities": _Known("the type of a named entity", ("ner", "entity")),
    "roles": _Known(
        "the role of an argument of a predicate",
        ("srl", "propbank"),
        left_out=lambda label: label.startswith(("R-", "C-")),
    ),
    "coreference": _Known(
        "whether two mentions refer to the same entity", ("coref",), positive="1"
    ),
    "proto-roles": _Known("the properties of an argument", ("spr", "spr1", "spr2", "protoroles")),
    "relations": _Known(
        "the relation between two entities",
        ("rel", "semeval", "relation"),
        left_out=lambda label: label.split("(")[0] in ("Other", "no_relation"),
    ),
}  # in the order of the published pipeline
ON_REQUEST = ("tags", "answers", "segments")  # layers that are a task only if named
_READABLE = ("pos", "tags", "dependencies", "entities", "constituents", "coreference", "answers")


def tasks_of(
    layers: Iterable[str], names: Sequence[str] = (), edges: Iterable[str] = (), where: str = ""
) -> tuple[Task, ...]:
    """The tasks of a corpus with these layers; `edges` are its layers of labelled edges.

    All tasks in the order of the pipeline, or the named ones. A name is that of a task or a layer,
    or an alias of the task.
    """
    present = [*(layer for layer in _READABLE if layer in set(layers)), *sorted(set(edges))]
    available = _tasks(present)
    if not names:
        tasks = [task for task in available if task.layer not in ON_REQUEST]
        if not tasks:
            raise WorkbenchError(
                "the corpus has no layer to probe.",
                code="layer-missing",
                where=where,
                remedy="Choose a corpus with parts of speech, trees, entities or labelled edges: "
                "CoNLL-U, brackets, or edge JSONL (of a whole text, span1 is all words).",
            )
        return tuple(tasks)
    chosen = []
    for name in dict.fromkeys(names):
        match = next((task for task in available if name in _names(task)), None)
        if match is None:
            known = [task.name for task in available]
            raise WorkbenchError(
                f"the corpus has no task {name!r}.",
                code="task-not-found",
                where=where,
                remedy=did_you_mean(name, known),
            )
        chosen.append(match)
    return tuple(chosen)


def _tasks(layers: Sequence[str]) -> list[Task]:
    """A task for each layer; two layers of one known task keep their layer names."""
    kinds = {layer: _kind(layer) for layer in layers}
    tasks = []
    for layer, kind in kinds.items():
        known = KNOWN.get(kind, _Known(""))
        is_only = list(kinds.values()).count(kind) == 1
        name = kind if kind and is_only else layer
        tasks.append(Task(name, layer, known.about, known.positive, known.left_out))
    order = list(KNOWN)
    return sorted(
        tasks, key=lambda t: (order.index(k) if (k := kinds[t.layer]) else len(order), t.name)
    )


def _names(task: Task) -> tuple[str, ...]:
    """All names of a task in a request."""
    known = KNOWN.get(task.name, _Known(""))
    return (task.name, task.layer, *known.aliases)


def _kind(layer: str) -> str:
    """The known task that a layer's name matches, or ""."""
    for part in [layer.lower(), *re.split(r"[^a-z0-9]+", layer.lower())]:
        for name, known in KNOWN.items():
            if part == name or part in known.aliases:
                return name
    return ""


# --- targets as tensors ---------------------------------------------------------------------------
#
# Spans are rows of the corpus' words, labels are columns. Labels are those of train; other gold
# labels cannot be predicted by any probe and count as missed. Targets with an empty span, or a span
# whose words own no piece, are left out and counted.


@dataclass(frozen=True)
class Examples:
    """Targets of a task, or a subset of them."""

    task: Task
    names: tuple[str, ...]  # labels seen in train
    span1: Tensor  # [n, 2], half-open rows of the corpus' words
    span2: Tensor | None  # [n, 2]; None where a target is one span
    labels: Tensor  # [n, labels], bool
    unseen: Tensor  # [n], number of gold labels that are not in `names`
    part: Tensor  # [n], index in PARTS
    document: Tensor  # [n]
    edge: Tensor  # [n], index of the edge in the layer
    left_out: Mapping[str, int]  # number of targets that were left out, by reason

    def __len__(self) -> int:
        return len(self.span1)

    @property
    def spans(self) -> tuple[Tensor, ...]:
        return (self.span1,) if self.span2 is None else (self.span1, self.span2)

    @property
    def scored(self) -> Tensor:
        """Mask of the labels that count in the score.  # [labels], bool"""
        task = self.task
        is_scored = [
            name == task.positive if task.positive else not task.left_out(name)
            for name in self.names
        ]
        return torch.tensor(is_scored, dtype=torch.bool)

    @property
    def single(self) -> bool:
        """Whether each target has one label."""
        return bool(((self.labels.sum(1) + self.unseen) == 1).all())

    def softmax(self, loss: LossName) -> bool:
        """Whether probes use one softmax per target; otherwise one sigmoid per label."""
        one_label = bool((self.labels[self.of(TRAIN)].sum(1) == 1).all())
        if loss == "softmax" and not one_label:
            raise WorkbenchError(
                "softmax predicts one label per target, but some targets have several or none.",
                code="setting-invalid",
                where=self.task.name,
                remedy="Set loss=auto, or list the other tasks in tasks=.",
            )
        return one_label and loss != "sigmoid"

    def of(self, part: str) -> Tensor:
        """Indices of the targets of a part.  # [targets of the part]"""
        return torch.nonzero(self.part == PARTS.index(part)).flatten()

    def take(self, indices: Tensor) -> "Examples":
        """The targets at these indices."""
        return replace(
            self,
            span1=self.span1[indices],
            span2=None if self.span2 is None else self.span2[indices],
            labels=self.labels[indices],
            unseen=self.unseen[indices],
            part=self.part[indices],
            document=self.document[indices],
            edge=self.edge[indices],
        )


def examples_of(
    task: Task,
    batch: Batch,
    part_of: NDArray[np.int64],
    missing: Tensor,
    max_targets: int | None,
    seed: int,
) -> Examples:
    """All targets of a task, with a maximum of `max_targets` for train, sampled with the seed.

    `part_of` is the part of each document; `missing` is the mask of words without states.
    """
    edges = batch.edges[task.layer]
    document = np.repeat(np.arange(len(batch)), np.diff(edges.offsets))  # [edges]
    start = batch.word_offsets[document]
    two = bool((edges.span2 >= 0).any())
    spans = [edges.span1 + start[:, None], edges.span2 + start[:, None]][: 1 + two]
    keep = np.ones(len(edges.span1), dtype=np.bool_)
    left_out: Counter[str] = Counter()

    def leave_out(bad: NDArray[np.bool_], reason: str) -> None:
        if n_bad := int((keep & bad).sum()):
            left_out[reason] += n_bad
        keep[bad] = False

    if two:
        leave_out(edges.span2[:, 0] < 0, "have one span where others have two")
    leave_out(_any(spans, lambda span: span[:, 1] <= span[:, 0]), "have an empty span")
    n_missing = np.concatenate([[0], np.cumsum(missing.numpy())])  # words without states so far

    def is_unread(span: NDArray[np.int64]) -> NDArray[np.bool_]:
        length = span[:, 1] - span[:, 0]
        unread: NDArray[np.bool_] = n_missing[span[:, 1]] - n_missing[span[:, 0]] == length
        return unread

    leave_out(
        _any(spans, is_unread),
        "have a span of words that the model did not read or that have no piece of their own",
    )
    part = part_of[document]
    train = np.flatnonzero(keep & (part == PARTS.index(TRAIN)))
    if max_targets is not None and len(train) > max_targets:
        sample = Random(f"examples {task.layer} {seed}").sample(range(len(train)), max_targets)
        keep[np.delete(train, sample)] = False
        train = train[np.sort(sample)]
    labels, names = _labels(edges, train)
    indices = np.flatnonzero(keep)
    gold = torch.from_numpy(labels[indices])
    total = torch.from_numpy(np.diff(edges.label_offsets)[indices])
    rows = [torch.from_numpy(span[indices].astype(np.int64)) for span in spans]
    return Examples(
        task=task,
        names=names,
        span1=rows[0],
        span2=rows[1] if two else None,
        labels=gold,
        unseen=total - gold.sum(1),
        part=torch.from_numpy(part[indices]),
        document=torch.from_numpy(document[indices]),
        edge=torch.from_numpy(indices),
        left_out=dict(left_out),
    )


def _any(
    spans: list[NDArray[np.int64]], bad: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """Whether any span of each target is bad.  # [edges]"""
    is_bad = bad(spans[0])
    return is_bad | bad(spans[1]) if len(spans) > 1 else is_bad


def _labels(edges: Edges, train: NDArray[np.int64]) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Labels of each edge, out of those seen in train, and their names.  # [edges, labels]"""
    table = np.zeros((len(edges.span1), len(edges.names)), dtype=np.bool_)
    rows = np.repeat(np.arange(len(edges.span1)), np.diff(edges.label_offsets))
    table[rows, edges.labels] = True
    seen = table[train].any(axis=0)
    names = tuple(edges.names[index] for index in np.flatnonzero(seen))
    return np.ascontiguousarray(table[:, seen]), names


# --- control tasks (Hewitt and Liang 2019): labels that can only be memorised by word type --------
#
# Each word type gets one random label from the task's own distribution, the same everywhere in
# train and test. The type of a target is the words of its first span. The score on this task shows
# what the probe memorises, not what the model encodes; score minus control score is the
# selectivity. Costs: one random draw per type.


def control_labels(examples: Examples, words: list[str], seed: int) -> Tensor:
    """Random labels by word type; `words` are all words of the corpus.  # [n, labels], bool"""
    train = examples.of(TRAIN).tolist()
    source_of: dict[str, int] = {}  # by type: the train target whose labels it takes
    for first, last in examples.span1.tolist():
        word_type = " ".join(words[first:last])
        if word_type not in source_of:
            source_of[word_type] = Random(f"control {seed} {word_type}").choice(train)
    rows = [source_of[" ".join(words[first:last])] for first, last in examples.span1.tolist()]
    return examples.labels[torch.tensor(rows, dtype=torch.long)]


def order_of(n_targets: int, seed: int) -> Tensor:
    """A random order of the targets.  # [n]"""
    return torch.randperm(n_targets, generator=torch.Generator().manual_seed(seed))
