"""What a model's own head predicts: the next piece, hidden pieces, or what a decoder must write.

Told from the model and its tokenizer, without a list of architectures. A head counts only if its
weights were read with the model's: one that transformers had to make up would give meaningless
numbers. (`REF@random` is made up throughout, and is its own null.) Costs a look at the parameters.
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

CLASSIFIER = "ForSequenceClassification"


def symbols(tokenizer: PreTrainedTokenizerBase) -> Symbols:
    """What a tokenizer has for hiding pieces."""
    sentinels = (_number(tokenizer, f"<extra_id_{place}>") for place in count())
    return Symbols(
        pad=pad_id(tokenizer),
        end=tokenizer.eos_token_id,
        unknown=tokenizer.unk_token_id,
        mask=tokenizer.mask_token_id,
        sentinels=tuple(takewhile(lambda number: number >= 0, sentinels)),
    )


def objective_of(
    net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, causal: bool
) -> Objective:
    """What the head predicts; "" where there is none, or none that can be measured."""
    if output_map(net) is None or _made_up(net):
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
    """Whether pieces are hidden by the order of prediction, as XLNet's, which never read a mask."""
    return "perm_mask" in inspect.signature(net.forward).parameters


def mask_of(net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The piece that a masked model reads in the place of a hidden one; None for XLNet."""
    if in_order(net):
        return None
    mask = symbols(tokenizer).mask
    assert mask is not None, "a masked model has a mask"
    return mask


def classes_of(net: PreTrainedModel) -> tuple[str, ...]:
    """What a classifier of whole texts tells apart, in its own order; nothing of other models."""
    if not type(net).__name__.endswith(CLASSIFIER) or _made_up(net):
        return ()
    names: Any = net.config.id2label
    return tuple(names[number] for number in sorted(names))


def output_map(net: PreTrainedModel) -> nn.Module | None:
    """The last map of a language-model head, from states to the vocabulary."""
    found: nn.Module | None = net.get_output_embeddings()  # type: ignore[no-untyped-call]
    return found


def _number(tokenizer: PreTrainedTokenizerBase, piece: str) -> int:
    """The number of a piece; -1 where the tokenizer does not have it."""
    number = tokenizer.convert_tokens_to_ids(piece)
    if not isinstance(number, int) or tokenizer.convert_ids_to_tokens(number) != piece:
        return -1
    return number


def _made_up(net: PreTrainedModel) -> bool:
    """Whether some weights were read and others, not found beside them, were drawn at random.

    transformers marks each weight that it read or tied to one.
    """
    read = [getattr(weight, "_is_hf_initialized", False) for weight in net.parameters()]
    return any(read) and not all(read)


# --- precision: the numbers that weights are held in, and the arithmetic that models learn in -----
#
# Weights take the precision asked for; buffers keep theirs. A buffer holds what a position or a
# mask is, such as the frequencies of rotary embeddings, whose cosines are off by 0.2 at position
# 2,000 in bf16. Models learn in bf16 on a GPU that has it, in float32 elsewhere. Costs a copy of
# the weights, one at a time.


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
