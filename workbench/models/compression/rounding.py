"""Weights, and inputs of layers, on a grid of 8 or 4 bits: symmetric and linear, in plain torch.

As in Q8BERT (Zafrir et al. 2019), all linear layers and embeddings are rounded; norms, biases,
softmax and GELU keep their precision. The largest weight of a channel (or of a matrix, `tensor`) is
the end of the grid, so rounding twice is rounding once. Inputs are rounded by the moving average of
their largest value over the texts that a model has seen. The model computes with the rounded
numbers in its own precision, so every experiment reads it; its folder holds them packed
(`formats.packed_checkpoint`). Costs: a copy of the weights.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers.pytorch_utils import Conv1D

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import chunks
from workbench.models.compression.quantisation import Bits, Per
from workbench.models.compression.rebuilding import mark_read, require_whole
from workbench.models.formats.packed_checkpoint import RANGE, Grid, on_grid, round_inputs
from workbench.models.huggingface import HuggingFace

MOMENTUM = 0.99  # of the moving average of the largest input
AT_ONCE = 16  # texts that are read at once to measure it


def round_weights(
    model: HuggingFace,
    bits: Bits = 8,
    *,
    activations: bool = False,
    per: Per = "channel",
    layer: int | None = None,
    texts: Batch | None = None,
) -> HuggingFace:
    """The model with rounded weights, of all its matrices or of those of one layer (from 0).

    With `activations`, inputs of linear layers are rounded to 8 bits; `texts` show their range.
    """
    twin = require_whole(model, "matrices of numbers").copy(in_fp32=True)
    found = roundable(twin, bits, per, layer)
    if activations:
        if texts is None:
            raise WorkbenchError(
                "the range of inputs is measured on texts, and there are none.",
                code="text-missing",
                where=model.name,
                remedy="Pass texts=wb.encode([...]), or leave activations out.",
            )
        watching = list(watched(twin, rounded=False))
        with torch.no_grad():
            for documents in chunks(range(len(texts)), AT_ONCE):
                pieces = twin.encode(texts, documents).to(twin.device)
                twin.forward(pieces, hidden=False, logits=True)
        settled(watching)
    with torch.no_grad():
        for module, name, grid in found:
            weights = getattr(module, name)
            weights.copy_(on_grid(weights, grid))
    return finished(twin, model, found)


Found = list[tuple[nn.Module, str, Grid]]


def roundable(model: HuggingFace, bits: Bits, per: Per, layer: int | None = None) -> Found:
    """Modules with a matrix to round, its name, and the grid; all that share one matrix."""
    places = model.weight_places()
    found: Found = []
    for path, module in model.net.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding | Conv1D):
            place = places.get(model.bare_name(f"{path}.weight"))
            inside = None if place is None else place.layer
            if layer is None or (inside == layer + 1 and not isinstance(module, nn.Embedding)):
                axis = 1 if isinstance(module, Conv1D) else 0  # of the output channels
                found.append((module, "weight", Grid(bits, axis if per == "channel" else None)))
    return found


def finished(twin: HuggingFace, model: HuggingFace, found: Found) -> HuggingFace:
    """The rounded model, which is saved in packed numbers."""
    names: dict[Any, str] = {module: path for path, module in twin.net.named_modules()}
    twin.packed = {f"{names[module]}.{name}": grid for module, name, grid in found}
    mark_read(twin.net, model)
    return twin


# --- ranges of inputs -----------------------------------------------------------------------------

Watching = list[tuple[nn.Module, RemovableHandle]]


def watched(model: HuggingFace, rounded: bool) -> Iterator[tuple[nn.Module, RemovableHandle]]:
    """Linear layers that measure the range of their inputs from now on, and perhaps round them."""
    for module in model.net.modules():
        if isinstance(module, nn.Linear | Conv1D):
            range_ = torch.zeros((), device=module.weight.device)
            module.register_buffer(RANGE, range_)
            yield module, module.register_forward_pre_hook(partial(_watch, rounded=rounded))


def settled(watching: Watching) -> None:
    """Fix the ranges: from now on inputs are rounded with them."""
    for module, handle in watching:
        handle.remove()
        module.register_forward_pre_hook(round_inputs)


def _watch(module: Any, inputs: tuple[Tensor, ...], rounded: bool) -> Any:
    largest = inputs[0].detach().abs().max().float()
    range_: Tensor = getattr(module, RANGE)
    range_.copy_(largest if range_ == 0 else MOMENTUM * range_ + (1 - MOMENTUM) * largest)
    return round_inputs(module, inputs) if rounded else None
