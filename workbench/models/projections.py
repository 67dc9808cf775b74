"""Each head's slice of the output projection, by attention site.

No architecture is hard-coded: a site's output (probabilities times values, heads concatenated) is
the input of exactly one linear layer of the model. Costs: a forward pass over a few pieces. Models
that show no value vectors (XLNet, openai-gpt, DeBERTa-v2, BLOOM, Longformer) have no such slices.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.engine.taps import Site, Tap, View
from workbench.models.net_parts import probe
from workbench.models.transformer import Transformer

NEAR = 1e-3  # relative tolerance; half precision computes the product in another order


@dataclass(eq=False)
class _Outputs(Tap):
    """The output of each site.  # [batch, queries, heads x width of a head]"""

    by_site: dict[Site, Tensor] = field(default_factory=dict)

    def see(self, view: View) -> None:
        if view.value is not None:
            value = view.value.repeat_interleave(view.site.heads // view.site.groups, dim=1)
            output = view.probabilities.to(value.dtype) @ value  # [batch, heads, queries, width]
            self.by_site[view.site] = output.transpose(1, 2).flatten(-2)

    def close(self, whole: bool) -> None:
        pass


def output_weights(model: Transformer) -> Mapping[Site, Tensor]:
    """Each head's slice of the output projection.  # [heads, width of a head, width] per site

    Sites without a matching linear layer are missing.
    """
    slices = {}
    for site, module in output_modules(model).items():
        weight: Tensor = module.weight.detach()  # type: ignore[operator]
        weight = weight if isinstance(module, Conv1D) else weight.T  # [in, out]
        slices[site] = weight.reshape(site.heads, -1, weight.shape[-1])
    return slices


def output_modules(model: Transformer) -> Mapping[Site, nn.Module]:
    """The output projection of each site; sites without a matching linear layer are missing."""
    outputs = _Outputs()
    with torch.no_grad(), _inputs(model.net) as seen:
        model.forward(probe(model.net), taps=[outputs], hidden=False)
    modules, after = {}, 0  # both are in the order of calls, so the next one is soon found
    for site, output in outputs.by_site.items():
        places = (*range(after, len(seen)), *range(after))
        at = next((place for place in places if _equal(seen[place][1], output)), None)
        if at is not None:
            modules[site], after = seen[at][0], at + 1
    return modules


@contextmanager
def _inputs(net: nn.Module) -> Iterator[list[tuple[nn.Module, Tensor]]]:
    """Every linear layer that ran, and its input."""
    seen: list[tuple[nn.Module, Tensor]] = []

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        seen.append((module, args[0]))

    hooks = [
        module.register_forward_pre_hook(keep)
        for module in net.modules()
        if isinstance(module, nn.Linear | Conv1D)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _equal(inputs: Tensor, output: Tensor) -> bool:
    if inputs.numel() != output.numel() or inputs.shape[-1] != output.shape[-1]:
        return False
    if inputs.device != output.device:  # a block on another GPU
        return False
    difference = (inputs.reshape(output.shape) - output).abs().max()
    return bool(difference <= NEAR * output.abs().max())
