"""One model split over several GPUs: blocks in order, an equal share on each GPU.

Embeddings are on the first GPU. Norms and the output layer are with the last block, unless they
share weights with the embeddings and stay with them. A hook before each block, and before each
other module with tensors of its own, moves the module's inputs to its GPU; the states of a layer
stay where they were computed. The GPUs work one after another. Costs: at each change of GPU, a copy
of the states and, per block, of masks and positions.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from transformers import PretrainedConfig, PreTrainedModel

from workbench.core.errors import WorkbenchError
from workbench.models.output_heads.lm_heads import held_in

FAMILIES = (
    "bert", "roberta", "distilbert", "electra", "gpt2", "gpt_neox", "llama", "t5", "mt5", "bart",
    "modernbert",
)  # fmt: skip


def require_splits(family: str, where: str) -> None:
    """Raise for an architecture that is not known to work over several GPUs."""
    if family not in FAMILIES:
        raise WorkbenchError(
            f"models of the family {family} cannot be split over several GPUs.",
            code="model-unsupported",
            where=where,
            remedy=f"Use one GPU. Families that can be split: {', '.join(FAMILIES)}.",
        )


def layout(net: PreTrainedModel, n_gpus: int) -> dict[str, int]:
    """The index of the GPU of every parameter and buffer, by name."""
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    gpus_by_id = _gpus_by_id(net, n_gpus)
    return {name: gpus_by_id[id(tensor)] for name, tensor in tensors.items()}


def placed_over(
    net: PreTrainedModel, devices: Sequence[torch.device], dtype: torch.dtype
) -> PreTrainedModel:
    """Move a model to several devices and a precision; see `lm_heads.placed`."""
    units, gpu_of = _units(net), layout(net, len(devices))
    for name, weight in net.named_parameters():
        precision = held_in(net, name, weight, dtype)
        weight.data = weight.data.to(device=devices[gpu_of[name]], dtype=precision)
    for path, module in net.named_modules():
        for name, buffer in module.named_buffers(prefix=path, recurse=False):
            module._buffers[name.rpartition(".")[2]] = buffer.to(devices[gpu_of[name]])
    for unit in units:
        unit.register_forward_pre_hook(_move_inputs, with_kwargs=True)
    net.train(False)
    return net


def _move_inputs(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move the inputs of a module to its GPU."""
    device = _tensors(module)[0].device

    def moved(value: Any) -> Any:
        is_elsewhere = isinstance(value, Tensor) and value.device != device
        return value.to(device) if is_elsewhere else value

    inputs: tuple[tuple[Any, ...], dict[str, Any]] = tree_map(moved, (args, kwargs))
    return inputs


def _tensors(module: nn.Module, recurse: bool = True) -> list[Tensor]:
    return [*module.parameters(recurse), *module.buffers(recurse)]


def _blocks(net: PreTrainedModel) -> list[nn.Module]:
    """The blocks of all stacks, in order."""
    config: Any = net.config
    sizes = {layers_of(config, stack) for stack in ("encoder", "decoder")}
    lists = [m for m in net.modules() if isinstance(m, nn.ModuleList) and len(m) in sizes]
    outermost: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for modules in lists:
        if modules not in inside:
            outermost += modules
            inside |= set(modules.modules())
    return outermost


def layers_of(config: PretrainedConfig, stack: str) -> int:
    """The number of blocks of a stack; in a model with one stack, `stack` has no effect."""
    named: Any = config
    if stack == "decoder" and config.is_encoder_decoder:
        return int(getattr(named, "num_decoder_layers", None) or named.decoder_layers)
    return int(named.num_hidden_layers)


def _units(net: PreTrainedModel) -> list[nn.Module]:
    """Blocks, and modules outside them with tensors of their own, in order of registration."""
    blocks = _blocks(net)
    inside = {part for block in blocks for part in block.modules()} - set(blocks)
    chosen = set(blocks)
    return [
        module
        for module in net.modules()
        if module in chosen or (module not in inside and _tensors(module, recurse=False))
    ]


def _gpus_by_id(net: PreTrainedModel, n_gpus: int) -> dict[int, int]:
    """The GPU index of every tensor, by its id; tensors of one module are on one GPU."""
    blocks = set(_blocks(net))
    sizes = {block: sum(weight.numel() for weight in block.parameters()) for block in blocks}
    total, before, gpu = sum(sizes.values()), 0, 0
    gpu_of: dict[int, int] = {}
    owners: list[list[int]] = []
    for unit in _units(net):
        is_block = unit in blocks
        if is_block:  # by the position of the block's middle among all parameters
            gpu = min(n_gpus - 1, (2 * before + sizes[unit]) * n_gpus // (2 * total))
            before += sizes[unit]
        ids = [id(tensor) for tensor in _tensors(unit, recurse=is_block)]
        has_weights = next(unit.parameters(), None) is not None
        for tensor_id in ids:
            # position frequencies: first GPU
            gpu_of.setdefault(tensor_id, gpu if has_weights else 0)
        owners.append(ids)
    changed = True
    while changed:  # modules that share a weight go to the first GPU among them
        changed = False
        for ids in owners:
            first = min(gpu_of[tensor_id] for tensor_id in ids)
            changed |= any(gpu_of[tensor_id] != first for tensor_id in ids)
            gpu_of.update(dict.fromkeys(ids, first))
    return gpu_of
