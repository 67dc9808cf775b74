"""Memory that a model needs, known from its architecture before a weight is read.

`weights` are the bytes that parameters take in a precision, `batch_memory` those that a batch adds:
states of all layers, the attention map of one site, logits, and the keys and values kept while text
is generated. All take a model on the `meta` device, which has shapes and no numbers, or an open
one. `require_room` refuses what does not fit a card. Costs a look at the parameters' shapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel
from transformers.models.auto import modeling_auto

from workbench.core.errors import WorkbenchError
from workbench.core.machine import free_memory
from workbench.engine.forward_pass import PIECES
from workbench.models.lm_heads import held_in, output_map
from workbench.models.split import layers_of, layout

if TYPE_CHECKING:
    from workbench.models.huggingface import HuggingFace

GB = 1_000_000_000
FP32 = 4  # bytes of a number
LENGTH = 512  # pieces of the texts that `memory` counts with, or as many as the model reads


@dataclass(frozen=True)
class BatchMemory:
    """Bytes that a batch takes besides the weights."""

    states: int  # of all layers of all stacks, embeddings included, as `Output.hidden` has them
    attention_map: int  # of the site with most heads, in float32 (XLNet and kin: or less)
    logits: int  # of every piece, in float32; 0 without an output map
    cache: int  # keys and values of all layers; 0 where no text is generated piece by piece


def weights(net: PreTrainedModel, dtype: torch.dtype) -> int:
    """Bytes of a model's parameters in this precision, those included that stay in float32."""
    return sum(
        weight.numel() * held_in(net, name, weight, dtype).itemsize
        for name, weight in net.named_parameters()
    )


def batch_memory(net: PreTrainedModel, dtype: torch.dtype, texts: int, length: int) -> BatchMemory:
    """Bytes of a batch of so many texts of so many pieces.

    A decoder beside an encoder reads as many pieces as the encoder does.
    """
    config: Any = net.config
    pieces = texts * length
    layers = [layers_of(config, stack) for stack in _stacks(config)]
    heads = [_heads(config, stack) for stack in _stacks(config)]
    head = output_map(net)
    cached = 0
    if _generates(config):
        groups = getattr(config, "num_key_value_heads", None) or heads[-1]
        width = getattr(config, "head_dim", None) or getattr(config, "d_kv", None)
        width = width or config.hidden_size // heads[-1]
        attentions = layers[-1] * (2 if config.is_encoder_decoder else 1)  # of itself, of the text
        cached = 2 * attentions * groups * width * pieces * dtype.itemsize
    return BatchMemory(
        states=(sum(layers) + len(layers)) * pieces * config.hidden_size * dtype.itemsize,
        attention_map=max(heads) * pieces * length * FP32,
        logits=0 if head is None else pieces * config.vocab_size * FP32,
        cache=cached,
    )


def memory(model: "HuggingFace") -> dict[str, Any]:
    """What an open model takes, in bytes, with a batch as passes over a corpus make them."""
    length = min(LENGTH, model.max_pieces or LENGTH)
    texts = max(1, PIECES.get(model.device.type, PIECES["cpu"]) // length)
    found = batch_memory(model.net, model.net.dtype, texts, length)
    return {
        "weights": weights(model.net, model.net.dtype),
        "texts": texts,
        "length": length,
        **vars(found),
    }


def require_room(
    net: PreTrainedModel, dtype: torch.dtype, devices: Sequence[torch.device], source: str
) -> None:
    """Refuse a model whose weights do not fit the free memory of its cards, before any is read."""
    if any(device.type != "cuda" for device in devices):
        return
    there, each = [free_memory(device) for device in devices], _shares(net, dtype, len(devices))
    if all(own <= room for own, room in zip(each, there, strict=True)):
        return
    needed, free = sum(each), sum(there)
    named = " and ".join(map(str, devices))
    apart = f" in shares of {', '.join(f'{own / GB:.1f}' for own in each)}" if each[1:] else ""
    less = "a lower precision (--precision bf16), " if dtype == torch.float32 else ""
    raise WorkbenchError(
        f"its weights need {needed / GB:.1f} GB{apart}; free on {named}: {free / GB:.1f} GB.",
        where=source,
        remedy=f"Choose {less}a card with more memory, or several cards, as "
        'wb.load(REF, device="cuda:0,cuda:1") does, or end what else runs there.',
    )


def _shares(net: PreTrainedModel, dtype: torch.dtype, cards: int) -> list[int]:
    """Bytes of the weights on each card."""
    if cards == 1:
        return [weights(net, dtype)]
    found, where = [0] * cards, layout(net, cards)
    for name, weight in net.named_parameters():
        found[where[name]] += weight.numel() * held_in(net, name, weight, dtype).itemsize
    return found


def _stacks(config: Any) -> Sequence[str]:
    return ("encoder", "decoder") if config.is_encoder_decoder else ("",)


def _heads(config: Any, stack: str) -> int:
    own = getattr(config, f"{stack}_attention_heads", None) if stack else None
    return int(own or config.num_attention_heads)


def _generates(config: Any) -> bool:
    """Whether text is written piece by piece with keys and values kept."""
    if config.is_encoder_decoder:
        return True
    causal = config.model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = config.model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return causal and not masked and hasattr(config, "use_cache")
