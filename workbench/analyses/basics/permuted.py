"""Scores of XLNet by permuted prediction: means over random orders, and intervals over orders.

`profile` and `minimal-pairs` score texts by each order alone. Costs: six forward passes for each of
`ORDERS` orders.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from workbench.core.stats import t_interval
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.models.scoring.lm_scoring import Scores, score

ORDERS = 4  # random orders of each text
AS_TRAINED = (
    "A sixth of an order is predicted at a time, in order, from all else, as in the model's "
    "training"
)


def by_orders(
    model: Model, batch: Batch, documents: Sequence[int] | None = None, *, seed: int = 0
) -> list[Scores]:
    """The scores of documents by each order alone."""
    return [
        score(model, batch, documents, pseudo="permuted", seed=seed + order)
        for order in range(ORDERS)
    ]


def over_orders(values: ArrayLike) -> tuple[float, float, float]:
    """The mean over orders and its 95 % interval.  # [orders]"""
    of_orders = np.asarray(values)
    lower, upper = t_interval(of_orders)
    return float(of_orders.mean()), float(lower), float(upper)
