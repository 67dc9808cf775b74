"""The parts of a net of transformers: its blocks, and where each of its weights is.

Found by looking, for no architecture is named: the blocks of a stack are the list of modules that
is as long as the stack has layers. Shared weights count once, where they come first: a head tied to
the embeddings has none of its own but a bias. Costs a walk over the modules.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers import PreTrainedModel

from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.model import WeightPlace

if TYPE_CHECKING:
    from workbench.models.huggingface import HuggingFace

PROBE = 4  # pieces an encoder is probed with; a decoder beside it gets one less


def probe(net: PreTrainedModel) -> Pieces:
    """A few pieces to find out by, on the model's device."""
    start = min(5, net.config.vocab_size - PROBE)
    ids = torch.arange(start, start + PROBE, device=net.device)[None]  # [1, pieces]
    blank = torch.full_like(ids, NO_WORD)
    one = torch.ones(1, dtype=torch.int64, device=net.device)
    return Pieces(ids, blank < 0, blank, blank > 0, None, one, one, one)


def blocks(body: nn.Module, layers: int) -> nn.ModuleList | None:
    """A stack's blocks; None where its layers share one, and there is no final norm."""
    for module in body.modules():
        if isinstance(module, nn.ModuleList) and len(module) == layers:
            return module
    return None


def weight_places(model: "HuggingFace") -> dict[str, WeightPlace]:
    """The place of every parameter that can learn, by its name without the head's.

    Where layers share their weights, they are those of layer 1.
    """
    claimed: dict[int, WeightPlace] = {}
    for part, module in _parts(model):
        for name, weights in module.named_parameters():
            claimed.setdefault(id(weights), _place(model, part, name))
    found = {}
    for name, weights in model.net.named_parameters():
        place, bare = claimed[id(weights)], model.bare_name(name)
        found[bare] = place if place.layer else place._replace(module=bare)
    return found


def _place(model: "HuggingFace", part: str, name: str) -> WeightPlace:
    stack = next((stack.name for stack in model.stacks if part.startswith(stack.name)), None)
    if part == "embeddings":
        return WeightPlace(model.stacks[0].name, 0, name)
    if stack is None:
        return WeightPlace(None, None, name)
    layer = re.search(r"layer (\d+)", part)
    return WeightPlace(stack, int(layer[1]) + 1 if layer else 1, name)


def parameters_by_part(model: "HuggingFace") -> dict[str, int]:
    """How many parameters each part has; they add up to all the model's."""
    counted: set[int] = set()
    sizes = {part: _new(module, counted) for part, module in _parts(model)}
    first = [part for part in sizes if part.startswith("embeddings")]
    return {part: sizes[part] for part in [*first, *sizes] if sizes[part]}


def _parts(model: "HuggingFace") -> Iterator[tuple[str, nn.Module]]:
    """Parts and their modules, in the order in which they claim what they share."""
    for stack in model.stacks:
        body = model.body(stack.name)
        found = blocks(body, stack.layers)
        for layer, block in enumerate(found or ()):
            yield f"{stack.name} layer {layer}", block
        if found is None:
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
    """Parameters of a module that no part has claimed yet."""
    fresh = {id(weights): weights.numel() for weights in module.parameters()}
    size = sum(number for key, number in fresh.items() if key not in counted)
    counted.update(fresh)
    return size
