"""Tasks made ready for training: targets by part, labels true and of the control task.

A task without targets to learn from or to be scored on is left out, and that is said. Costs what
`examples` costs, and one draw a word type.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from probes.control import control_labels
from probes.examples import Examples, LossName, examples_of
from probes.inputs import Opened
from probes.stack import Data, data_of
from workbench.errors import WorkbenchError
from workbench.experiment import Caveat
from workbench.splits import DEV, TEST, TRAIN

# Dev targets scored after each epoch: half as many as may be trained on, within these bounds.
DEV_LEAST, DEV_MOST = 500, 2_000


@dataclass(frozen=True)
class Ready:
    """A task made ready: its targets by part, and what they are called."""

    examples: Examples
    train: Data
    dev: Data
    test: Data
    tested: Examples


def ready_tasks(
    read: Opened, targets: int | None, loss: LossName, seed: int
) -> tuple[dict[str, Ready], list[Caveat]]:
    """The tasks that have targets, with at most `targets` to train on; caveats about the others."""
    ready: dict[str, Ready] = {}
    caveats = []
    words = read.words
    for task in read.tasks:
        examples = examples_of(task, read.batch, read.part_of, read.encoded.missing, targets, seed)
        for why, number in examples.left_out.items():
            caveats.append(Caveat(f"{task.name}: {number:,} targets {why}, and are left out."))
        learnt, dev, test = (examples.of(part) for part in (TRAIN, DEV, TEST))
        if not len(learnt) or not len(test):
            part = "train" if not len(learnt) else "test"
            caveats.append(Caveat(f"{task.name} has no targets in {part}, and is left out."))
            continue
        control = control_labels(examples, words, seed)
        data = data_of(examples, control, examples.softmax(loss))
        most = DEV_MOST if targets is None else min(DEV_MOST, max(DEV_LEAST, targets // 2))
        if len(dev) > most:
            chosen = torch.randperm(len(dev), generator=torch.Generator().manual_seed(seed))
            dev = dev[chosen[:most].sort().values]
        tested = examples.take(test)
        ready[task.name] = Ready(
            examples, data.take(learnt), data.take(dev), data.take(test), tested
        )
        caveats += [Caveat(f"{task.name}: {said}") for said in _odd(examples, len(dev), tested)]
    if not ready:
        raise WorkbenchError(
            "no task has targets both to learn from and to be scored on.",
            where=", ".join(task.name for task in read.tasks),
            remedy="Give more sentences, with --limit or a larger corpus.",
        )
    return ready, caveats


def _odd(examples: Examples, dev: int, tested: Examples) -> Iterator[str]:
    if len(examples.names) == 1 and bool(examples.labels[examples.of(TRAIN)].all()):
        yield f"every target to learn from is {examples.names[0]!r}, so a score says nothing."
    if not dev:
        yield "dev has no targets, so probes stopped by what they learnt from."
    if (names := examples.names) and not bool(examples.scored[_commonest(examples)]):
        yield (
            f"its most frequent label, {names[_commonest(examples)]!r}, does not count in the "
            "score; the majority baseline predicts the most frequent label that does."
        )
    if unseen := int(tested.unseen.sum()):
        yield f"{unseen:,} gold labels do not occur in train, and count as missed."


def _commonest(examples: Examples) -> int:
    """The place of the most frequent label of train."""
    return int(examples.labels[examples.of(TRAIN)].sum(0).argmax())
