"""Permanent removal of attention heads: projections are sliced, so the model is smaller and faster.

The weights of a head follow from the names of a module's projections (`LAYOUTS`); the module of
each site follows from a small forward pass. No other knowledge of architectures is needed, except
for the output of a layer without heads. Heads that share weights are removed together, as `units`
lists them: in ALBERT across all layers, with grouped queries by group. The given model is not
changed. Costs: a copy of the weights and a forward pass over four pieces.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.pytorch_utils import Conv1D

from workbench.core.errors import WorkbenchError
from workbench.core.head_names import block_name
from workbench.engine.taps import Site, current
from workbench.models.net_parts import probe
from workbench.models.transformer import T, Transformer

# by site: the remaining heads, with indices of the original model
Kept = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Layout:
    """The projections of an attention module, and how they hold its heads.

    `rows` and `shared` are projections whose outputs are concatenated heads (`rows`) or groups
    (`shared`). `fused` compute queries, keys and values together: three parts, each with its
    concatenated heads. `woven` concatenate the three parts head by head. `output` is the output
    projection, which reads concatenated heads.
    """

    output: str
    rows: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()
    woven: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The input projections."""
        return (*self.rows, *self.shared, *self.fused, *self.woven)


# The first layout whose `_REQUIRED` names a module has is used; other names are optional.
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
_REQUIRED = ({"query", "key", "value"}, {"query_proj", "key_proj", "value_proj"},
         {"q_lin", "k_lin", "v_lin"}, {"q_proj", "k_proj", "v_proj", "out_proj"},
         {"q_proj", "k_proj", "v_proj", "o_proj"}, {"q", "k", "v", "o"}, {"c_attn", "c_proj"},
         {"query_key_value", "dense"}, {"Wqkv", "Wo"})  # fmt: skip
_COUNTS = ("num_attention_heads", "num_heads", "n_head")  # attributes with the number of heads
_BIASED = ("relative_attention_bias", "key_value_proj_dim", "slow_but_exact")  # T5's, BLOOM's
_READ = "_is_hf_initialized"  # transformers' mark of weights that were read from a file
_WIDTHS = ("all_head_size", "split_size")  # attributes with the width of all heads


@dataclass(frozen=True)
class Unit:
    """Heads that can only be removed together."""

    heads: tuple[tuple[int, int], ...]  # site and head


@dataclass(frozen=True)
class Part:
    """An attention module and its name in the model."""

    name: str
    module: nn.Module
    layout: Layout
    output: nn.Module | nn.Parameter  # the output projection


def units(model: Transformer) -> tuple[Unit, ...]:
    """All heads as removable units, in the order of sites and heads."""
    heads_of: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for site, part in zip(model.sites, parts(model), strict=True):
        group_size = site.heads // max(site.groups, 1)
        for head in range(site.heads):
            heads_of.setdefault((part.name, head // group_size), []).append((site.index, head))
    return tuple(Unit(tuple(heads)) for heads in heads_of.values())


def magnitudes(model: Transformer) -> dict[tuple[int, int], float]:
    """The norm of each head's slice of the output projection."""
    norms = {}
    for site, part in zip(model.sites, parts(model), strict=True):
        if not site.heads:
            continue
        if isinstance(part.output, nn.Parameter):
            slices = part.output.detach().movedim(-2, 0)  # [heads, width, width of a head]
        else:
            weight: Tensor = part.output.weight  # type: ignore[assignment]
            whole = weight.detach() if isinstance(part.output, Conv1D) else weight.detach().T
            slices = whole.reshape(site.heads, -1, whole.shape[1])
        for head, norm in enumerate(slices.flatten(1).float().norm(dim=1).tolist()):
            norms[site.index, head] = norm
    return norms


def without(model: T, heads: Iterable[tuple[int, int]]) -> T:
    """A smaller copy of the model without these heads; each head is a pair (site, head)."""
    removed = set(heads)
    _require_known(model, removed)
    kept = {
        site.index: [head for head in range(site.heads) if (site.index, head) not in removed]
        for site in model.sites
    }
    return cut(model.in_weights().copy(), kept)


def cut(model: T, kept: Kept) -> T:
    """Remove all other heads in place; returns a new adapter around the same net."""
    modules = parts(model)
    _require_whole_units(model, modules, kept)
    done: set[str] = set()
    for site, part in zip(model.sites, modules, strict=True):
        heads = list(kept[site.index])
        if part.name in done or len(heads) == site.heads:
            continue
        done.add(part.name)
        if site.heads:
            _cut(part, site, heads)
        if not heads and not isinstance(part.output, nn.Parameter):
            empty(part.module, part.layout.output)  # XLNet's sum over zero heads is already right
    sites = tuple(
        replace(
            site,
            heads=len(kept[site.index]),
            groups=len(kept[site.index]) * site.groups // max(site.heads, 1),
        )
        for site in model.sites
    )
    smaller = type(model)(model.net, model.tokenizer, model.name, sites=sites)
    smaller.take_heads(model)
    smaller.added, smaller.max_pieces = model.added, model.max_pieces
    smaller.whole = model.whole
    smaller.kept = {
        site.index: tuple(model.kept[site.index][head] for head in kept[site.index])
        for site in model.sites
    }
    return smaller


def parts(model: Transformer) -> tuple[Part, ...]:
    """The attention module of each site, in the order of the sites."""
    known = {part.module: part for part in _attention_modules(model.net)}
    called: list[Part] = []
    with torch.no_grad(), _watched(list(known), lambda module: called.append(known[module])):
        model.forward(probe(model.net), hidden=False)
    if len(called) != len(model.sites):
        raise WorkbenchError(
            f"the model makes {len(model.sites)} attention calls, but projections were found for "
            f"{len(called)} of them.",
            code="model-unsupported",
            where=f"{model.name} ({model.family})",
            remedy="Heads of this architecture can be gated (Gate) but not removed.",
        )
    return tuple(called)


def _attention_modules(net: nn.Module) -> Iterator[Part]:
    """Every module that has the projections of a known layout."""
    names = dict(net.named_modules())
    for name, module in names.items():
        members = {key for key, _ in module.named_children()}
        members |= {key for key, _ in module.named_parameters(recurse=False)}
        for layout, required in zip(LAYOUTS, _REQUIRED, strict=True):
            if required <= members:
                sibling = f"{name.rpartition('.')[0]}.output.dense"
                output = getattr(module, layout.output, None)
                output = names.get(sibling) if output is None else output
                if output is not None:
                    yield Part(name, module, layout, output)
                break


@contextmanager
def _watched(modules: Sequence[nn.Module], call: "object") -> Iterator[None]:
    """Call a function with each of these modules before its forward pass."""
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
    """Slice the projections of one module to these heads."""
    module, layout = part.module, part.layout
    group_size = site.heads // site.groups
    groups = [head // group_size for head in heads[::group_size]]
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
            _cut_out(owner, heads, site.heads, _output_size(owner) // _input_size(part.output))
    if isinstance(part.output, nn.Parameter):
        setattr(module, layout.output, _cut_parameter(part.output, site.heads, heads))
    else:
        _cut_in(part.output, heads, site.heads)
    _count(module, site.heads, heads)
    if type(module).__name__ == LONGFORMER:
        narrow(module)


def _count(module: nn.Module, before: int, heads: Sequence[int]) -> None:
    """Set the module's attributes to its new number of heads."""
    for name in _WIDTHS:
        if isinstance(width := getattr(module, name, None), int):
            setattr(module, name, width // before * len(heads))
    for name in _COUNTS:
        if getattr(module, name, None) == before:
            setattr(module, name, len(heads))
    if any(hasattr(module, name) for name in _BIASED):
        # T5's position table stays complete, because other layers read it: see engine.attention.
        # BLOOM computes its distance biases for all heads: see attention_hooks.
        previous = getattr(module, "kept_heads", torch.arange(before))
        device = next(module.parameters()).device
        module.register_buffer(
            "kept_heads", previous.to(device)[torch.tensor(heads, dtype=torch.long, device=device)],
            persistent=False,
        )  # fmt: skip


def _output_size(owner: nn.Module) -> int:
    """The output width of a projection."""
    weight: Tensor = owner.weight  # type: ignore[assignment]
    return int(weight.shape[1] if isinstance(owner, Conv1D) else weight.shape[0])


def _input_size(owner: nn.Module | nn.Parameter) -> int:
    """The input width of a projection."""
    weight: Tensor = owner.weight  # type: ignore[assignment, union-attr]
    return int(weight.shape[0] if isinstance(owner, Conv1D) else weight.shape[1])


def _index(heads: Sequence[int], n_heads: int, size: int, blocks: int, like: Tensor) -> Tensor:
    """Indices of the heads' columns, where each of the blocks concatenates all heads."""
    width = size // (n_heads * blocks)
    indices = torch.arange(size, device=like.device).view(blocks, n_heads, width)
    chosen = torch.tensor(list(heads), dtype=torch.long, device=like.device)
    return indices[:, chosen].reshape(-1)


def _cut_out(owner: nn.Module, heads: Sequence[int], n_heads: int, blocks: int) -> None:
    """Slice the outputs of a projection."""
    weight: Tensor = owner.weight  # type: ignore[assignment]
    index = _index(heads, n_heads, _output_size(owner), blocks, weight)
    columns = isinstance(owner, Conv1D)
    owner.weight = _parameter(weight.index_select(1 if columns else 0, index), weight)
    bias: Tensor | None = owner.bias  # type: ignore[assignment]
    if bias is not None:
        owner.bias = _parameter(bias.index_select(0, index), bias)
    if columns:
        owner.nf = len(index)  # type: ignore[assignment]
    else:
        owner.out_features = len(index)  # type: ignore[assignment]


def _cut_in(owner: nn.Module, heads: Sequence[int], n_heads: int) -> None:
    """Slice the inputs of a projection."""
    weight: Tensor = owner.weight  # type: ignore[assignment]
    index = _index(heads, n_heads, _input_size(owner), 1, weight)
    rows = isinstance(owner, Conv1D)
    owner.weight = _parameter(weight.index_select(0 if rows else 1, index), weight)
    if rows:
        owner.nx = len(index)  # type: ignore[assignment]
    else:
        owner.in_features = len(index)  # type: ignore[assignment]


def _cut_parameter(whole: nn.Parameter, n_heads: int, heads: Sequence[int]) -> nn.Parameter:
    """Slice an XLNet parameter, whose heads are the second last dimension."""
    index = torch.tensor(list(heads), dtype=torch.long, device=whole.device)
    assert whole.shape[-2] == n_heads
    return _parameter(whole.index_select(whole.ndim - 2, index), whole)


def _parameter(values: Tensor, like: Tensor) -> nn.Parameter:
    parameter = nn.Parameter(values.detach().clone(), requires_grad=like.requires_grad)
    if getattr(like, _READ, False):
        setattr(parameter, _READ, True)
    return parameter


def _named(site: Site) -> str:
    return f"{site.stack} {site.kind} attention of {block_name(site.layer)}"


def _require_known(model: Transformer, removed: set[tuple[int, int]]) -> None:
    sites = {site.index: site for site in model.sites}
    for index, head in sorted(removed):
        site = sites.get(index)
        if site is None or not 0 <= head < site.heads:
            raise WorkbenchError(
                f"there is no head {head} at attention site {index}.",
                code="setting-invalid",
                where=model.name,
                remedy=f"The model has {len(sites)} sites, counted from 0, with at most "
                f"{max((s.heads for s in model.sites), default=0)} heads each.",
            )


def _require_whole_units(model: Transformer, modules: Sequence[Part], kept: Kept) -> None:
    """Raise if heads that share weights are not kept or removed together."""
    kept_by_module: dict[str, list[int]] = {}
    for site, part in zip(model.sites, modules, strict=True):
        heads = list(kept[site.index])
        group_size = site.heads // max(site.groups, 1)
        complete = {
            group * group_size + n
            for group in {h // group_size for h in heads}
            for n in range(group_size)
        }
        if complete != set(heads):
            raise WorkbenchError(
                f"heads of {_named(site)} share keys in groups of {group_size}; a group can only "
                "be removed as a whole.",
                code="setting-invalid",
                where=model.name,
                remedy="Remove every head of a group, or none.",
            )
        if kept_by_module.setdefault(part.name, heads) != heads:
            raise WorkbenchError(
                f"{_named(site)} shares its weights with another layer, so both must keep the same "
                "heads.",
                code="setting-invalid",
                where=model.name,
                remedy="Remove a head from every layer that shares it, or from none.",
            )


# --- layers without heads -------------------------------------------------------------------------
#
# The output of an attention module without heads is the bias of its output projection.
#
# The module stays in the model, so that weights keep their names. Its `forward` is replaced: the
# new one computes no attention, counts as an attention call, and keeps a generation cache as long
# as the text. T5's first layer still computes the position bias for the other layers.

_CACHES = ("cache", "past_key_values", "layer_past")  # names in versions of transformers
LONGFORMER = "LongformerSelfAttention"
_SOURCES = ("key_value_states", "encoder_hidden_states")


def empty(module: nn.Module, output: str) -> None:
    """Replace the module's forward with that of zero heads.

    `output` is the name of the output projection. If it belongs to the module, it now has zero
    inputs and adds only its bias.
    """
    parameters = signature(type(module).forward)
    outputs = _OUTPUTS.get(type(module).__name__, _pair)
    hooked = type(module).__name__ == LONGFORMER  # its hook already counts the call

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        arguments = parameters.bind_partial(self, *args, **kwargs).arguments
        arguments |= arguments.pop("kwargs", {})
        states = next(value for name, value in arguments.items() if name != "self")
        running = current()
        if running is not None and not hooked:
            running.next_site(0, 0)
        if (cached := _first(arguments, _CACHES)) is not None:
            _extend_cache(self, cached, states, _first(arguments, _SOURCES))
        return outputs(self, states, _bias_only(getattr(self, output, None), states), arguments)

    module.forward = MethodType(forward, module)


def _first(arguments: dict[str, Any], names: tuple[str, ...]) -> Any:
    """The first of these arguments that is given."""
    return next((arguments[name] for name in names if arguments.get(name) is not None), None)


def _bias_only(projection: Any, states: Tensor) -> Tensor:
    """The projection's output without inputs; width 0 if it is not the module's own."""
    if projection is None:
        return states.new_zeros(*states.shape[:-1], 0)
    width = projection.nf if isinstance(projection, Conv1D) else projection.out_features
    zeros = states.new_zeros(*states.shape[:-1], width)
    return zeros if projection.bias is None else zeros + projection.bias


def _extend_cache(module: nn.Module, cached: Any, states: Tensor, source: Tensor | None) -> None:
    """Add one zero per piece, so that the cache has the right length."""
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    is_pair = isinstance(cached, EncoderDecoderCache)
    if source is None:
        attended, layer_cache = states, cached.self_attention_cache if is_pair else cached
    elif cached.is_updated.get(layer):
        return
    else:
        attended, layer_cache = source, cached.cross_attention_cache
        cached.is_updated[layer] = True
    zeros = attended.new_zeros(attended.shape[0], 1, attended.shape[1], 1)
    layer_cache.update(zeros, zeros, layer)


# from module, states, output and arguments: what the module's own forward returns
Outputs = Callable[[Any, Tensor, Tensor, dict[str, Any]], Any]


def _pair(module: Any, states: Tensor, output: Tensor, arguments: dict[str, Any]) -> Any:
    return output, None


def _one(module: Any, states: Tensor, output: Tensor, arguments: dict[str, Any]) -> Any:
    return (output,)


def _list(module: Any, states: Tensor, output: Tensor, arguments: dict[str, Any]) -> Any:
    return [output]


def _albert(module: Any, states: Tensor, output: Tensor, arguments: dict[str, Any]) -> Any:
    return module.LayerNorm(states + module.output_dropout(output)), None


def _t5(module: Any, states: Tensor, output: Tensor, arguments: dict[str, Any]) -> Any:
    bias = arguments.get("position_bias")
    if bias is None:
        source = arguments.get("key_value_states")
        cached = _first(arguments, _CACHES)
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
    return output, bias, None


def _bloom(module: Any, states: Tensor, output: Tensor, arguments: dict[str, Any]) -> Any:
    dropped = nn.functional.dropout(output, module.hidden_dropout, module.training)
    return arguments["residual"] + dropped, None


_OUTPUTS: dict[str, Outputs] = {
    "BloomAttention": _bloom,
    "AlbertAttention": _albert,
    "T5Attention": _t5,
    "MT5Attention": _t5,
    LONGFORMER: _one,
    "Attention": _list,  # openai-gpt's
}


# --- Longformer's local attention -----------------------------------------------------------------
#
# transformers' own forward reshapes the heads' outputs to the width of the states, and so fails if
# heads are missing. This one computes the same with the module's own products.


def narrow(module: nn.Module) -> None:
    """Replace the module's forward with one that works with fewer heads."""
    module.forward = MethodType(_local, module)


def _local(
    self: Any,
    hidden_states: Tensor,  # [batch, pieces, width]
    attention_mask: Tensor,  # [batch, pieces], negative at padding, positive at global pieces
    is_index_masked: Tensor,  # [batch, pieces]
    is_index_global_attn: Tensor | None = None,  # [batch, pieces]
    is_global_attn: bool = False,
    output_attentions: bool = False,
    **unused: Any,
) -> tuple[Tensor, ...]:
    window = self.one_sided_attn_window_size
    shape = (*hidden_states.shape[:2], self.num_heads, self.head_dim)
    query, key, value = (
        project(hidden_states).view(shape) for project in (self.query, self.key, self.value)
    )
    query = query / self.head_dim**0.5
    scores = self._sliding_chunks_query_key_matmul(query, key, window)
    elsewhere = (attention_mask != 0)[:, :, None, None]  # padding, and keys with global attention
    lowest = torch.zeros_like(elsewhere, dtype=query.dtype).masked_fill(
        elsewhere, torch.finfo(query.dtype).min
    )
    ones = torch.ones_like(lowest)
    scores = scores + self._sliding_chunks_query_key_matmul(ones, lowest, window)
    n_global, places = 0, None
    if is_global_attn:
        assert is_index_global_attn is not None, "transformers says which pieces"
        n_global, *places = self._get_global_attn_indices(is_index_global_attn)
        of_global = self._concat_with_global_key_attn_probs(key, query, n_global, *places)
        scores = torch.cat([of_global, scores], -1)
    probabilities = scores.softmax(-1, dtype=torch.float32)  # [batch, pieces, heads, bands]
    probabilities = probabilities.masked_fill(is_index_masked[:, :, None, None], 0.0).type_as(
        scores
    )
    dropped = nn.functional.dropout(probabilities, p=self.dropout, training=self.training)
    if places is None:
        output = self._sliding_chunks_matmul_attn_probs_value(dropped, value, window).flatten(-2)
        return (output, probabilities) if output_attentions else (output,)
    at, local_at, no_local = places
    output = self._compute_attn_output_with_global_indices(value, dropped, n_global, at, local_at)
    rows, row_maps = self._compute_global_attn_output_from_hidden(
        hidden_states.transpose(0, 1), n_global, local_at, at, no_local, is_index_masked
    )  # [batch, heads, global, width of a head], [batch, heads, global, pieces]
    output[at] = rows[local_at[0], :, local_at[1]].to(output.dtype)
    output = output.flatten(-2)
    return (output, probabilities, row_maps) if output_attentions else (output,)
