"""Precision: the numbers that weights are held in, and the arithmetic that models learn in.

Weights take the precision asked for; buffers keep theirs. A buffer holds what a position or a mask
is, such as the frequencies of rotary embeddings, whose cosines are off by 0.2 at position 2,000 in
bf16. Models learn in bf16 on a GPU that has it, in float32 elsewhere. Costs a copy of the weights,
one at a time.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from transformers import PreTrainedModel


def placed(net: PreTrainedModel, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The same model on this device, its weights in this precision, ready to be asked.

    Weights that transformers keeps in float32 (the last map of T5's blocks in fp16) stay there.
    """
    for name, weight in net.named_parameters():
        weight.data = weight.data.to(device=device, dtype=held_in(net, name, weight, dtype))
    return net.to(device).train(False)  # type: ignore[no-any-return, arg-type]


def held_in(
    net: PreTrainedModel, name: str, weight: torch.Tensor, dtype: torch.dtype
) -> torch.dtype:
    """The precision of one weight of a model that is held in this one."""
    if not weight.is_floating_point():
        return weight.dtype
    wide: set[str] = set(net._keep_in_fp32_modules_strict or ())
    if dtype == torch.float16:
        wide |= set(net._keep_in_fp32_modules or ())
    return torch.float32 if wide.intersection(name.split(".")) else dtype


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """In its context products are made in bf16 where the device can."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
