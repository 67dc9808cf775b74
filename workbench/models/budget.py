"""Memory that a model needs, computed from its architecture before any weight is read.

`weights` gives the bytes of the parameters in a precision. `batch_memory` gives the bytes that a
batch adds: states of all layers, the attention map of one site, logits, and the keys and values
cached during generation. All functions take an open model or a model on the `meta` device (shapes
without numbers). `require_room` rejects a model that does not fit a GPU. Costs: a pass over the
parameters' shapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.models.auto import modeling_auto

from workbench.core.errors import WorkbenchError
from workbench.core.machine import free_memory
from workbench.engine.forward_pass import PIECES
from workbench.models.output_heads.lm_heads import held_in, output_map
from workbench.models.split import layers_of, layout
from workbench.models.transformer import Transformer

GB = 1_000_000_000
FP32 = 4  # bytes of a number
LENGTH = 512  # pieces per text that `memory` assumes; less for a model with a shorter maximum


@dataclass(frozen=True)
class BatchMemory:
    """Bytes that a batch needs in addition to the weights."""

    states: int  # of all layers of all stacks, embeddings included, as `Output.hidden` has them
    attention_map: (
        int  # of the site with most heads, in float32 (XLNet and similar models: or less)
    )
    logits: int  # of every piece, in float32; 0 without an output map
    cache: int  # keys and values of all layers; 0 for a model that does not generate text


def weights(net: PreTrainedModel, dtype: torch.dtype) -> int:
    """Bytes of a model's parameters in this precision, including those kept in float32."""
    return sum(
        weight.numel() * held_in(net, name, weight, dtype).itemsize
        for name, weight in net.named_parameters()
    )


def batch_memory(net: PreTrainedModel, dtype: torch.dtype, texts: int, length: int) -> BatchMemory:
    """Bytes that a batch of `texts` texts with `length` pieces each needs.

    The decoder of an encoder-decoder is assumed to read as many pieces as the encoder.
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
        # self-attention, cross-attention
        attentions = layers[-1] * (2 if config.is_encoder_decoder else 1)
        cached = 2 * attentions * groups * width * pieces * dtype.itemsize
    return BatchMemory(
        states=(sum(layers) + len(layers)) * pieces * config.hidden_size * dtype.itemsize,
        attention_map=max(heads) * pieces * length * FP32,
        logits=0 if head is None else pieces * config.vocab_size * FP32,
        cache=cached,
    )


def memory(model: Transformer) -> dict[str, Any]:
    """Bytes that an open model needs with a batch of the size used in passes over a corpus."""
    length = min(LENGTH, model.max_pieces or LENGTH)
    texts = max(1, PIECES.get(model.device.type, PIECES["cpu"]) // length)
    batch = batch_memory(model.net, model.net.dtype, texts, length)
    return {
        "weights": weights(model.net, model.net.dtype),
        "texts": texts,
        "length": length,
        **vars(batch),
    }


def require_room(
    net: PreTrainedModel, dtype: torch.dtype, devices: Sequence[torch.device], source: str
) -> None:
    """Raise if the weights do not fit the free memory of their GPUs, before any is read."""
    if any(device.type != "cuda" for device in devices):
        return
    available, required = (
        [free_memory(device) for device in devices],
        _shares(net, dtype, len(devices)),
    )
    if all(need <= free_bytes for need, free_bytes in zip(required, available, strict=True)):
        return
    needed, free = sum(required), sum(available)
    names = " and ".join(map(str, devices))
    shares = (
        f" in shares of {', '.join(f'{need / GB:.1f}' for need in required)}"
        if required[1:]
        else ""
    )
    lower_precision = "a lower precision (--precision bf16), " if dtype == torch.float32 else ""
    raise WorkbenchError(
        f"the model's weights need {needed / GB:.1f} GB{shares}; free on {names}: "
        f"{free / GB:.1f} GB.",
        code="out-of-memory",
        where=source,
        remedy=f"Use {lower_precision}a GPU with more memory, or several GPUs, for example "
        'wb.load(REF, device="cuda:0,cuda:1"), or stop other programs on the GPU.',
    )


def _shares(net: PreTrainedModel, dtype: torch.dtype, n_gpus: int) -> list[int]:
    """Bytes of the weights on each GPU."""
    if n_gpus == 1:
        return [weights(net, dtype)]
    sizes, gpu_of = [0] * n_gpus, layout(net, n_gpus)
    for name, weight in net.named_parameters():
        sizes[gpu_of[name]] += weight.numel() * held_in(net, name, weight, dtype).itemsize
    return sizes


def _stacks(config: Any) -> Sequence[str]:
    return ("encoder", "decoder") if config.is_encoder_decoder else ("",)


def _heads(config: Any, stack: str) -> int:
    heads = getattr(config, f"{stack}_attention_heads", None) if stack else None
    return int(heads or config.num_attention_heads)


def _generates(config: Any) -> bool:
    """Whether the model generates text with a key-value cache."""
    if config.is_encoder_decoder:
        return True
    causal = config.model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = config.model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return causal and not masked and hasattr(config, "use_cache")
