"""Where each head's output goes: its slice of the output projection, by attention site.

Found by looking, for no architecture is named: what a site hands on, probabilities times values
with the heads side by side, is what goes into exactly one linear map of the model. Costs a forward
pass over a few pieces. Models whose route shows no values (XLNet, openai-gpt, DeBERTa-v2,
BLOOM, Longformer) have none.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.engine.taps import Site, Tap, View
from workbench.models.net_parts import probe

if TYPE_CHECKING:
    from workbench.models.huggingface import HuggingFace

NEAR = 1e-3  # relative; half precision computes the product in another order


@dataclass(eq=False)
class _Outputs(Tap):
    """What each site hands on.  # [batch, queries, heads x width of a head]"""

    found: dict[Site, Tensor] = field(default_factory=dict)

    def see(self, view: View) -> None:
        if view.value is not None:
            value = view.value.repeat_interleave(view.site.heads // view.site.groups, dim=1)
            output = view.probabilities.to(value.dtype) @ value  # [batch, heads, queries, width]
            self.found[view.site] = output.transpose(1, 2).flatten(-2)

    def close(self, whole: bool) -> None:
        pass


def output_weights(model: "HuggingFace") -> Mapping[Site, Tensor]:
    """The slice of the output projection of each head.  # [heads, width of a head, width] a site

    Sites whose projection is not found are left out.
    """
    outputs = _Outputs()
    with torch.no_grad(), _inputs(model.net) as seen:
        model.forward(probe(model.net), taps=[outputs], hidden=False)
    found = {}
    for site, output in outputs.found.items():
        weight = next((w for w, given in seen if _same(given, output)), None)
        if weight is not None:
            found[site] = weight.reshape(site.heads, -1, weight.shape[-1])
    return found


@contextmanager
def _inputs(net: nn.Module) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Every linear map's weight, [in, out], and what went into it."""
    seen: list[tuple[Tensor, Tensor]] = []

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        weight: Tensor = module.weight  # type: ignore[assignment]
        seen.append((weight.detach() if isinstance(module, Conv1D) else weight.detach().T, args[0]))

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


def _same(given: Tensor, output: Tensor) -> bool:
    if given.numel() != output.numel() or given.shape[-1] != output.shape[-1]:
        return False
    if given.device != output.device:  # of a block on another card
        return False
    apart = (given.reshape(output.shape) - output).abs().max()
    return bool(apart <= NEAR * output.abs().max())
