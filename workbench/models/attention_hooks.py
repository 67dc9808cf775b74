"""Hooks that expose attention in the families outside transformers' attention interface.

XLNet, openai-gpt, DeBERTa-v2 and BLOOM pass their probabilities, after the softmax, to a dropout
module. A hook before that module shows them to taps and lets gates scale them, in train mode too.
These families give no value vectors to a tap. XLNet attends twice when it predicts
(`lm_heads.in_order`): taps see the content stream, and the query stream if they read it; gates
scale both. BLOOM's distance biases (ALiBi) are part of the probabilities. BLOOM computes them for
all heads at once, so a module with removed heads selects the biases of its remaining heads.
Longformer stores probabilities in bands and applies dropout inside a function. Its maps come from
`output_attentions` and are unrolled (only in eval mode). Its gates scale the output of each head.
The first pieces of a text have global attention, as many as the config's `global_positions` says,
by default none.

Costs: one function call per layer; a hook does nothing outside a session.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from workbench.core.errors import WorkbenchError
from workbench.engine.taps import Session, Site, current

# by model type: the class of the attention module, and the dropout module after its softmax
_BEFORE_DROPOUT = {
    "xlnet": ("XLNetRelativeAttention", "dropout"),
    "openai-gpt": ("Attention", "attn_dropout"),
    "deberta-v2": ("DisentangledSelfAttention", "dropout"),
    "bloom": ("BloomAttention", "attention_dropout"),
}
_INSTALLED = "workbench_hooks"
_SECOND_STREAM = "workbench_site"
_GLOBAL = "workbench_global"


def is_special(family: str) -> bool:
    """Whether models of this family need the hooks of this module."""
    return family in _BEFORE_DROPOUT or family == "longformer"


def install(net: PreTrainedModel, family: str) -> None:
    """Add the hooks to a model of one of these families; a copied model already has them."""
    if getattr(net, _INSTALLED, False):
        return
    setattr(net, _INSTALLED, True)
    if family == "longformer":
        for module in net.modules():
            if type(module).__name__ == "LongformerSelfAttention":
                module.register_forward_pre_hook(_request_bands, with_kwargs=True)
                module.register_forward_hook(_read_bands, with_kwargs=True)
        attend_globally(net)
        return
    class_name, dropout = _BEFORE_DROPOUT[family]
    attention_modules = [module for module in net.modules() if type(module).__name__ == class_name]
    if not attention_modules:
        raise WorkbenchError(
            f"this {family} model has no {class_name} module, so its attention cannot be read.",
            code="model-unsupported",
            where=type(net).__name__,
            remedy="The installed transformers version may use another class name; see "
            "attention_hooks.py.",
        )
    for module in attention_modules:
        getattr(module, dropout).register_forward_pre_hook(_before_dropout)
        if family == "xlnet":
            module.register_forward_pre_hook(_begin_first_stream)
        if family == "bloom":
            module.register_forward_pre_hook(_alibi_of_remaining_heads, with_kwargs=True)


def _before_dropout(module: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor] | None:
    """Show probabilities to the taps before dropout, and scale them by the gates."""
    running = current()
    if running is None or args[0].ndim != 4:  # XLNet also drops out its output with this module
        return None
    _reject_output_taps(running)
    probabilities: Tensor = args[0]  # [batch, heads, queries, keys]
    batch, heads = probabilities.shape[:2]
    # XLNet's second stream has the site of its first
    site: Site | None = getattr(module, _SECOND_STREAM, None)
    is_second = site is not None
    if site is None:
        site = running.next_site(heads, heads)
        if hasattr(module, _SECOND_STREAM):
            setattr(module, _SECOND_STREAM, site)
    running.show(site, probabilities, None, is_second=is_second)
    gates = running.gate(site, batch)  # [batch or 1, heads]
    if gates is None:
        return None
    return (probabilities * gates[:, :, None, None].to(probabilities.dtype),)


def _begin_first_stream(module: Any, args: tuple[Any, ...]) -> None:
    """Reset the site: the two streams of a predicting XLNet use the same heads, so one site."""
    setattr(module.dropout, _SECOND_STREAM, None)


def _alibi_of_remaining_heads(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Select the ALiBi biases of the heads that a pruned BLOOM module still has."""
    remaining: Tensor | None = getattr(module, "kept_heads", None)
    if remaining is None:
        return None
    alibi: Tensor = kwargs["alibi"]  # [batch x all heads, 1, keys]
    by_head = alibi.view(args[0].shape[0], -1, *alibi.shape[1:]).index_select(1, remaining)
    return args, {**kwargs, "alibi": by_head.flatten(0, 1)}


def _reject_output_taps(running: Session) -> None:
    if running.output_taps():
        raise WorkbenchError(
            "head outputs of this architecture cannot be replaced.",
            code="model-unsupported",
            remedy="Set head outputs to zero instead (zero), which works for every architecture.",
        )


def attend_globally(net: PreTrainedModel) -> None:
    """Let the first pieces of a Longformer's texts see all others, and be seen by them.

    Their number is `global_positions` of its config; transformers leaves it to each call.
    """
    if n_global(net.config) and not getattr(net, _GLOBAL, False):
        setattr(net, _GLOBAL, True)
        net.base_model.register_forward_pre_hook(_with_global_positions, with_kwargs=True)


def n_global(config: Any) -> int:
    """Number of first pieces with global attention."""
    return int(getattr(config, "global_positions", 0) or 0)


def _with_global_positions(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    if kwargs.get("global_attention_mask") is not None:
        return None
    given = kwargs.get("input_ids", args[0] if args else None)
    read = kwargs["inputs_embeds"][..., 0] if given is None else given  # [batch, pieces]
    mask = torch.zeros(read.shape, dtype=torch.long, device=read.device)
    mask[:, : n_global(module.config)] = 1
    return args, {**kwargs, "global_attention_mask": mask}


def _request_bands(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Make Longformer return its probabilities when a tap needs them."""
    running = current()
    if running is None or not any(tap.needs_probabilities for tap in running.taps):
        return None
    if module.training:
        raise WorkbenchError(
            "Longformer's attention maps are available in eval mode only.",
            code="model-unsupported",
            remedy="Call model.net.eval() first; gates work in train mode too.",
        )
    return args, {**kwargs, "output_attentions": True}


def _read_bands(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: tuple[Tensor, ...]
) -> tuple[Tensor, ...] | None:
    running = current()
    if running is None:
        return None
    _reject_output_taps(running)
    states, *rest = output  # [batch, queries, width]
    heads: int = module.num_heads  # type: ignore[assignment]
    window: int = module.one_sided_attn_window_size  # type: ignore[assignment]
    site = running.next_site(heads, heads, window, n_global(module.config))
    if rest and running.map_readers(site):
        text = running.texts.get(site.stack)  # the model itself pads to whole windows
        length = states.shape[1] if text is None else text.ids.shape[1]
        maps = unrolled(rest[0], window, *rest[1:])
        running.show(site, maps[..., :length, :length], None)
    gates = running.gate(site, states.shape[0])
    if gates is not None and heads:
        # [batch, queries, heads, width of a head]
        by_head = states.view(*states.shape[:2], heads, -1)
        states = (by_head * gates[:, None, :, None].to(states.dtype)).flatten(-2)
    return (states, *rest)


def unrolled(bands: Tensor, window: int, of_global: Tensor | None = None) -> Tensor:
    """Attention maps unrolled from bands: band w + d of query i holds key i + d.

    The first bands are those of keys with global attention, which are the first pieces; `of_global`
    [batch, heads, global, keys] are the rows of these pieces.
    [batch, queries, heads, global + 2 w + 1] -> [batch, heads, queries, keys]
    """
    batch, length, heads, band = bands.shape
    n_first = band - 2 * window - 1
    keys = torch.arange(length)[:, None] + torch.arange(-window, window + 1)  # [queries, bands]
    maps = bands.new_zeros(batch, heads, length, length + 2 * window)
    index = (keys + window).to(bands.device).expand(batch, heads, length, band - n_first)
    maps.scatter_(-1, index, bands[..., n_first:].transpose(1, 2))
    maps = maps[..., window : window + length]
    if of_global is not None:
        maps[..., :n_first] += bands[..., :n_first].transpose(1, 2)
        maps[:, :, :n_first] = of_global
    return maps
