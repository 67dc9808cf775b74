"""One model over several cards: its blocks in order, an equal share of them on each.

Embeddings are on the first card; norms and the output map come after the last block, unless they
share weights with the embeddings and so stay with them. A hook before each block, and before each
module outside the blocks that has numbers of its own, moves what it is given to its card; states of
a layer stay where they were made. The cards work one after another. Costs a copy of the states, and
of masks and positions for each block, wherever a text comes to the next card.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from transformers import PretrainedConfig, PreTrainedModel

from workbench.core.errors import WorkbenchError
from workbench.models.lm_heads import held_in

FAMILIES = (
    "bert", "roberta", "distilbert", "electra", "gpt2", "gpt_neox", "llama", "t5", "mt5", "bart",
    "modernbert",
)  # fmt: skip


def require_splits(family: str, where: str) -> None:
    """Refuse an architecture whose parts are not known to work on different cards."""
    if family not in FAMILIES:
        raise WorkbenchError(
            f"models of the family {family} are not split over several cards.",
            where=where,
            remedy=f"Use one card. Split are {', '.join(FAMILIES)}.",
        )


def layout(net: PreTrainedModel, cards: int) -> dict[str, int]:
    """The card of every parameter and buffer, by name."""
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    found = _places(net, cards)
    return {name: found[id(tensor)] for name, tensor in tensors.items()}


def placed_over(
    net: PreTrainedModel, devices: Sequence[torch.device], dtype: torch.dtype
) -> PreTrainedModel:
    """The same model over these devices, its weights in this precision; see `lm_heads.placed`."""
    units, where = _units(net), layout(net, len(devices))
    for name, weight in net.named_parameters():
        own = held_in(net, name, weight, dtype)
        weight.data = weight.data.to(device=devices[where[name]], dtype=own)
    for path, module in net.named_modules():
        for name, buffer in module.named_buffers(prefix=path, recurse=False):
            module._buffers[name.rpartition(".")[2]] = buffer.to(devices[where[name]])
    for unit in units:
        unit.register_forward_pre_hook(_arrive, with_kwargs=True)
    net.train(False)
    return net


def _arrive(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a module is given, on its card."""
    device = _tensors(module)[0].device

    def moved(given: Any) -> Any:
        away = isinstance(given, Tensor) and given.device != device
        return given.to(device) if away else given

    found: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(moved, (args, kwargs))
    return found


def _tensors(module: nn.Module, recurse: bool = True) -> list[Tensor]:
    return [*module.parameters(recurse), *module.buffers(recurse)]


def _blocks(net: PreTrainedModel) -> list[nn.Module]:
    """Of all stacks, in order."""
    config: Any = net.config
    sizes = {layers_of(config, stack) for stack in ("encoder", "decoder")}
    lists = [m for m in net.modules() if isinstance(m, nn.ModuleList) and len(m) in sizes]
    outermost: list[nn.Module] = []
    within: set[nn.Module] = set()
    for each in lists:
        if each not in within:
            outermost += each
            within |= set(each.modules())
    return outermost


def layers_of(config: PretrainedConfig, stack: str) -> int:
    """Blocks of a stack; a model of one stack has the same whatever that is called."""
    named: Any = config
    if stack == "decoder" and config.is_encoder_decoder:
        return int(getattr(named, "num_decoder_layers", None) or named.decoder_layers)
    return int(named.num_hidden_layers)


def _units(net: PreTrainedModel) -> list[nn.Module]:
    """Blocks, and modules outside them that have numbers of their own, as they are registered."""
    blocks = _blocks(net)
    inside = {part for block in blocks for part in block.modules()} - set(blocks)
    chosen = set(blocks)
    return [
        module
        for module in net.modules()
        if module in chosen or (module not in inside and _tensors(module, recurse=False))
    ]


def _places(net: PreTrainedModel, cards: int) -> dict[int, int]:
    """The card of every tensor, by its id; tensors of one module are never on two cards."""
    blocks = set(_blocks(net))
    sizes = {block: sum(weight.numel() for weight in block.parameters()) for block in blocks}
    whole, before, card = sum(sizes.values()), 0, 0
    places: dict[int, int] = {}
    owners: list[list[int]] = []
    for unit in _units(net):
        is_block = unit in blocks
        if is_block:  # by where its middle is in the order of all blocks
            card = min(cards - 1, (2 * before + sizes[unit]) * cards // (2 * whole))
            before += sizes[unit]
        own = [id(tensor) for tensor in _tensors(unit, recurse=is_block)]
        has_weights = next(unit.parameters(), None) is not None
        for each in own:
            places.setdefault(each, card if has_weights else 0)  # frequencies of positions: first
        owners.append(own)
    moved = True
    while moved:  # what shares a weight goes where the first of its owners is
        moved = False
        for own in owners:
            first = min(places[each] for each in own)
            moved |= any(places[each] != first for each in own)
            places.update(dict.fromkeys(own, first))
    return places
