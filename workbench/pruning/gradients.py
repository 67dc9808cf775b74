"""How much each head matters to first order: the slope of the loss at its gate, text by text.

A gate at 1 scales what a head hands on. The slope of a text's loss says how the loss would fall if
the gate were closed a little; its size, not its sign, is the importance (Michel et al. 2019), and
it is of single texts, for what helps one and harms another must not cancel. Every row of a batch
has gates of its own, so one backward pass gives the slopes of all its texts. Costs a forward and a
backward pass, and a number a text and head.
"""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.engine.taps import Gate
from workbench.models.aims import Aim, Question
from workbench.models.huggingface import HuggingFace
from workbench.pruning.gating import Head, heads_of, opened
from workbench.pruning.texts import Floats, Told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


@dataclass(frozen=True)
class Slopes:
    """Of every text and head, in nats."""

    heads: list[Head]
    slopes: Floats  # [texts, heads]
    number: Floats  # [texts], pieces or classes asked for

    def importance(self) -> Floats:
        """Mean size of the slope, in nats a piece or text.  # [heads]"""
        found: Floats = np.abs(self.slopes).sum(0) / max(self.number.sum(), 1)
        return found

    def together(self, groups: Iterable[Iterable[Head]]) -> Floats:
        """The same of gates that several heads share.  # [groups]"""
        place = {head: number for number, head in enumerate(self.heads)}
        sums = [self.slopes[:, [place[head] for head in group]].sum(1) for group in groups]
        whole = max(self.number.sum(), 1)
        return np.array([np.abs(each).sum() / whole for each in sums])


def slopes_of(
    model: HuggingFace,
    aim: Aim,
    questions: Iterable[Question],
    told: Told | None = None,
    gone: Iterable[Head] = (),
) -> Slopes:
    """Ask every question, and go back once; `gone` are closed throughout."""
    heads = heads_of(model)
    sites, places = (torch.tensor(each, dtype=torch.long) for each in zip(*heads, strict=True))
    shut = list(gone)
    parts, numbers, done = [np.zeros((0, len(heads)))], [np.zeros(0)], 0
    with _weights_still(model), torch.enable_grad():
        for question in questions:
            gates = opened(model, len(question))
            for site, head in shut:
                gates[:, site, head] = 0
            gates.requires_grad_(True)
            answer = aim.answer(model, question, [Gate(gates)])
            slope: Tensor
            (slope,) = torch.autograd.grad(answer.nats.sum(), gates)
            parts.append(slope[:, sites, places].double().cpu().numpy())
            numbers.append(answer.number.double().cpu().numpy())
            done += len(question)
            if told is not None:
                told(done)
    return Slopes(heads, np.concatenate(parts), np.concatenate(numbers))


@contextmanager
def _weights_still(model: HuggingFace) -> "Iterator[None]":
    """No slopes of weights are asked for, and so none are kept."""
    moving = [weight for weight in model.net.parameters() if weight.requires_grad]
    for weight in moving:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in moving:
            weight.requires_grad_(True)
