"""How much each head matters to first order: the gradient of the loss at its gate, text by text.

A gate at 1 scales what a head hands on. The gradient of a text's loss says how the loss would fall
if the gate were closed a little; its size, not its sign, is the importance (Michel et al. 2019),
and it is of single texts, for what helps one and harms another must not cancel. Every row of a
batch has gates of its own, so one backward pass gives the gradients of all its texts. Costs a
forward and a backward pass, and a number a text and head.
"""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.engine.halving import Limit, in_halves
from workbench.engine.taps import Gate
from workbench.models.aims import Aim, Question
from workbench.models.huggingface import HuggingFace
from workbench.pruning.gating import Head, heads_of, opened
from workbench.pruning.texts import Floats, Texts, Told, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


@dataclass(frozen=True)
class GateGradients:
    """Of every text and head, in nats; and the texts' own losses, with all gates open."""

    heads: list[Head]
    values: Floats  # [texts, heads]
    texts: Texts

    def importance(self) -> Floats:
        """Mean size of the gradient, in nats a piece or text.  # [heads]"""
        found: Floats = np.abs(self.values).sum(0) / max(self.texts.number.sum(), 1)
        return found

    def together(self, groups: Iterable[Iterable[Head]]) -> Floats:
        """The same of gates that several heads share.  # [groups]"""
        index = {head: number for number, head in enumerate(self.heads)}
        sums = [self.values[:, [index[head] for head in group]].sum(1) for group in groups]
        whole = max(self.texts.number.sum(), 1)
        return np.array([np.abs(each).sum() / whole for each in sums])


def gate_gradients(
    model: HuggingFace,
    aim: Aim,
    questions: Iterable[Question],
    told: Told | None = None,
    gone: Iterable[Head] = (),
) -> GateGradients:
    """One forward and one backward pass over the questions; `gone` are closed throughout."""
    heads = heads_of(model)
    sites, numbers = np.array(heads).T
    shut = list(gone)
    values, texts, done = [np.zeros((0, len(heads)))], [np.zeros((3, 0))], 0

    def ask(question: Question) -> tuple[Floats, Floats]:
        gates = opened(model, len(question))  # [batch, sites, heads]
        for site, head in shut:
            gates[:, site, head] = 0
        gates.requires_grad_(True)
        answer = aim.answer(model, question, [Gate(gates)])
        gradient: Tensor
        (gradient,) = torch.autograd.grad(answer.nats.sum(), gates)
        own: Floats = gradient.double().cpu().numpy()[:, sites, numbers]
        return own, numbers_of(answer)

    room = Limit()
    with _frozen_weights(model), torch.enable_grad():
        for question in questions:
            for part, (own, sums) in in_halves(ask, question, room):
                values.append(own)
                texts.append(sums)
                done += len(part)
                if told is not None:
                    told(done)
    return GateGradients(heads, np.concatenate(values), Texts(*np.concatenate(texts, 1)))


@contextmanager
def _frozen_weights(model: HuggingFace) -> "Iterator[None]":
    """No gradients of weights are computed, and so none are kept."""
    moving = [weight for weight in model.net.parameters() if weight.requires_grad]
    for weight in moving:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in moving:
            weight.requires_grad_(True)
