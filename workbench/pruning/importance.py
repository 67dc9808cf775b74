"""How much each head matters to first order (Michel et al. 2019): the experiment `head-importance`.

One forward and one backward pass over the corpus; see `gradients`.
"""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from workbench.core.experiment import Inputs, Progress, Result
from workbench.core.stats import ratio_intervals
from workbench.engine.halving import Limit, in_halves
from workbench.engine.taps import Gate
from workbench.models.eval_tasks import Aim, Question
from workbench.models.huggingface import HuggingFace
from workbench.pruning.evaluation import (
    Floats,
    Texts,
    Told,
    asking,
    baseline,
    caveats,
    not_better,
    numbers_of,
)
from workbench.pruning.experiments import Aimed
from workbench.pruning.head_masks import Head, heads_of, named, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

# --- gradients at the gates -----------------------------------------------------------------------
#
# How much each head matters to first order: the gradient of the loss at its gate, text by text.
#
# A gate at 1 scales what a head hands on. The gradient of a text's loss says how the loss would
# fall if the gate were closed a little; its size, not its sign, is the importance (Michel et al.
# 2019), and it is of single texts, for what helps one and harms another must not cancel. Every
# row of a batch has gates of its own, so one backward pass gives the gradients of all its texts.
# Costs a forward and a backward pass, and a number a text and head.


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


# --- the experiment `head-importance` -------------------------------------------------------------


def table_of(model: HuggingFace, gradients: GateGradients, seed: int) -> pd.DataFrame:
    """A row a head."""
    sites = {site.index: site for site in model.sites}
    found, number = gradients.importance(), gradients.texts.number
    lower, upper = ratio_intervals(np.abs(gradients.values), number, seed)
    first = -gradients.values.sum(0) / max(number.sum(), 1)
    of_site = np.array([site for site, _ in gradients.heads])
    norm = np.array([np.sqrt(np.square(found[of_site == site]).sum()) for site in of_site])
    rows = [
        {
            **named(sites[site], head),
            "importance": found[row],
            "importance_lower": lower[row],
            "importance_upper": upper[row],
            "importance_normalised": found[row] / norm[row] if norm[row] else 0.0,
            "first_order": first[row],
            "n": int(number.sum()),
        }
        for row, (site, head) in enumerate(gradients.heads)
    ]
    return pd.DataFrame(rows)


def run(inputs: Inputs, settings: Aimed, progress: Progress) -> Result:
    """Go forward and back once."""
    asked = asking(inputs, settings)
    total = len(asked.batch)
    gradients = gate_gradients(
        asked.model, asked.aim, asked.questions, lambda done: progress(done, total, "texts")
    )
    whole = baseline(asked, gradients.texts, inputs.seed)
    tables = {"importance": table_of(asked.model, gradients, inputs.seed), "baseline": whole}
    notes = caveats(asked, len(gradients.texts.number))
    return Result(tables, caveats=(*notes, *not_better(whole)))
