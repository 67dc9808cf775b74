"""What trained probes say of held-out targets: counts by sentence and by label, and each answer.

One pass over the targets, all probes at once; what stays is a few counts a sentence and one number
a target and probe. Also the majority's answer, which needs no probe.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.bank import Bank
from probes.examples import Examples
from probes.stack import Data, Trained, counted, outputs, predictions
from workbench.splits import TRAIN

NOTHING = -1  # no label was said


@dataclass(frozen=True)
class Measured:
    """Answers of some probes on the same targets."""

    counts: NDArray[np.int32]  # [probes, documents, 3]: rightly said, said, there
    labels: NDArray[np.int32]  # [probes, labels, 3]
    likeliest: NDArray[np.int16]  # [probes, n], the label with the largest logit
    right: NDArray[np.bool_]  # [probes, n], the likeliest is gold; of several, all and no more


def measured(
    trained: Trained, bank: Bank, data: Data, document: Tensor, documents: int, single: bool
) -> Measured:
    """Send every target through every probe; `document` is where each is counted, of so many."""
    number = len(trained.probes)
    control = torch.tensor([int(probe.control) for probe in trained.probes], device=bank.device)
    counts = torch.zeros(number, documents, 3, dtype=torch.int32, device=bank.device)
    labels = torch.zeros(number, trained.shape.labels, 3, dtype=torch.int32, device=bank.device)
    likeliest, right = [], []
    for places, said in outputs(trained.shape, trained.own, trained.reads, bank, data.spans):
        part = data.take(places)
        each = counted(said, part, control)  # [probes, some, 3]
        counts.index_add_(1, document[places].to(bank.device), each.int())
        wanted = part.labels.to(said.device).index_select(0, control)
        answers = predictions(said, data.softmax)
        labels += torch.stack([answers & wanted, answers, wanted], dim=3).sum(1).int()
        best = said.argmax(2)  # [probes, some]
        hit = wanted.gather(2, best[..., None])[..., 0]
        likeliest.append(best.short().cpu())
        unseen = part.unseen.to(said.device) * (control == 0)[:, None]
        right.append((hit if single else (answers == wanted).all(2) & (unseen == 0)).cpu())
    return Measured(
        counts.cpu().numpy(),
        labels.cpu().numpy(),
        _joined(likeliest, number).numpy(),
        _joined(right, number).numpy().astype(np.bool_),
    )


def _joined(parts: list[Tensor], number: int) -> Tensor:
    return torch.cat(parts, dim=1) if parts else torch.zeros(number, 0)


def majority(examples: Examples, data: Data) -> Tensor:
    """Counts of always predicting the most frequent label that is scored (of several labels a
    target: each that most targets have).  # [n, 3] of `data`
    """
    frequency = examples.labels[examples.of(TRAIN)].double().mean(0)  # [labels]
    frequency = torch.where(examples.scored, frequency, -1.0)
    if examples.single:
        predicted = torch.zeros(len(frequency), dtype=torch.bool)
        predicted[frequency.argmax()] = True
    else:
        predicted = frequency >= 0.5
    logits = torch.where(predicted, 1.0, -1.0).expand(1, len(data), -1)
    return counted(logits, data, torch.zeros(1, dtype=torch.long))[0]
