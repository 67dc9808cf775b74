"""Attention heads taken out of a model for good: its maps are cut, so it is smaller and faster.

What a head owns is told from the names of a module's maps (`LAYOUTS`), and which module a site is
by watching a small forward pass; nothing else is known of architectures, but for what a layer
without any head hands on. Heads that share weights go together: `units` says which, ALBERT's in all
layers, grouped queries with their group. A copy is made, the model given stays as it is; costs a
copy of the weights and a forward pass over four pieces.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.pytorch_utils import Conv1D

from workbench.core.errors import WorkbenchError
from workbench.engine.taps import Site, current
from workbench.models.net_parts import probe

if TYPE_CHECKING:
    from workbench.models.huggingface import HuggingFace

Kept = Mapping[int, Sequence[int]]  # by site: the heads that stay, as the uncut model numbers them


@dataclass(frozen=True)
class Layout:
    """Where an attention module keeps its heads.

    `rows` and `shared` are maps whose outputs are heads side by side, one a head and one a group;
    `fused` make queries, keys and values at once, each part with its heads side by side, and
    `woven` each head with its three parts. `output` reads heads side by side.
    """

    output: str
    rows: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()
    woven: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.rows, *self.shared, *self.fused, *self.woven)


# The first that fits; a map named here that a module does not have is not asked for, but for those
# of the first letters: queries, keys and values, or what makes all three.
LAYOUTS = (
    Layout("dense", rows=("query", "key", "value", "query_global", "key_global", "value_global")),
    Layout("dense", ("query_proj", "key_proj", "value_proj", "pos_key_proj", "pos_query_proj")),
    Layout("out_lin", ("q_lin", "k_lin", "v_lin")),
    Layout("out_proj", ("q_proj",), ("k_proj", "v_proj")),
    Layout("o_proj", ("q_proj",), ("k_proj", "v_proj")),
    Layout("o", ("q", "k", "v", "r", "r_r_bias", "r_s_bias", "r_w_bias", "seg_embed")),
    Layout("c_proj", rows=("q_attn",), fused=("c_attn",)),
    Layout("dense", woven=("query_key_value",)),
    Layout("Wo", fused=("Wqkv",)),
)
_MUST = ({"query", "key", "value"}, {"query_proj", "key_proj", "value_proj"},
         {"q_lin", "k_lin", "v_lin"}, {"q_proj", "k_proj", "v_proj", "out_proj"},
         {"q_proj", "k_proj", "v_proj", "o_proj"}, {"q", "k", "v", "o"}, {"c_attn", "c_proj"},
         {"query_key_value", "dense"}, {"Wqkv", "Wo"})  # fmt: skip
_COUNTS = ("num_attention_heads", "num_heads", "n_head")  # attributes that say how many heads
_BIASED = ("relative_attention_bias", "key_value_proj_dim", "slow_but_exact")  # T5's, BLOOM's
_READ = "_is_hf_initialized"
_WIDTHS = ("all_head_size", "split_size")  # and how wide they are together


@dataclass(frozen=True)
class Unit:
    """Heads that can only go together."""

    heads: tuple[tuple[int, int], ...]  # site and head


@dataclass(frozen=True)
class Part:
    """An attention module, and what it is called in its model."""

    name: str
    module: nn.Module
    layout: Layout
    output: nn.Module | nn.Parameter  # the map that reads its heads


def units(model: "HuggingFace") -> tuple[Unit, ...]:
    """All heads, those together that share weights; in the order of sites and heads."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for site, part in zip(model.sites, parts(model), strict=True):
        each = site.heads // max(site.groups, 1)
        for head in range(site.heads):
            found.setdefault((part.name, head // each), []).append((site.index, head))
    return tuple(Unit(tuple(heads)) for heads in found.values())


def magnitudes(model: "HuggingFace") -> dict[tuple[int, int], float]:
    """The length of each head's slice of its output map."""
    found = {}
    for site, part in zip(model.sites, parts(model), strict=True):
        if not site.heads:
            continue
        if isinstance(part.output, nn.Parameter):
            slices = part.output.detach().movedim(-2, 0)  # [heads, width, width of a head]
        else:
            weight: Tensor = part.output.weight  # type: ignore[assignment]
            whole = weight.detach() if isinstance(part.output, Conv1D) else weight.detach().T
            slices = whole.reshape(site.heads, -1, whole.shape[1])
        for head, size in enumerate(slices.flatten(1).float().norm(dim=1).tolist()):
            found[site.index, head] = size
    return found


def without(model: "HuggingFace", gone: Iterable[tuple[int, int]]) -> "HuggingFace":
    """A smaller copy of the model, without these heads, each a site and a head."""
    left_out = set(gone)
    _require_known(model, left_out)
    kept = {
        site.index: [head for head in range(site.heads) if (site.index, head) not in left_out]
        for site in model.sites
    }
    return cut(model.copy(), kept)


def cut(model: "HuggingFace", kept: Kept) -> "HuggingFace":
    """The model itself with these heads alone; what was opened before shares its weights."""
    found = parts(model)
    _require_together(model, found, kept)
    done: set[str] = set()
    for site, part in zip(model.sites, found, strict=True):
        heads = list(kept[site.index])
        if part.name in done or len(heads) == site.heads:
            continue
        done.add(part.name)
        if site.heads:
            _cut(part, site, heads)
        if not heads and not isinstance(part.output, nn.Parameter):
            empty(part.module, part.layout.output)  # XLNet's sums over no heads are as they should
    sites = tuple(
        replace(
            site,
            heads=len(kept[site.index]),
            groups=len(kept[site.index]) * site.groups // max(site.heads, 1),
        )
        for site in model.sites
    )
    smaller = type(model)(model.net, model.tokenizer, model.name, sites=sites)
    smaller.whole = model.whole
    smaller.kept = {
        site.index: tuple(model.kept[site.index][head] for head in kept[site.index])
        for site in model.sites
    }
    return smaller


def parts(model: "HuggingFace") -> tuple[Part, ...]:
    """The module of each site, in the order of the sites."""
    known = {part.module: part for part in _attention_modules(model.net)}
    called: list[Part] = []
    with torch.no_grad(), _watched(list(known), lambda module: called.append(known[module])):
        model.forward(probe(model.net), hidden=False)
    if len(called) != len(model.sites):
        raise WorkbenchError(
            f"the maps of {len(model.sites)} attention calls were looked for, and those of "
            f"{len(called)} found.",
            where=f"{model.name} ({model.family})",
            remedy="Heads of this architecture can be gated (Gate), but not taken out.",
        )
    return tuple(called)


def _attention_modules(net: nn.Module) -> Iterator[Part]:
    names = dict(net.named_modules())
    for name, module in names.items():
        own = {key for key, _ in module.named_children()}
        own |= {key for key, _ in module.named_parameters(recurse=False)}
        for layout, must in zip(LAYOUTS, _MUST, strict=True):
            if must <= own:
                beside = f"{name.rpartition('.')[0]}.output.dense"
                output = getattr(module, layout.output, None)
                output = names.get(beside) if output is None else output
                if output is not None:
                    yield Part(name, module, layout, output)
                break


@contextmanager
def _watched(modules: Sequence[nn.Module], call: "object") -> Iterator[None]:
    hooks = [
        module.register_forward_pre_hook(lambda module, _: call(module))  # type: ignore[operator]
        for module in modules
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _cut(part: Part, site: Site, heads: Sequence[int]) -> None:
    """Cut the maps of one module down to these heads."""
    module, layout = part.module, part.layout
    each = site.heads // site.groups
    groups = [head // each for head in heads[::each]]
    for name in layout.names:
        owner = getattr(module, name, None)
        if owner is None:
            continue
        if isinstance(owner, nn.Parameter):
            setattr(module, name, _cut_parameter(owner, site.heads, heads))
        elif name in layout.shared:
            _cut_out(owner, groups, site.groups, 1)
        elif name in layout.rows or name in layout.woven:
            _cut_out(owner, heads, site.heads, 1)
        else:
            _cut_out(owner, heads, site.heads, _size(owner) // _read(part.output))
    if isinstance(part.output, nn.Parameter):
        setattr(module, layout.output, _cut_parameter(part.output, site.heads, heads))
    else:
        _cut_in(part.output, heads, site.heads)
    _count(module, site.heads, heads)
    if type(module).__name__ == LONGFORMER:
        narrow(module)


def _count(module: nn.Module, before: int, heads: Sequence[int]) -> None:
    """Tell the module how many heads it has now."""
    for name in _WIDTHS:
        if isinstance(width := getattr(module, name, None), int):
            setattr(module, name, width // before * len(heads))
    for name in _COUNTS:
        if getattr(module, name, None) == before:
            setattr(module, name, len(heads))
    if any(hasattr(module, name) for name in _BIASED):
        # T5's table of positions stays whole, for other layers read it: see engine.attention.
        # BLOOM's biases of distance are made for all heads: see routes.
        whole = getattr(module, "kept_heads", torch.arange(before))
        place = next(module.parameters()).device
        module.register_buffer(
            "kept_heads", whole.to(place)[torch.tensor(heads, dtype=torch.long, device=place)],
            persistent=False,
        )  # fmt: skip


def _size(owner: nn.Module) -> int:
    """How many numbers a map makes."""
    weight: Tensor = owner.weight  # type: ignore[assignment]
    return int(weight.shape[1] if isinstance(owner, Conv1D) else weight.shape[0])


def _read(owner: nn.Module | nn.Parameter) -> int:
    """How many numbers a map reads."""
    weight: Tensor = owner.weight  # type: ignore[assignment, union-attr]
    return int(weight.shape[0] if isinstance(owner, Conv1D) else weight.shape[1])


def _index(heads: Sequence[int], number: int, size: int, blocks: int, like: Tensor) -> Tensor:
    """Places of the heads' numbers where each of so many blocks has all heads side by side."""
    width = size // (number * blocks)
    places = torch.arange(size, device=like.device).view(blocks, number, width)
    chosen = torch.tensor(list(heads), dtype=torch.long, device=like.device)
    return places[:, chosen].reshape(-1)


def _cut_out(owner: nn.Module, heads: Sequence[int], number: int, blocks: int) -> None:
    """Cut what a map makes."""
    weight: Tensor = owner.weight  # type: ignore[assignment]
    index = _index(heads, number, _size(owner), blocks, weight)
    columns = isinstance(owner, Conv1D)
    owner.weight = _parameter(weight.index_select(1 if columns else 0, index), weight)
    bias: Tensor | None = owner.bias  # type: ignore[assignment]
    if bias is not None:
        owner.bias = _parameter(bias.index_select(0, index), bias)
    if columns:
        owner.nf = len(index)  # type: ignore[assignment]
    else:
        owner.out_features = len(index)  # type: ignore[assignment]


def _cut_in(owner: nn.Module, heads: Sequence[int], number: int) -> None:
    """Cut what a map reads."""
    weight: Tensor = owner.weight  # type: ignore[assignment]
    index = _index(heads, number, _read(owner), 1, weight)
    rows = isinstance(owner, Conv1D)
    owner.weight = _parameter(weight.index_select(0 if rows else 1, index), weight)
    if rows:
        owner.nx = len(index)  # type: ignore[assignment]
    else:
        owner.in_features = len(index)  # type: ignore[assignment]


def _cut_parameter(whole: nn.Parameter, number: int, heads: Sequence[int]) -> nn.Parameter:
    """Of XLNet's: heads are the last dimension but one."""
    index = torch.tensor(list(heads), dtype=torch.long, device=whole.device)
    assert whole.shape[-2] == number
    return _parameter(whole.index_select(whole.ndim - 2, index), whole)


def _parameter(values: Tensor, like: Tensor) -> nn.Parameter:
    made = nn.Parameter(values.detach().clone(), requires_grad=like.requires_grad)
    if getattr(like, _READ, False):  # transformers' mark of weights that were read, not made up
        setattr(made, _READ, True)
    return made


def _require_known(model: "HuggingFace", gone: set[tuple[int, int]]) -> None:
    sites = {site.index: site for site in model.sites}
    for index, head in sorted(gone):
        site = sites.get(index)
        if site is None or not 0 <= head < site.heads:
            raise WorkbenchError(
                f"there is no head {head} at attention site {index}.",
                where=model.name,
                remedy=f"It has {len(sites)} sites, numbered from 0, with "
                f"{max((s.heads for s in model.sites), default=0)} heads at most.",
            )


def _require_together(model: "HuggingFace", found: Sequence[Part], kept: Kept) -> None:
    """Heads that share weights must go, or stay, as one."""
    alike: dict[str, list[int]] = {}
    for site, part in zip(model.sites, found, strict=True):
        heads = list(kept[site.index])
        each = site.heads // max(site.groups, 1)
        whole = {group * each + n for group in {h // each for h in heads} for n in range(each)}
        if whole != set(heads):
            raise WorkbenchError(
                f"heads of {site.name} share keys in groups of {each}, and go by group.",
                where=model.name,
                remedy="Take out every head of a group, or none of it.",
            )
        if alike.setdefault(part.name, heads) != heads:
            raise WorkbenchError(
                f"{site.name} shares its weights with another layer, and keeps the same heads.",
                where=model.name,
                remedy="Take a head out of every layer, or of none.",
            )


# --- layers without heads -------------------------------------------------------------------------
#
# What an attention module hands on when it has no head left: what its output map adds by itself.
#
# The module stays where it is, so that weights keep their names; its `forward` is replaced by one
# that computes nothing, counts its place among the attention calls, and keeps the cache of a
# generation as long as the text. T5's first layer still makes the bias of positions for the
# others.

_CACHES = ("past_key_values", "layer_past")
LONGFORMER = "LongformerSelfAttention"
_SOURCES = ("key_value_states", "encoder_hidden_states")


def empty(module: nn.Module, output: str) -> None:
    """Let the module hand on what it does without any head; `output` is the name of its last map.

    Where that map is the module's own it has been cut to read nothing, and adds its bias.
    """
    named = signature(type(module).forward)
    answer = _ANSWERS.get(type(module).__name__, _pair)
    hooked = type(module).__name__ == LONGFORMER  # its own hook counts the call

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        given = named.bind_partial(self, *args, **kwargs).arguments
        given |= given.pop("kwargs", {})
        states = next(value for name, value in given.items() if name != "self")
        running = current()
        if running is not None and not hooked:
            running.next_site(0, 0)
        cached = next((given[name] for name in _CACHES if given.get(name) is not None), None)
        if cached is not None:
            source = next((given[name] for name in _SOURCES if given.get(name) is not None), None)
            _remember(self, cached, states, source)
        return answer(self, states, _written(getattr(self, output, None), states), given)

    module.forward = MethodType(forward, module)


def _written(last: Any, states: Tensor) -> Tensor:
    """What a map of nothing makes; nothing, where the map is not the module's own."""
    if last is None:
        return states.new_zeros(*states.shape[:-1], 0)
    width = last.nf if isinstance(last, Conv1D) else last.out_features
    written = states.new_zeros(*states.shape[:-1], width)
    return written if last.bias is None else written + last.bias


def _remember(module: nn.Module, cached: Any, states: Tensor, source: Tensor | None) -> None:
    """A zero for each piece, so that the cache knows how many there were."""
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    two = isinstance(cached, EncoderDecoderCache)
    if source is None:
        read, own = states, cached.self_attention_cache if two else cached
    elif cached.is_updated.get(layer):
        return
    else:
        read, own = source, cached.cross_attention_cache
        cached.is_updated[layer] = True
    nothing = read.new_zeros(read.shape[0], 1, read.shape[1], 1)
    own.update(nothing, nothing, layer)


Answer = Callable[[Any, Tensor, Tensor, dict[str, Any]], Any]


def _pair(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return written, None


def _one(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return (written,)


def _list(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return [written]


def _albert(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    return module.LayerNorm(states + module.output_dropout(written)), None


def _t5(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    bias = given.get("position_bias")
    if bias is None:
        source = given.get("key_value_states")
        cached = given.get("past_key_values")
        before = 0
        if cached is not None and source is None:
            before = int(cached.get_seq_length(module.layer_idx)) - states.shape[1]
        keys = states.shape[1] + before if source is None else source.shape[1]
        if module.has_relative_attention_bias:
            bias = module.compute_bias(
                states.shape[1], keys, device=states.device, past_seen_tokens=before
            )
        else:
            bias = torch.zeros(
                1, module.n_heads, states.shape[1], keys, device=states.device, dtype=states.dtype
            )
    return written, bias, None


def _bloom(module: Any, states: Tensor, written: Tensor, given: dict[str, Any]) -> Any:
    kept = nn.functional.dropout(written, module.hidden_dropout, module.training)
    return given["residual"] + kept, None


_ANSWERS: dict[str, Answer] = {
    "BloomAttention": _bloom,
    "AlbertAttention": _albert,
    "T5Attention": _t5,
    "MT5Attention": _t5,
    LONGFORMER: _one,
    "Attention": _list,  # openai-gpt's
}


# --- Longformer's local attention -----------------------------------------------------------------
#
# transformers' own forward lays the heads' outputs into the width of the states, and so cannot
# have heads missing. This one does the same sums with the module's own band products, without
# global attention, which the adapter never asks for.


def narrow(module: nn.Module) -> None:
    """Let a module work with the heads it has left."""
    module.forward = MethodType(_local, module)


def _local(
    self: Any,
    hidden_states: Tensor,  # [batch, pieces, width]
    attention_mask: Tensor,  # [batch, pieces], below 0 where padding is
    is_index_masked: Tensor,  # [batch, pieces]
    is_global_attn: bool = False,
    output_attentions: bool = False,
    **unused: Any,
) -> tuple[Tensor, ...]:
    if is_global_attn:
        raise WorkbenchError(
            "a Longformer whose heads were taken out has local attention only.",
            remedy="Leave the global attention mask out.",
        )
    window = self.one_sided_attn_window_size
    shape = (*hidden_states.shape[:2], self.num_heads, self.head_dim)
    query, key, value = (
        read(hidden_states).view(shape) for read in (self.query, self.key, self.value)
    )
    scores = self._sliding_chunks_query_key_matmul(query / self.head_dim**0.5, key, window)
    padding = (attention_mask != 0)[:, :, None, None]
    lowest = torch.zeros_like(padding, dtype=query.dtype).masked_fill(
        padding, torch.finfo(query.dtype).min
    )
    ones = torch.ones_like(lowest)
    scores = scores + self._sliding_chunks_query_key_matmul(ones, lowest, window)
    given = scores.softmax(-1, dtype=torch.float32)  # [batch, pieces, heads, band]
    given = given.masked_fill(is_index_masked[:, :, None, None], 0.0).type_as(scores)
    kept = nn.functional.dropout(given, p=self.dropout, training=self.training)
    output = self._sliding_chunks_matmul_attn_probs_value(kept, value, window)
    return (output.flatten(-2), given) if output_attentions else (output.flatten(-2),)
