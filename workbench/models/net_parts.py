"""The parts of a transformers net: its blocks, and the layer of each weight.

No architecture is hard-coded: a stack's blocks are the module list with as many entries as the
stack has layers. Shared weights count once, in the first part that has them: a head tied to the
embeddings only has its bias. Costs: a walk over the modules.
"""

import re
from collections.abc import Iterator

import torch
from torch import nn
from transformers import PreTrainedModel

from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.model import WeightPlace
from workbench.models.transformer import Transformer

PROBE = 4  # pieces in an encoder's test input; a decoder of an encoder-decoder gets one less


def probe(net: PreTrainedModel) -> Pieces:
    """A small test input on the model's device."""
    start = min(5, net.config.vocab_size - PROBE)
    ids = torch.arange(start, start + PROBE, device=net.device)[None]  # [1, pieces]
    no_word = torch.full_like(ids, NO_WORD)
    one = torch.ones(1, dtype=torch.int64, device=net.device)
    return Pieces(ids, no_word < 0, no_word, no_word > 0, None, one, one, one)


def blocks(body: nn.Module, layers: int) -> nn.ModuleList | None:
    """A stack's blocks; None if its layers share one block (and there is no final norm)."""
    for module in body.modules():
        if isinstance(module, nn.ModuleList) and len(module) == layers:
            return module
    return None


def weight_places(model: Transformer) -> dict[str, WeightPlace]:
    """Stack and layer of every trainable parameter, by its name without the head's prefix.

    Weights that all layers share belong to layer 1.
    """
    claimed: dict[int, WeightPlace] = {}
    for part, module in _parts(model):
        for name, weights in module.named_parameters():
            claimed.setdefault(id(weights), _place(model, part, name))
    places = {}
    for name, weights in model.net.named_parameters():
        place, bare = claimed[id(weights)], model.bare_name(name)
        places[bare] = place if place.layer else place._replace(module=bare)
    return places


def _place(model: Transformer, part: str, name: str) -> WeightPlace:
    stack = next((stack.name for stack in model.stacks if part.startswith(stack.name)), None)
    if part == "embeddings":
        return WeightPlace(model.stacks[0].name, 0, name)
    if stack is None:
        return WeightPlace(None, None, name)
    layer = re.search(r"layer (\d+)", part)
    return WeightPlace(stack, int(layer[1]) + 1 if layer else 1, name)


def parameters_by_part(model: Transformer) -> dict[str, int]:
    """Number of parameters of each part; they sum to the model's total."""
    counted: set[int] = set()
    sizes = {part: _new(module, counted) for part, module in _parts(model)}
    first = [part for part in sizes if part.startswith("embeddings")]
    return {part: sizes[part] for part in [*first, *sizes] if sizes[part]}


def _parts(model: Transformer) -> Iterator[tuple[str, nn.Module]]:
    """Parts and their modules, in the order in which they claim shared weights."""
    for stack in model.stacks:
        body = model.body(stack.name)
        stack_blocks = blocks(body, stack.layers)
        for layer, block in enumerate(stack_blocks or ()):
            yield f"{stack.name} layer {layer}", block
        if stack_blocks is None:
            lists = (part for part in body.modules() if isinstance(part, nn.ModuleList))
            yield f"{stack.name}, all layers shared", nn.ModuleList(lists)
    bodies = [model.body(stack.name) for stack in model.stacks]
    tables = [
        module
        for body in [model.net.base_model, *bodies]
        for name, module in body.named_modules()
        if "embed" in name.split(".")[-1] or isinstance(module, nn.Embedding)
    ]
    yield "embeddings", nn.ModuleList(tables)
    yield "rest of the body", nn.ModuleList(bodies)
    yield "head", model.net


def _new(module: nn.Module, counted: set[int]) -> int:
    """Number of a module's parameters that no part has claimed yet; marks them as claimed."""
    sizes = {id(weights): weights.numel() for weights in module.parameters()}
    size = sum(n for key, n in sizes.items() if key not in counted)
    counted.update(sizes)
    return size
