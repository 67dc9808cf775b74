"""Attention of the families that do not run through transformers' attention interface.

XLNet, openai-gpt, DeBERTa-v2 and BLOOM hand their probabilities, after the softmax, to a dropout
module: a hook before it lets taps see them and gates scale them, in train mode too. They give no
value vectors to a tap. XLNet looks twice where it predicts (`lm_heads.in_order`): taps see the
stream that knows its own pieces, gates scale both. BLOOM's biases of distance (ALiBi) are in the
probabilities; they are made for all heads at once, and a module that lost heads takes those of the
heads it kept. Longformer keeps its probabilities in bands and drops out inside a function: its maps
are asked for with `output_attentions` and unrolled (only in eval mode, and only of local attention;
the adapter never asks for global attention), its gates scale the output of each head.

A hook does nothing outside a session; it costs a call a layer.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from workbench.core.errors import WorkbenchError
from workbench.engine.taps import Session, Site, current

# by model type: the class of the attention module, and the dropout its probabilities pass through
_BEFORE_DROPOUT = {
    "xlnet": ("XLNetRelativeAttention", "dropout"),
    "openai-gpt": ("Attention", "attn_dropout"),
    "deberta-v2": ("DisentangledSelfAttention", "dropout"),
    "bloom": ("BloomAttention", "attention_dropout"),
}
_HUNG = "workbench_hooks"
_SECOND = "workbench_site"


def is_special(family: str) -> bool:
    return family in _BEFORE_DROPOUT or family == "longformer"


def install(net: PreTrainedModel, family: str) -> None:
    """Hang the hooks on a model of one of these families; a copy of one has them already."""
    if getattr(net, _HUNG, False):
        return
    setattr(net, _HUNG, True)
    if family == "longformer":
        for module in net.modules():
            if type(module).__name__ == "LongformerSelfAttention":
                module.register_forward_pre_hook(_ask_for_bands, with_kwargs=True)
                module.register_forward_hook(_read_bands, with_kwargs=True)
        return
    class_name, dropout = _BEFORE_DROPOUT[family]
    found = [module for module in net.modules() if type(module).__name__ == class_name]
    if not found:
        raise WorkbenchError(
            f"no module of this {family} is a {class_name}, so its attention cannot be seen.",
            where=type(net).__name__,
            remedy="The installed transformers may name it otherwise; see attention_hooks.py.",
        )
    for module in found:
        getattr(module, dropout).register_forward_pre_hook(_before_dropout)
        if family == "xlnet":
            module.register_forward_pre_hook(_first_stream)
        if family == "bloom":
            module.register_forward_pre_hook(_own_alibi, with_kwargs=True)


def _before_dropout(module: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor] | None:
    """Show probabilities on their way to dropout; scale them by the gates."""
    running = current()
    if running is None or args[0].ndim != 4:  # XLNet drops out its output here as well
        return None
    _refuse_outputs(running)
    probabilities: Tensor = args[0]  # [batch, heads, queries, keys]
    batch, heads = probabilities.shape[:2]
    site: Site | None = getattr(module, _SECOND, None)  # of XLNet's second stream: the first's
    if site is None:
        site = running.next_site(heads, heads)
        running.show(site, probabilities, None)
        if hasattr(module, _SECOND):
            setattr(module, _SECOND, site)
    gates = running.gate(site, batch)  # [batch or 1, heads]
    if gates is None:
        return None
    return (probabilities * gates[:, :, None, None].to(probabilities.dtype),)


def _first_stream(module: Any, args: tuple[Any, ...]) -> None:
    """Two streams of an XLNet, where it predicts, look by the same heads: they are one site."""
    setattr(module.dropout, _SECOND, None)


def _own_alibi(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The biases of the heads that a BLOOM's module kept."""
    kept: Tensor | None = getattr(module, "kept_heads", None)
    if kept is None:
        return None
    alibi: Tensor = kwargs["alibi"]  # [batch x all heads, 1, keys]
    by_head = alibi.view(args[0].shape[0], -1, *alibi.shape[1:]).index_select(1, kept)
    return args, {**kwargs, "alibi": by_head.flatten(0, 1)}


def _refuse_outputs(running: Session) -> None:
    if running.passing():
        raise WorkbenchError(
            "what the heads of this architecture hand on cannot be replaced.",
            remedy="Leave heads out instead (zero), which works for every architecture.",
        )


def _ask_for_bands(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    running = current()
    if running is None or not any(tap.needs_probabilities for tap in running.taps):
        return None
    if module.training:
        raise WorkbenchError(
            "Longformer's attention can be seen in eval mode only.",
            remedy="Call model.net.eval() first; gates work in train mode too.",
        )
    return args, {**kwargs, "output_attentions": True}


def _read_bands(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: tuple[Tensor, ...]
) -> tuple[Tensor, ...] | None:
    running = current()
    if running is None:
        return None
    _refuse_outputs(running)
    states, *rest = output  # [batch, queries, width]
    heads: int = module.num_heads  # type: ignore[assignment]
    site = running.next_site(heads, heads)
    if rest and running.looking(site):
        text = running.texts.get(site.stack)  # the model itself pads to whole windows
        length = states.shape[1] if text is None else text.ids.shape[1]
        running.show(site, unrolled(rest[0])[..., :length, :length], None)
    gates = running.gate(site, states.shape[0])
    if gates is not None and heads:
        by_head = states.view(
            *states.shape[:2], heads, -1
        )  # [batch, queries, heads, width of a head]
        states = (by_head * gates[:, None, :, None].to(states.dtype)).flatten(-2)
    return (states, *rest)


def unrolled(bands: Tensor) -> Tensor:
    """Maps from bands: band w + d of query i holds key i + d.

    [batch, queries, heads, 2 w + 1] -> [batch, heads, queries, keys]
    """
    batch, length, heads, band = bands.shape
    window = band // 2
    keys = torch.arange(length)[:, None] + torch.arange(-window, window + 1)  # [queries, bands]
    maps = bands.new_zeros(batch, heads, length, length + 2 * window)
    index = (keys + window).to(bands.device).expand(batch, heads, length, band)
    maps.scatter_(-1, index, bands.transpose(1, 2))
    return maps[..., window : window + length]
