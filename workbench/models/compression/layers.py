"""Whole layers removed: the model has fewer blocks, and its config says so.

A layer's score is its influence: one minus the cosine of the states before and after it, mean over
pieces (Men et al. 2024). A layer that changes nothing has none. `top` removes the upper layers
first (Sajjad et al. 2023) and needs no texts. Costs: a forward pass over the texts, and a copy of
the weights that are kept.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import forward
from workbench.engine.taps import StackName
from workbench.models.compression.rebuilding import (
    Order,
    built,
    last,
    number_left,
    rebuilt,
    require_whole,
)
from workbench.models.huggingface import HuggingFace
from workbench.models.net_parts import blocks
from workbench.models.output_heads.task_heads import MixHead

LayerOrder = Order | Literal["top"]
FIELDS = {  # names of the number of layers of a stack
    "encoder": ("num_layers", "encoder_layers", "num_hidden_layers"),
    "decoder": ("num_decoder_layers", "decoder_layers", "num_hidden_layers"),
}


def cut_layers(
    model: HuggingFace,
    amount: float,
    *,
    order: LayerOrder = "best",
    texts: Batch | None = None,
    seed: int = 0,
) -> HuggingFace:
    """The model without this share of the layers of each stack; `texts` show their influence."""
    model = require_whole(model, "layers")
    if isinstance(model.task_head, MixHead):
        raise WorkbenchError(
            "the task head reads a mix of all layers, so none of them can be removed.",
            code="model-unsupported",
            where=model.name,
            remedy="Fine-tune the model with head=standard.",
        )
    if texts is None and order in ("best", "reversed"):
        raise WorkbenchError(
            "the influence of layers is measured on texts, and there are none.",
            code="text-missing",
            where=model.name,
            remedy="Pass texts=wb.encode([...]), or choose order=top.",
        )
    scores: dict[StackName, Tensor] = (
        {} if texts is None or order in ("top", "random") else influence(model, texts)
    )
    kept = {}
    for stack in model.stacks:
        n = stack.layers
        own = scores.get(stack.name, torch.arange(n, 0, -1.0))
        chosen: Order = "best" if order == "top" else order
        kept[stack.name] = last(own, number_left(n, amount), chosen, seed).tolist()
    return keep_layers(model, kept)


@torch.no_grad()
def influence(model: HuggingFace, texts: Batch) -> dict[StackName, Tensor]:
    """One minus the cosine of the states before and after each layer, over pieces.  # [layers]"""
    sums: dict[StackName, Tensor] = {
        each.name: torch.zeros(each.layers + 1, dtype=torch.float64) for each in model.stacks
    }

    def add(pieces: Any, output: Any) -> None:
        for stack, states in output.hidden.items():
            mask = output.texts[stack].mask
            for layer in range(len(states) - 1):
                one, other = (states[n][mask].double() for n in (layer, layer + 1))
                sums[stack][layer] += functional.cosine_similarity(one, other, -1).sum().cpu()
            sums[stack][-1] += mask.sum().cpu()

    forward(model, texts, add)
    return {stack: 1 - each[:-1] / each[-1].clamp(min=1) for stack, each in sums.items()}


def keep_layers(model: HuggingFace, kept: Mapping[StackName, Sequence[int]]) -> HuggingFace:
    """The model with these layers of each stack only."""
    config: Any = copy.deepcopy(model.net.config)
    before = {stack.name: stack.layers for stack in model.stacks}
    for stack, layers in kept.items():
        names = FIELDS[stack] if model.two_sided else ("num_hidden_layers",)
        name = next(each for each in names if getattr(config, each, None) == before[stack])
        setattr(config, name, len(layers))
        for field, value in list(vars(config).items()):  # a kind, or a width, of each layer
            if isinstance(value, list | tuple) and len(value) == before[stack]:
                setattr(config, field, [value[layer] for layer in layers])
    state, listed = model.net.state_dict(), dict(_listed(model, kept))
    old_names = {name: _old_name(name, listed) for name in built(model, config).state_dict()}
    for name in state.keys() - set(old_names.values()):
        path, layer = _place(name, listed)
        # what the first layer computes for all, such as T5's distances, is not lost
        if layer in listed.get(path, ()) and name not in old_names:
            raise WorkbenchError(
                f"layer {layer} cannot be the first one of this architecture: it would lose "
                f"{name}.",
                code="model-unsupported",
                where=model.name,
                remedy="Keep layer 0, or remove the upper layers (order=top).",
            )
    weights = {name: state[old if old in state else name] for name, old in old_names.items()}
    return rebuilt(model, config, weights)


def _listed(
    model: HuggingFace, kept: Mapping[StackName, Sequence[int]]
) -> Iterator[tuple[str, Sequence[int]]]:
    """The name of each stack's list of blocks and its kept layers; none where blocks are shared."""
    paths = {module: path for path, module in model.net.named_modules()}
    for stack in model.stacks:
        listed = blocks(model.body(stack.name), stack.layers)
        if listed is not None:
            yield paths[listed], kept[stack.name]


def _place(name: str, listed: Mapping[str, Sequence[int]]) -> tuple[str, int]:
    """The list of blocks that a weight is in, and its layer; "" and -1 for others."""
    for path in listed:
        if found := re.match(rf"{re.escape(path)}\.(\d+)\.", name):
            return path, int(found[1])
    return "", -1


def _old_name(name: str, listed: Mapping[str, Sequence[int]]) -> str:
    """The name, in the whole model, of a weight of the smaller one."""
    path, layer = _place(name, listed)
    return f"{path}.{listed[path][layer]}{name[len(f'{path}.{layer}') :]}" if path else name
