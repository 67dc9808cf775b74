"""Prediction orders of XLNet: which piece may see which, in both of its streams.

    places = places_of("random", 3, pieces)   # when each piece is predicted; -1: context
    seen_in(places, "query")                  # [queries, keys]

Pieces that are not predicted are the context, which all see. In the content stream a piece sees the
context, the pieces before it in the order, and itself; in the query stream, which predicts, the
same without itself. A piece of the context sees only the context, and has no query. Costs: nothing
to speak of.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch

from workbench.core.arrays import Bools
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.engine.batch import Pieces
from workbench.engine.model import Model
from workbench.models.output_heads.lm_losses import (
    CONTEXT,
    candidates,
    not_before,
    random_order,
)
from workbench.models.scoring.lm_scoring import predicts_in_order

OrderName = Literal["left to right", "random", "as in training"]
Order = OrderName | Sequence[int]  # or the positions of pieces, the first predicted first
ORDERS: tuple[OrderName, ...] = get_args(OrderName)
STREAMS = {"self": "content stream", "query": "query stream"}


def places_of(order: Order, seed: int, text: Pieces) -> tuple[int, ...]:
    """The place of each piece of one text in the order; of the context -1."""
    places = torch.full_like(text.ids[0], CONTEXT)  # [pieces]
    free = candidates(text)[0]
    if order == "left to right":
        places[free] = torch.arange(int(free.sum()))
    elif order == "random":
        places = random_order(text, seed)[0]
    elif order == "as in training":
        from workbench.analyses.training.objectives.permuted import prediction_order

        places = prediction_order(~free[None], torch.Generator().manual_seed(seed))[0]
    elif isinstance(order, str):
        raise WorkbenchError(
            f"There is no prediction order {order!r:.40}.",
            code="setting-invalid",
            remedy=did_you_mean(order, ORDERS),
        )
    else:
        chosen = _positions(order, len(places))
        places[chosen] = torch.arange(len(chosen))
    return tuple(places.tolist())


def _positions(order: Sequence[int], length: int) -> list[int]:
    """The pieces of an order, each at most once."""
    chosen = list(order)
    wrong = [p for p in chosen if type(p) is not int or not 0 <= p < length]
    twice = [p for p in chosen if chosen.count(p) > 1]
    if wrong or twice:
        what = f"has no piece {wrong[0]!r:.20}" if wrong else f"would have piece {twice[0]} twice"
        raise WorkbenchError(
            f"A prediction order of this text {what}.",
            code="setting-invalid",
            remedy=f"Name each piece at most once, from 0 to {length - 1}; pieces that are left "
            "out are the context.",
        )
    return chosen


def require_orders(model: Model) -> None:
    """Raise an error for a model that does not read by orders."""
    if not predicts_in_order(model):
        raise WorkbenchError(
            f"{model.name} ({model.family}) does not predict pieces in an order of their own.",
            code="model-unsupported",
            remedy="Leave the order out, or choose an XLNet.",
        )


def seen_in(places: Sequence[int], kind: str) -> Bools:
    """Which piece may see which, in one of the streams.  # [queries, keys]"""
    order = torch.tensor(places)
    seen = ~not_before(order[None])[0]
    if kind == "query":
        seen &= (order != CONTEXT)[:, None]
    else:
        seen |= torch.eye(len(order), dtype=torch.bool)
    return seen.numpy()
