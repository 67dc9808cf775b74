"""How well a model answers, text by text, so that two answers can be compared pair by pair.

Sums of nats, of what was right and of what was asked for; a loss is a sum over a sum, so that long
texts count for what they are. Costs a forward pass; memory is a few numbers a text.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.engine.halving import Limit, in_halves
from workbench.engine.taps import Tap
from workbench.models.aims import Aim, Answer, Question
from workbench.models.huggingface import HuggingFace

Floats = NDArray[np.float64]
METRICS = ("loss", "accuracy")
Told = Callable[[int], object]  # so many texts


@dataclass(frozen=True)
class Texts:
    """Sums of each text, in the order in which they were asked."""

    nats: Floats  # [texts]
    right: Floats
    number: Floats

    def part(self, metric: str) -> Floats:
        """The sums that a metric adds up.  # [texts]"""
        return self.nats if metric == "loss" else self.right

    def value(self, metric: str) -> float:
        """Nats a piece or text, or the share that was right; of nothing, 0."""
        whole = self.number.sum()
        return float(self.part(metric).sum() / whole) if whole else 0.0


def numbers_of(answer: Answer) -> Floats:
    """Nats, right and number of each text, on the host.  # [3, texts]"""
    both = torch.stack([answer.nats.detach().double(), answer.right.double(), answer.number])
    return both.cpu().numpy()


def asked(
    model: HuggingFace,
    aim: Aim,
    questions: Iterable[Question],
    taps: Callable[[Question], Sequence[Tap]] | Sequence[Tap] = (),
) -> Texts:
    """Ask every question once."""
    parts, room = [np.zeros((3, 0))], Limit()

    @torch.no_grad()
    def ask(question: Question) -> Floats:
        own = taps(question) if callable(taps) else taps
        return numbers_of(aim.answer(model, question, own))

    for question in questions:
        parts += [numbers for _, numbers in in_halves(ask, question, room)]
    return Texts(*np.concatenate(parts, 1))
