"""What a model's own head predicts: the next piece, masked pieces, or a decoder's target.

Found from the model and its tokenizer, without a list of architectures. A head counts only if its
weights were read from the checkpoint: a head that transformers initialised at random gives
meaningless numbers. (`REF@random` is random throughout, and is a baseline of its own.) Costs: a
pass over the list of parameters.
"""

import inspect
from contextlib import AbstractContextManager, nullcontext
from itertools import count, takewhile
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from workbench.engine.model import Objective, Symbols
from workbench.models.tokenization import pad_id


def symbols(tokenizer: PreTrainedTokenizerBase) -> Symbols:
    """The tokenizer's special pieces for padding, masking and denoising."""
    sentinels = (_id_of(tokenizer, f"<extra_id_{index}>") for index in count())
    return Symbols(
        pad=pad_id(tokenizer),
        end=tokenizer.eos_token_id,
        unknown=tokenizer.unk_token_id,
        mask=tokenizer.mask_token_id,
        sentinels=tuple(takewhile(lambda id_: id_ >= 0, sentinels)),
    )


def objective_of(
    net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, causal: bool
) -> Objective:
    """The objective of the head; "" if there is no head, or none that can be scored."""
    if output_map(net) is None or partly_random(net):
        return ""
    if in_order(net):
        return "masked"
    known = symbols(tokenizer)
    if net.config.is_encoder_decoder:
        return "seq2seq" if known.sentinels or known.mask is not None else ""
    if causal:
        return "causal"
    return "masked" if known.mask is not None else ""


def in_order(net: PreTrainedModel) -> bool:
    """Whether pieces are hidden by the prediction order, as in XLNet, which has no mask piece."""
    return "perm_mask" in inspect.signature(net.forward).parameters


def mask_of(net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The mask piece that replaces hidden pieces; None for XLNet."""
    if in_order(net):
        return None
    mask = symbols(tokenizer).mask
    assert mask is not None, "a masked model has a mask"
    return mask


def output_map(net: PreTrainedModel) -> nn.Module | None:
    """The last layer of a language-model head, from states to the vocabulary."""
    layer: nn.Module | None = net.get_output_embeddings()
    return layer


def _id_of(tokenizer: PreTrainedTokenizerBase, piece: str) -> int:
    """The id of a piece; -1 if the tokenizer does not have it."""
    id_ = tokenizer.convert_tokens_to_ids(piece)
    if not isinstance(id_, int) or tokenizer.convert_ids_to_tokens(id_) != piece:
        return -1
    return id_


def partly_random(net: PreTrainedModel) -> bool:
    """Whether some weights were read from a file and others, missing there, are random.

    transformers marks each weight that it read, or tied to a read one.
    """
    read = [getattr(weight, "_is_hf_initialized", False) for weight in net.parameters()]
    return any(read) and not all(read)


# --- precision of the weights, and of the arithmetic in training ----------------------------------
#
# Weights are converted to the requested precision; buffers keep their own. A buffer may hold
# positions or masks, such as the frequencies of rotary embeddings, whose cosines have an error of
# 0.2 at position 2,000 in bf16. Training uses bf16 on a GPU that supports it, else float32. Costs:
# a copy of the weights, one at a time.


def placed(net: PreTrainedModel, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Move the model to a device and a precision, and set it to eval mode.

    Weights that transformers keeps in float32 (the last layer of T5's blocks in fp16) stay in it.
    """
    for name, weight in net.named_parameters():
        weight.data = weight.data.to(device=device, dtype=held_in(net, name, weight, dtype))
    return net.to(device).train(False)


def held_in(
    net: PreTrainedModel, name: str, weight: torch.Tensor, dtype: torch.dtype
) -> torch.dtype:
    """The precision of one weight of a model that is held in `dtype`."""
    if not weight.is_floating_point():
        return weight.dtype
    wide: set[str] = set(net._keep_in_fp32_modules_strict or ())
    if dtype == torch.float16:
        wide |= set(net._keep_in_fp32_modules or ())
    return torch.float32 if wide.intersection(name.split(".")) else dtype


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A context that computes products in bf16 if the device supports it."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
