"""What a head writes into a prediction and a layer into its states, and what is lost by an edit.

Direct contributions are those of `wb.contributions`, states those of `wb.Read`, losses those of
`head-ablation`. Costs: a forward pass for what is written; for a loss, two over the texts.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor
from torch.nn.functional import cosine_similarity

from workbench.analyses.lenses.contributions import columns_of, contributions_of, stack_of
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target
from workbench.analyses.pruning.evaluation import build_head_evaluation, with_heads
from workbench.core.stats import ratio_intervals
from workbench.corpora.encode import encode
from workbench.engine.forward_pass import forward
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.models.interventions.direct_contributions import reader
from workbench.models.interventions.states import Read

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


def layers_of_text(model: Model, doc: "Doc", stack: StackName) -> pd.DataFrame:
    """What each layer of a stack does to the states of a text, as means over its pieces.

    layer: from 1. attention, cross-attention, MLP: the length of what it adds to the state, as a
    share of the length of the state before the layer. kept: cosine of the states before and after
    the layer. like 1, like 2, …: cosine of its states with those of each layer.
    """
    n_layers = next(each.layers for each in model.stacks if each.name == stack)
    kinds = {site.kind for site in model.sites if site.stack == stack}
    parts = {"attention": "attention", "cross-attention": "cross-attention", "MLP": "mlp"}
    if "cross" not in kinds:
        del parts["cross-attention"]
    blocks = [f"{stack} block {n}" for n in range(1, n_layers + 1)]
    states = [f"{stack} embeddings", *blocks]
    read = Read([*states, *(f"{b} {part}" for b in blocks for part in parts.values() if kinds)])
    forward(model, encode([doc]), taps=[read], hidden=False)

    def seen(site: str) -> Tensor:
        return read[site][0].double()  # [pieces, width]

    def alike(one: str, other: str) -> float:
        return float(cosine_similarity(seen(one), seen(other), dim=-1).mean())

    rows = []
    for number, (before, block) in enumerate(pairwise(states), 1):
        size = seen(before).norm(dim=-1)
        added = {
            name: float((seen(f"{block} {part}").norm(dim=-1) / size).mean()) if kinds else np.nan
            for name, part in parts.items()
        }
        like = {f"like {n}": alike(block, each) for n, each in enumerate(blocks, 1)}
        rows.append({"layer": number, **added, "kept": alike(before, block), **like})
    return pd.DataFrame(rows)


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
