"""First-order importance of each head (Michel et al. 2019): the experiment `head-importance`.

Costs: one forward and one backward pass over the corpus.
"""

from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from workbench.analyses.pruning.evaluation import (
    OnProgress,
    TextScores,
    baseline,
    caveats,
    evaluation_of,
    learnt_texts_caveat,
    not_better_caveat,
    numbers_of,
)
from workbench.analyses.pruning.experiments import HeadImportance
from workbench.analyses.pruning.head_masks import Head, heads_of, named, opened
from workbench.core.arrays import Floats
from workbench.core.stats import ratio_intervals
from workbench.engine.halving import Limit, in_halves
from workbench.engine.taps import Gate
from workbench.engine.task import objective_table
from workbench.experiment.definition import Inputs, Progress, Result
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import EvalTask, Question

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

# --- gradients at the gates -----------------------------------------------------------------------
#
# First-order importance: the gradient of the loss at a head's gate, for each text.
#
# A gate of 1 multiplies the output of a head. The gradient of a text's loss at the gate predicts
# how the loss changes when the gate closes a little. Importance is its absolute value (Michel et
# al. 2019), for each text: a head that helps one text and harms another must not cancel out. Each
# row of a batch has its own gates, so one backward pass gives the gradients of all texts. Costs: a
# forward and a backward pass, and one number for each text and head.


@dataclass(frozen=True)
class GateGradients:
    """Gradients of every text and head in nats, and the scores of the texts with open gates."""

    heads: list[Head]
    values: Floats  # [texts, heads]
    texts: TextScores

    def importance(self) -> Floats:
        """Mean absolute gradient, in nats per piece or text.  # [heads]"""
        importance: Floats = np.abs(self.values).sum(0) / max(self.texts.number.sum(), 1)
        return importance

    def together(self, groups: Iterable[Iterable[Head]]) -> Floats:
        """Importance of gates that several heads share.  # [groups]"""
        index = {head: number for number, head in enumerate(self.heads)}
        sums = [self.values[:, [index[head] for head in group]].sum(1) for group in groups]
        total = max(self.texts.number.sum(), 1)
        return np.array([np.abs(each).sum() / total for each in sums])


def gate_gradients(
    model: HuggingFace,
    aim: EvalTask,
    questions: Iterable[Question],
    on_progress: OnProgress | None = None,
    removed: Iterable[Head] = (),
) -> GateGradients:
    """Gradients of all gates, by one forward and one backward pass; `removed` heads stay closed."""
    heads = heads_of(model)
    sites, numbers = np.array(heads).T
    closed = list(removed)
    values, texts, done = [np.zeros((0, len(heads)))], [np.zeros((3, 0))], 0

    def differentiate(question: Question) -> tuple[Floats, Floats]:
        gates = opened(model, len(question))  # [batch, sites, heads]
        for site, head in closed:
            gates[:, site, head] = 0
        gates.requires_grad_(True)
        answer = aim.answer(model, question, [Gate(gates)])
        gradient: Tensor
        (gradient,) = torch.autograd.grad(answer.nats.sum(), gates)
        by_head: Floats = gradient.double().cpu().numpy()[:, sites, numbers]
        return by_head, numbers_of(answer)

    room = Limit()
    with _frozen_weights(model), torch.enable_grad():
        for question in questions:
            for part, (by_head, sums) in in_halves(differentiate, question, room):
                values.append(by_head)
                texts.append(sums)
                done += len(part)
                if on_progress is not None:
                    on_progress(done)
    nats, right, number = np.concatenate(texts, 1)
    scores = TextScores(nats, right, number, aim.metrics)
    return GateGradients(heads, np.concatenate(values), scores)


@contextmanager
def _frozen_weights(model: HuggingFace) -> "Iterator[None]":
    """Compute no gradients of the weights inside this context, to save memory."""
    trainable = [weight for weight in model.net.parameters() if weight.requires_grad]
    for weight in trainable:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in trainable:
            weight.requires_grad_(True)


# --- the experiment `head-importance` -------------------------------------------------------------


def table_of(model: HuggingFace, gradients: GateGradients, seed: int) -> pd.DataFrame:
    """One row per head: importance with its interval, and first-order change of the loss."""
    sites = {site.index: site for site in model.sites}
    importances, number = gradients.importance(), gradients.texts.number
    lower, upper = ratio_intervals(np.abs(gradients.values), number, seed)
    first_order = -gradients.values.sum(0) / max(number.sum(), 1)
    of_site = np.array([site for site, _ in gradients.heads])
    norm = np.array([np.sqrt(np.square(importances[of_site == site]).sum()) for site in of_site])
    rows = [
        {
            **named(sites[site], head),
            "importance": importances[row],
            "importance_lower": lower[row],
            "importance_upper": upper[row],
            "importance_normalised": importances[row] / norm[row] if norm[row] else 0.0,
            "first_order": first_order[row],
            "n": int(number.sum()),
        }
        for row, (site, head) in enumerate(gradients.heads)
    ]
    return pd.DataFrame(rows)


def run(inputs: Inputs, settings: HeadImportance, progress: Progress) -> Result:
    """Compute the tables of `head-importance`."""
    evaluation = evaluation_of(inputs, settings)
    total = len(evaluation.batch)
    gradients = gate_gradients(
        evaluation.model,
        evaluation.aim,
        evaluation.questions,
        lambda done: progress(done, total, "measuring gradients"),
    )
    whole = baseline(evaluation, gradients.texts, inputs.seed)
    table = table_of(evaluation.model, gradients, inputs.seed)
    objective = objective_table(evaluation.aim.task)
    tables = {"importance": table, "baseline": whole, "objective": objective}
    notes = (*caveats(evaluation, len(gradients.texts.number)), *not_better_caveat(whole))
    return Result(tables, caveats=(*notes, *learnt_texts_caveat(inputs, evaluation)))
