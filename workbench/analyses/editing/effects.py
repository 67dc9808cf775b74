"""What one head writes into a prediction, and what a model loses by an edit.

Direct contributions are those of `wb.contributions`, losses those of `head-ablation`. Costs: a
forward pass for what a head writes; for a loss, two over the texts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from workbench.analyses.lenses.contributions import columns_of, contributions_of, stack_of
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target
from workbench.analyses.pruning.evaluation import build_head_evaluation, with_heads
from workbench.core.stats import ratio_intervals
from workbench.engine.model import Model
from workbench.models.interventions.direct_contributions import reader

if TYPE_CHECKING:
    from spacy.tokens import Doc

Head = tuple[str, str, int, int]  # stack, kind of attention, and indices of layer and head


def written(
    model: Model, prediction: Prediction, choices: Sequence[int], head: Head
) -> pd.DataFrame:
    """What a head adds to the logit of each choice, and its rank among all heads by size.

    No rows if the head is not in the stack that the model's head reads.
    """
    opened = reader(model)
    found = contributions_of(opened, prediction, *(Target(choice) for choice in choices))
    parts = pd.DataFrame(columns_of(found.components, stack_of(opened)))
    is_head = (parts["part"] == "head").to_numpy()
    values = found.values[:, 0].cpu().numpy()[:, is_head]  # [choices, heads]
    own = parts.loc[is_head, ["stack", "kind", "layer", "head"]].apply(tuple, axis=1) == head
    if not own.any():
        return pd.DataFrame(columns=["choice", "contribution", "rank", "heads"])
    at = int(own.to_numpy().argmax())
    ranks = 1 + (np.abs(values) > np.abs(values[:, [at]])).sum(1)
    return pd.DataFrame(
        {
            "choice": prediction.names(list(choices)),
            "contribution": values[:, at],
            "rank": ranks,
            "heads": values.shape[1],
        }
    )


class Change(NamedTuple):
    """A metric of a model with and without an edit, with the interval of the difference."""

    metric: str
    before: float
    after: float
    lower: float
    upper: float
    n: int  # texts
    unit: str  # of the loss


def changes(model: Model, edited: Model, docs: "Sequence[Doc]", seed: int = 0) -> list[Change]:
    """The loss and the accuracy of a model on some texts with and without an edit."""
    evaluation = build_head_evaluation(model, docs, "", seed)
    before, after = evaluation.scored(), evaluation.scored(with_heads(edited))
    found = []
    for metric in before.metrics:
        difference = (after.part(metric) - before.part(metric))[:, None]  # [texts, 1]
        lower, upper = (float(end[0]) for end in ratio_intervals(difference, before.number, seed))
        values = before.value(metric), after.value(metric)
        unit = evaluation.aim.task.unit
        found.append(Change(metric, *values, lower, upper, len(before.number), unit))
    return found
