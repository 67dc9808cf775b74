"""The loss of the hybrid objective: one model read from left to right, and from both sides.

Rows of a batch go through in two passes, those that are read from left to right under a causal
mask; where a batch has one kind alone, as the held-out text has, so has the loss. Costs as much as
one pass of all rows, and logits at every token of the causal ones.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from workbench.training.chunked_lm_loss import nats_at

TERMS, WEIGHTS = ("masked", "causal"), (1.0, 1.0)
NEXT = "next/"  # before the names of what is read from left to right


def hybrid_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The loss at masks, and of the next token in the other rows, in sums.  # [2]"""
    ahead = {n.removeprefix(NEXT): tensor for n, tensor in inputs.items() if n.startswith(NEXT)}
    both = {name: tensor for name, tensor in inputs.items() if not name.startswith(NEXT)}
    none = next(iter(inputs.values())).new_zeros((), dtype=torch.float32)
    masked = nats_at(net, both)[0] if both else none
    if not ahead:
        return torch.stack([masked, none])
    length, real = ahead["input_ids"].shape[1], ahead.get("attention_mask")
    ahead["attention_mask"] = causal_mask(length, real, ahead["input_ids"].device)
    return torch.stack([masked, nats_at(net, ahead)[0]])


def causal_mask(length: int, real: Tensor | None, device: torch.device) -> Tensor:
    """Which tokens each may look at: itself and those before it, padding left out.

    # [batch, length] -> [batch or 1, 1, length, length] bool, as transformers takes it as it is
    """
    mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]
    return mask if real is None else mask & (real > 0)[:, None, None, :]
