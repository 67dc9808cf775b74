"""Targets of one task: spans as rows of the corpus' words, labels as numbers, the part of each.

Labels are those of the train part; others are gold that no probe can predict, and count as missed.
A span of no words, or one whose words own no piece, is left out and counted. Costs one byte a
target and label.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.tasks import Task
from workbench.engine.batch import Batch, Edges
from workbench.errors import WorkbenchError
from workbench.splits import PARTS, TRAIN

LossName = Literal["auto", "softmax", "sigmoid"]


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
