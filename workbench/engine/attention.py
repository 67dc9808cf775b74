"""The attention function of every model that uses transformers' attention interface.

It is registered once as `workbench`, together with its mask function; without the latter, padding
and causal masks would be lost silently. Without taps, or with gates only, it is PyTorch's fused
attention. If a tap needs probabilities, it computes them once, in at least float32, after the
softmax and before dropout, so they are also right in train mode. Costs: nothing without taps; one
explicit attention map per layer with them.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from workbench.core.errors import WorkbenchError
from workbench.engine.taps import Vectors, current

NAME = "workbench"
# options that change the softmax; no supported family uses them
_UNSUPPORTED = ("softcap", "s_aux")


def register() -> None:
    """Register `workbench` as an attention implementation of transformers."""
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def attention(
    module: nn.Module,
    query: Tensor,  # [batch, heads, queries, width]
    key: Tensor,  # [batch, groups, keys, width]
    value: Tensor,  # [batch, groups, keys, width]
    attention_mask: Tensor
    | None,  # [batch, 1, queries, keys], true where attention is allowed, or additive
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,  # [1 or batch, heads, queries, keys]
    **kwargs: Any,
) -> tuple[Tensor, None]:  # [batch, queries, heads, width]
    """Attention with taps; the second result is always None, because maps go to the taps."""
    if any(kwargs.get(name) is not None for name in _UNSUPPORTED):
        raise WorkbenchError(
            f"{type(module).__name__} uses a softmax that the engine does not support.",
            code="model-unsupported",
            remedy="Use a model without soft-capped attention or attention sinks.",
        )
    heads: Tensor | None = getattr(module, "kept_heads", None)  # of a pruned T5
    if position_bias is not None and heads is not None and position_bias.shape[1] != query.shape[1]:
        position_bias = position_bias.index_select(1, heads)
    running = current()
    window = max(0, (kwargs.get("sliding_window") or 0) - 1)  # transformers counts the piece itself
    site = running.next_site(query.shape[1], key.shape[1], window) if running else None
    if running is None or site is None or not running.map_readers(site):
        output, _ = sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scaling,
            is_causal=is_causal,
            position_bias=position_bias,
            **kwargs,
        )
    else:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        scores = _scores(query, key, scale, attention_mask, position_bias, bool(causal))
        probabilities = scores.softmax(-1)
        vectors = Vectors(query, key, scale, position_bias)
        running.show(site, probabilities, value, vectors)
        dropped = nn.functional.dropout(probabilities.to(value.dtype), dropout, module.training)
        output = (dropped @ _repeated(value, query)).transpose(1, 2)
    gates = running.gate(site, query.shape[0]) if running and site else None
    if gates is not None:
        output = output * gates[:, None, :, None].to(output)  # the device and precision of the site
    if running and site:
        output = running.passed(site, output)
    return output, None


def _repeated(shared: Tensor, query: Tensor) -> Tensor:
    """Keys or values repeated for every head that shares them.  # [batch, heads, keys, width]"""
    times = query.shape[1] // shared.shape[1]
    return shared if times == 1 else shared.repeat_interleave(times, dim=1)


def _scores(
    query: Tensor,
    key: Tensor,
    scale: float,
    mask: Tensor | None,
    position_bias: Tensor | None,
    causal: bool,
) -> Tensor:
    """The scores before the softmax, in at least float32.  # [batch, heads, queries, keys]

    Scores rounded to bf16 tie: the argmax would differ in up to one of a hundred rows.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    with torch.autocast(query.device.type, enabled=False):  # autocast would round them again
        scores = (query.to(wide) * scale) @ _repeated(key, query).to(wide).transpose(-1, -2)
    if position_bias is not None:
        scores = scores + position_bias
    lowest = torch.finfo(scores.dtype).min
    # the fused kernel applies its own causal mask here
    if mask is None and causal and query.shape[2] > 1:
        mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is None:
        return scores
    return scores.masked_fill_(~mask, lowest) if mask.dtype == torch.bool else scores + mask
