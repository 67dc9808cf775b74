"""Weights in 8 or 4 bits, by torchao through transformers; plain transformers opens the folder.

Only the matrices of the layers are quantised; embeddings, norms and the output layer keep their
precision. With `activations`, inputs of each matrix are rounded to 8 bits too, with a range of
their own each time, and multiplied as whole numbers. On a CPU, torchao holds numbers of 4 bits in a
byte each, and its kernels are not always faster than those of fp32. Costs: the bytes of the
weights, written and read once.
"""

from tempfile import TemporaryDirectory
from typing import Any, Literal

from torch import nn

from workbench.core.errors import WorkbenchError, require_extra
from workbench.engine.model import refusal
from workbench.models.compression.rebuilding import mark_read, require_whole
from workbench.models.formats.checkpoint import silenced
from workbench.models.huggingface import HuggingFace

Bits = Literal[8, 4]
Per = Literal["channel", "tensor"]


def quantise(
    model: HuggingFace,
    bits: Bits = 8,
    *,
    activations: bool = False,
    per: Per = "channel",
    layer: int | None = None,
) -> HuggingFace:
    """The model with the matrices of its layers in 8 or 4 bits, or those of one layer (from 0).

    There is one scale for each output channel of a matrix, or one for all of it (`tensor`).
    """
    model = require_whole(model, "matrices of numbers")
    require_extra("quant", ("torchao",), "Quantisation", model.name)
    if bits == 4 and (activations or per == "tensor"):
        raise WorkbenchError(
            "with 4 bits, each channel has a scale, and activations keep their precision.",
            code="option-conflict",
            where=model.name,
            remedy="Choose 8 bits, or leave activations and per=tensor out.",
        )
    own, others = _linear(model, layer)
    if not own or model.family == "xlnet":  # transformers cannot read its quantised files again
        raise refusal(
            model,
            "has no linear layers that torchao quantises (GPT-2's are of another kind)"
            + ("" if layer is None else f" in layer {layer}"),
            "Choose another model, such as mini:bert.",
        )
    from transformers import TorchAoConfig

    with TemporaryDirectory() as folder, silenced():
        model.net.save_pretrained(folder)
        net: Any = type(model.net).from_pretrained(
            folder,
            quantization_config=TorchAoConfig(
                _scheme(bits, activations, per), modules_to_not_convert=others
            ),
            dtype=model.net.dtype,
            local_files_only=True,
        )
    net.to(model.device).train(False)
    mark_read(net, model)
    smaller = HuggingFace(net, model.tokenizer, model.name, sites=model.sites)
    smaller.take_heads(model)
    return smaller


def _scheme(bits: Bits, activations: bool, per: Per) -> Any:
    import torch
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        IntxWeightOnlyConfig,
    )
    from torchao.quantization.granularity import PerAxis, PerRow, PerTensor
    from torchao.quantization.quant_primitives import MappingType

    if bits == 4:  # the largest weight is on the grid, not beyond it
        return IntxWeightOnlyConfig(
            torch.int4,  # type: ignore[attr-defined]
            PerAxis(0),
            mapping_type=MappingType.SYMMETRIC_NO_CLIPPING_ERR,
        )
    granularity = PerRow() if per == "channel" else PerTensor()
    kind = Int8DynamicActivationInt8WeightConfig if activations else Int8WeightOnlyConfig
    return kind(granularity=granularity)


def _linear(model: HuggingFace, layer: int | None) -> tuple[list[str], list[str]]:
    """Names of the linear layers to quantise, and of all others."""
    places = model.weight_places()
    own: list[str] = []
    others: list[str] = []
    for path, module in model.net.named_modules():
        if not isinstance(module, nn.Linear):
            continue
        place = places.get(model.bare_name(f"{path}.weight"))
        inside = place is not None and place.layer
        chosen = inside and layer in (None, inside - 1)
        (own if chosen else others).append(path)
    return own, others
