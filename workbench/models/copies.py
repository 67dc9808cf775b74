"""What a model is compared with: a copy, the same with fresh weights, and its bare embeddings.

`copied` and `fresh` cost a second model in memory; the latter is what `REF@random` opens, made of a
model that is open already. `bare` is what stands for a piece before positions are added: a table
looked up.
"""

import copy
import re
from collections.abc import Iterator
from typing import NamedTuple, overload

import torch
from torch import Tensor, nn

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Pieces
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.models.head_removal import cut
from workbench.models.huggingface import HuggingFace, blocks
from workbench.models.lm_heads import placed
from workbench.models.word_models import WordModel


def fresh(model: Model, seed: int) -> Model:
    """The same architecture, device and precision; weights drawn anew."""
    if isinstance(model, WordModel) and model.anew is not None:
        return model.anew(seed)
    if not isinstance(model, HuggingFace):
        raise WorkbenchError(
            f"{model.name} ({model.family}) cannot be made anew with other weights.",
            remedy="Leave the random baseline out.",
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = type(model.net)(copy.deepcopy(model.net.config))
    placed(net, model.device, model.net.dtype)
    twin = HuggingFace(net, model.tokenizer, f"{model.name}@random")
    return cut(twin, model.kept) if twin.sites != model.sites else twin


@overload
def copied(model: HuggingFace) -> HuggingFace: ...
@overload
def copied(model: Model) -> Model: ...
def copied(model: Model) -> Model:
    """The same model with weights of its own."""
    if isinstance(model, HuggingFace):
        net = copy.deepcopy(model.net)
        own = HuggingFace(net, model.tokenizer, model.name, sites=model.sites)
        own.kept, own.whole = model.kept, model.whole
        return own
    assert isinstance(model, WordModel) and model.again is not None, "there are no other models"
    again = model.again()
    again.name = model.name
    again._number, again._word = model._number, model._word  # what is encoded serves both
    return again


def bare(model: Model, pieces: Pieces) -> Tensor | None:
    """Embeddings of pieces without positions; None where layer 0 has none.  # [batch, pieces, d]"""
    if not isinstance(model, HuggingFace):
        return None
    found: Tensor = model.net.get_input_embeddings()(pieces.ids)
    return found


# --- parameters by part ---------------------------------------------------------------------------
#
# Where a model's parameters are: its embeddings, each layer of each stack, the head, the rest.
#
# Shared weights count once, where they come first: a head tied to the embeddings has none of its
# own but a bias. Costs a walk over the modules.


class Where(NamedTuple):
    """Where a parameter is; `layer` is 0 for embeddings, and None for what belongs to no layer."""

    stack: StackName | None
    layer: int | None
    module: str  # its name within the layer


def where(model: Model) -> dict[str, Where]:
    """The place of every parameter that can learn, by its own name.

    Where layers share their weights, they are those of layer 1.
    """
    if isinstance(model, WordModel):
        stack = model.stacks[0].name
        return {
            name: Where(stack, _cell(name), re.sub(r"RNN_\d/.*Cell\d+/", "", name))
            for name in model.learns
        }
    assert isinstance(model, HuggingFace), "there are no other models"
    claimed: dict[int, Where] = {}
    for part, module in _parts(model):
        for name, weights in module.named_parameters():
            claimed.setdefault(id(weights), _where(model, part, name))
    return {name: claimed[id(weights)] for name, weights in model.net.named_parameters()}


def _where(model: HuggingFace, part: str, name: str) -> Where:
    stack = next((stack.name for stack in model.stacks if part.startswith(stack.name)), None)
    if part == "embeddings":
        return Where(model.stacks[0].name, 0, name)
    if stack is None:
        return Where(None, None, name)
    layer = re.search(r"layer (\d+)", part)
    return Where(stack, int(layer[1]) + 1 if layer else 1, name)


def _cell(name: str) -> int:
    """The layer of one of ELMo's weights: its LSTMs count from 1, all before them is layer 0."""
    found = re.search(r"Cell(\d+)/", name)
    return int(found[1]) + 1 if found else 0


def parameters_by_part(model: Model) -> dict[str, int]:
    """How many parameters each part has; they add up to all the model's."""
    if isinstance(model, WordModel):
        found: dict[str, int] = {}
        for name, weights in model.weights.items():
            part = name.split(".")[0]
            found[part] = found.get(part, 0) + weights.numel()
        return found
    if not isinstance(model, HuggingFace):
        return {"all": model.parameters}
    counted: set[int] = set()
    sizes = {part: _new(module, counted) for part, module in _parts(model)}
    first = [part for part in sizes if part.startswith("embeddings")]
    return {part: sizes[part] for part in [*first, *sizes] if sizes[part]}


def _parts(model: HuggingFace) -> Iterator[tuple[str, nn.Module]]:
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
