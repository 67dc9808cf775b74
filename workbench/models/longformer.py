"""Longformer's local attention for fewer heads than its layers are wide.

transformers' own forward lays the heads' outputs into the width of the states, and so cannot have
heads missing. This one does the same sums with the module's own band products, without global
attention, which the adapter never asks for.
"""

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from workbench.errors import WorkbenchError


def narrow(module: nn.Module) -> None:
    """Let a module work with the heads it has left."""
    module.forward = MethodType(_local, module)


def _local(
    self: Any,
    hidden_states: Tensor,  # [batch, pieces, width]
    attention_mask: Tensor,  # [batch, pieces], below 0 where padding is
    is_index_masked: Tensor,  # [batch, pieces]
    is_global_attn: bool = False,
    output_attentions: bool = False,
    **unused: Any,
) -> tuple[Tensor, ...]:
    if is_global_attn:
        raise WorkbenchError(
            "a Longformer whose heads were taken out has local attention only.",
            remedy="Leave the global attention mask out.",
        )
    window = self.one_sided_attn_window_size
    shape = (*hidden_states.shape[:2], self.num_heads, self.head_dim)
    query, key, value = (
        read(hidden_states).view(shape) for read in (self.query, self.key, self.value)
    )
    scores = self._sliding_chunks_query_key_matmul(query / self.head_dim**0.5, key, window)
    padding = (attention_mask != 0)[:, :, None, None]
    lowest = torch.zeros_like(padding, dtype=query.dtype).masked_fill(
        padding, torch.finfo(query.dtype).min
    )
    ones = torch.ones_like(lowest)
    scores = scores + self._sliding_chunks_query_key_matmul(ones, lowest, window)
    given = scores.softmax(-1, dtype=torch.float32)  # [batch, pieces, heads, band]
    given = given.masked_fill(is_index_masked[:, :, None, None], 0.0).type_as(scores)
    kept = nn.functional.dropout(given, p=self.dropout, training=self.training)
    output = self._sliding_chunks_matmul_attn_probs_value(kept, value, window)
    return (output.flatten(-2), given) if output_attentions else (output.flatten(-2),)
