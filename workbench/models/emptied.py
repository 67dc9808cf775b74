"""What an attention module hands on when it has no head left: what its output map adds by itself.

The module stays where it is, so that weights keep their names; its `forward` is replaced by one
that computes nothing, counts its place among the attention calls, and keeps the cache of a
generation as long as the text. T5's first layer still makes the bias of positions for the others.
"""

from collections.abc import Callable
from inspect import signature
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.pytorch_utils import Conv1D

from workbench.engine.taps import current

_CACHES = ("past_key_values", "layer_past")
LONGFORMER = "LongformerSelfAttention"
_SOURCES = ("key_value_states", "encoder_hidden_states")


def empty(module: nn.Module, output: str) -> None:
    """Let the module hand on what it does without any head; `output` is the name of its last map.

    Where that map is the module's own it has been cut to read nothing, and adds its bias.
    """
    named = signature(type(module).forward)
    answer = _ANSWERS.get(type(module).__name__, _pair)
    hooked = type(module).__name__ == LONGFORMER  # its own hook counts the call

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        given = named.bind_partial(self, *args, **kwargs).arguments
        given |= given.pop("kwargs", {})
        states = next(value for name, value in given.items() if name != "self")
        running = current()
        if running is not None and not hooked:
            running.next_site(0, 0)
        cached = next((given[name] for name in _CACHES if given.get(name) is not None), None)
        if cached is not None:
            source = next((given[name] for name in _SOURCES if given.get(name) is not None), None)
            _remember(self, cached, states, source)
        return answer(self, states, _written(getattr(self, output, None), states), given)

    module.forward = MethodType(forward, module)


def _written(last: Any, states: Tensor) -> Tensor:
    """What a map of nothing makes; nothing, where the map is not the module's own."""
    if last is None:
        return states.new_zeros(*states.shape[:-1], 0)
    width = last.nf if isinstance(last, Conv1D) else last.out_features
    written = states.new_zeros(*states.shape[:-1], width)
    return written if last.bias is None else written + last.bias


def _remember(module: nn.Module, cached: Any, states: Tensor, source: Tensor | None) -> None:
    """A zero for each piece, so that the cache knows how many there were."""
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    two = isinstance(cached, EncoderDecoderCache)
    if source is None:
        read, own = states, cached.self_attention_cache if two else cached
    elif cached.is_updated.get(layer):
        return
    else:
        read, own = source, cached.cross_attention_cache
        cached.is_updated[layer] = True
    nothing = read.new_zeros(read.shape[0], 1, read.shape[1], 1)
    own.update(nothing, nothing, layer)


Answer = Callable[[Any, Tensor, Tensor, dict[str, Any]], Any]


def _pair(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return written, None


def _one(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return (written,)


def _list(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return [written]


def _albert(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return module.LayerNorm(states + module.output_dropout(written)), None


def _t5(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    bias = given.get("position_bias")
    if bias is None:
        source = given.get("key_value_states")
        cached = given.get("past_key_values")
        before = 0
        if cached is not None and source is None:
            before = int(cached.get_seq_length(module.layer_idx)) - states.shape[1]
        keys = states.shape[1] + before if source is None else source.shape[1]
        if module.has_relative_attention_bias:
            bias = module.compute_bias(
                states.shape[1], keys, device=states.device, past_seen_tokens=before
            )
        else:
            bias = torch.zeros(
                1, module.n_heads, states.shape[1], keys, device=states.device, dtype=states.dtype
            )
    return written, bias, None


def _bloom(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    kept = nn.functional.dropout(written, module.hidden_dropout, module.training)
    return given["residual"] + kept, None


_ANSWERS: dict[str, Answer] = {
    "BloomAttention": _bloom,
    "AlbertAttention": _albert,
    "T5Attention": _t5,
    "MT5Attention": _t5,
    LONGFORMER: _one,
    "Attention": _list,  # openai-gpt's
}
