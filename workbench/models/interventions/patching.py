"""Activation patching: passes over a text in which activations of another text are restored.

    points = patch_points(model, "states")
    clean = activations(points, run_clean)         # of the text that the activations come from
    base = recorded_base(points, run_corrupt)      # of the text that is patched
    values = patched(points, base, clean, patches, run_corrupt, n_pieces)

A point is a place in a pass: the state before the first block or after a block, the output of a
head before the output projection, or what an attention or an MLP adds to the residual stream. Each
patch is one row of a batch, and blocks below the lowest patch of a batch replay their outputs. This
works for every architecture: states and heads need no more than its blocks and projections, outputs
of attentions and MLPs a known residual stream. Of XLNet's two streams both are restored. ELMo has
states only: a restored state is read by the layer above, in its direction, while the steps of its
own layer have read the state of the patched text.

Costs: a pass over four pieces to find the points (four or more for attentions and MLPs), one pass
for each text, and for all patches of a layer a batch of as many rows through the layers above.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers.pytorch_utils import Conv1D

from workbench.core.public import require_choice
from workbench.engine.batch import sent
from workbench.engine.forward_pass import PIECES
from workbench.engine.halving import Limit, Places, in_halves
from workbench.engine.model import Model, refusal
from workbench.engine.taps import Site, StackName, current
from workbench.models.head_removal import Part, parts
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.interventions.head_replay import batch_first, stream_of, with_stream
from workbench.models.interventions.prefix_cache import (
    Prefix,
    ReplayPoints,
    blocks_of,
    replaced_forward,
)
from workbench.models.interventions.prefix_cache import recorded as recorded_prefix
from workbench.models.interventions.residual_stream import additions
from workbench.models.net_parts import probe

What = Literal["states", "heads", "mlps", "attentions"]
# what a projection makes of states, by head; and what the last one of a block reads
Vectors = Literal["queries", "keys", "values", "neurons"]
# From a number of rows to the numbers of a pass over as many copies of the text.  # -> [rows]
Run = Callable[[int, "Passing | None"], Tensor]
OnProgress = Callable[[int], object]


class Point(NamedTuple):
    """A place in a pass where activations are restored.

    `layer` of a state counts from 0 before the first block; else it is the block, from 0.
    """

    what: What | Vectors
    stack: StackName
    layer: int
    kind: str = ""  # of an attention: self, causal or cross


class Patch(NamedTuple):
    """What is restored in one row: at each of the positions, the activation of another position.

    Positions of ELMo count from its first word; -1 and the number of words are the text's ends.
    """

    point: Point
    positions: tuple[int, ...]  # in the patched text
    sources: tuple[int, ...]  # in the text that the activations come from, for each position
    head: int | None = None


# By point and stream: [1, pieces, width], of heads [1, pieces, heads, width of a head].
Activations = Mapping[tuple[Point, int], Tensor]
Change = Callable[[Point, int, Tensor], Tensor]  # point, stream, [batch, pieces, ...]


class _Source(NamedTuple):
    """A call of a module, in its block, whose output or input passes a point."""

    point: Point
    stream: int


class _Made(NamedTuple):
    """Which numbers of a projection's output are the queries, keys or values of a point."""

    point: Point
    part: int  # of as many parts
    parts: int
    woven: bool  # head by head: each with all parts

    def view(self, output: Tensor, heads: int) -> Tensor:
        """A view of these numbers.  # [batch, pieces, heads, width of a head]"""
        shape = (heads, self.parts, -1) if self.woven else (self.parts, heads, -1)
        split = output.view(*output.shape[:-1], *shape)
        return split.select(-2 if self.woven else -3, self.part)


@dataclass(frozen=True, eq=False)
class PatchPoints:
    """The points of a model, in the order of a pass, and the modules where they are."""

    model: Model
    what: What | Vectors
    points: tuple[Point, ...]
    depth: Mapping[Point, int]  # number of blocks, over all stacks, that end before it
    heads: Mapping[Point, int]  # number of heads
    streams: int = 1  # 2: XLNet with hidden pieces
    blocks: Mapping[nn.Module, StackName] = field(default_factory=dict)
    n_blocks: Mapping[StackName, int] = field(default_factory=dict)
    # by stack, block, module and call in the block
    made: Mapping[tuple[StackName, int, nn.Module, int], _Source] = field(default_factory=dict)
    # by stack and block: the projections that read the heads, in the order of their calls
    projected: Mapping[tuple[StackName, int], Sequence[tuple[nn.Module, Point]]] = field(
        default_factory=dict
    )
    # by stack, block and module: which of its numbers are queries, keys or values
    vectors: Mapping[tuple[StackName, int, nn.Module], Sequence[_Made]] = field(
        default_factory=dict
    )
    replay: ReplayPoints | None = None

    @property
    def is_recurrent(self) -> bool:
        """Whether the model is an ELMo, with states of LSTM layers."""
        return self.replay is None


def patch_points(
    model: Model, what: What | Vectors = "states", predicting: bool = False
) -> PatchPoints:
    """The points of a model.

    Args:
        model: A transformers model or ELMo.
        what: The activations to restore.
        predicting: Of a model with two streams (XLNet): pieces are hidden.

    Raises:
        WorkbenchError: The model has no such activations, or they cannot be found.
    """
    require_choice("what", what, _NAMES)
    if getattr(model, "elmo", None) is not None:
        return _elmo_points(model, what)
    net = require_transformer(model, _WITHOUT, _REMEDY)
    stacks = list(blocks_of(net))
    if len(stacks) < len(net.stacks):
        raise refusal(net, "has no list of blocks, so no activation is restored", _REMEDY)
    streams = 2 if predicting and net.symbols.mask is None and net.family == "xlnet" else 1
    found = _found(net, what, streams)
    blocks = {b: s.name for s, each in zip(net.stacks, stacks, strict=True) for b in each}
    first = 0
    depth: dict[Point, int] = {}
    for stack in net.stacks:
        depth |= {p: first + p.layer for p in found.points if p.stack == stack.name}
        first += stack.layers
    return PatchPoints(
        net,
        what,
        tuple(found.points),
        depth,
        found.heads,
        streams,
        blocks,
        {stack.name: stack.layers for stack in net.stacks},
        found.made,
        found.projected,
        found.vectors,
        ReplayPoints(stacks, {}, 1 if net.sequence_first else 0),
    )


_NAMES = {
    "states": "states",
    "heads": "heads",
    "mlps": "MLPs",
    "attentions": "attentions",
    "neurons": "neurons",
    "queries": "queries",
    "keys": "keys",
    "values": "values",
}
_WITHOUT = "has no layers with context whose activations could be restored"
_REMEDY = "Choose a transformers model or an ELMo, such as mini:bert, mini:gpt or mini:elmo."


@dataclass(eq=False)
class _Found:
    points: list[Point]
    heads: dict[Point, int] = field(default_factory=dict)
    made: dict[tuple[StackName, int, nn.Module, int], _Source] = field(default_factory=dict)
    projected: dict[tuple[StackName, int], list[tuple[nn.Module, Point]]] = field(
        default_factory=dict
    )
    vectors: dict[tuple[StackName, int, nn.Module], list[_Made]] = field(default_factory=dict)


def _found(net: HuggingFace, what: What | Vectors, streams: int) -> _Found:
    if what == "states":
        return _Found([Point(what, s.name, n) for s in net.stacks for n in range(s.layers + 1)])
    if not net.sites:
        raise refusal(net, "has no attention heads", _REMEDY)
    if what == "heads":
        return _head_points(net)
    if what == "neurons":
        return _neuron_points(net)
    if what in ("queries", "keys", "values"):
        return _vector_points(net, what)
    found = _Found([])
    for each in additions(net, streams == 2):
        if (each.site is None) == (what == "mlps"):
            kind = "" if each.site is None else each.site.kind
            point = Point(what, each.stack, each.layer, kind)
            found.points += [] if point in found.points else [point]
            key = (each.stack, each.layer, each.module, each.call)
            found.made[key] = _Source(point, each.stream)
    return found


def _head_points(net: HuggingFace) -> _Found:
    """The projection that reads the heads of each site: a module, or XLNet's attention."""
    found = _Found([])
    modules = parts(net)
    for (stack, layer), sites in _sites_of_blocks(net).items():
        for site in sites:
            part = modules[site.index]
            reads = part.output if isinstance(part.output, nn.Module) else part.module
            point = Point("heads", stack, layer, site.kind)
            if point in found.heads:
                raise refusal(net, "has several attentions of one kind in a block", _REMEDY)
            if site.heads:
                found.points.append(point)
                found.heads[point] = site.heads
                found.projected.setdefault((stack, layer), []).append((reads, point))
    return found


def _neuron_points(net: HuggingFace) -> _Found:
    """The projection that reads the neurons of each MLP, each as a head of width 1.

    It is the last layer of a block that returns states, found by a pass over four pieces.
    """
    found = _Found([])
    last: dict[tuple[StackName, int], nn.Linear | Conv1D] = {}
    calls = dict.fromkeys((stack.name for stack in net.stacks), -1)
    inside: list[tuple[StackName, int]] = []

    def begin(block: nn.Module, args: tuple[Any, ...], stack: StackName) -> None:
        calls[stack] += 1
        inside[:] = [(stack, calls[stack])]

    def projected(module: Any, args: tuple[Any, ...], output: Tensor) -> None:
        if inside and output.shape[-1] == net.width:
            last[inside[0]] = module

    with ExitStack() as hooks, torch.no_grad():
        for stack, blocks in zip(net.stacks, blocks_of(net), strict=True):
            for block in blocks:
                own = partial(begin, stack=stack.name)
                hooks.callback(block.register_forward_pre_hook(own).remove)
                hooks.callback(block.register_forward_hook(lambda *_: inside.clear()).remove)
        for module in net.net.modules():
            if isinstance(module, nn.Linear | Conv1D):
                hooks.callback(module.register_forward_hook(projected).remove)
        net.forward(probe(net.net), hidden=False)
    attention = {id(part.output) for part in parts(net)}
    for (name, layer), reads in last.items():
        if id(reads) in attention:
            raise refusal(
                net, f"has no linear layer that reads the MLP of layer {layer + 1}", _REMEDY
            )
        point = Point("neurons", name, layer)
        found.points.append(point)
        found.heads[point] = reads.weight.shape[0 if isinstance(reads, Conv1D) else 1]
        found.projected[name, layer] = [(reads, point)]
    return found


def _vector_points(net: HuggingFace, what: Vectors) -> _Found:
    """The projection that makes the queries, keys or values of each site, and where in it."""
    found = _Found([])
    modules = parts(net)
    for (stack, layer), sites in _sites_of_blocks(net).items():
        for site in sites:
            point = Point(what, stack, layer, site.kind)
            if not site.heads:
                continue
            module, made = _vectors_of(net, modules[site.index], point)
            found.points.append(point)
            found.heads[point] = site.heads if what == "queries" else site.groups
            found.vectors.setdefault((stack, layer, module), []).append(made)
    return found


def _vectors_of(net: HuggingFace, part: Part, point: Point) -> tuple[nn.Module, _Made]:
    """The projection of one attention module that makes some vectors."""
    layout = part.layout
    single = [getattr(part.module, name, None) for name in (*layout.rows, *layout.shared)][:3]
    joint = [getattr(part.module, name, None) for name in (*layout.fused, *layout.woven)]
    index = ["queries", "keys", "values"].index(point.what)
    if joint and joint[0] is not None:
        if single and single[0] is not None:  # of cross-attention in GPT-2: keys and values
            made = (single[0], 0, 1) if not index else (joint[0], index - 1, 2)
        else:
            made = (joint[0], index, 3)
    else:
        made = (single[index] if index < len(single) else None, 0, 1)
    module, n, n_parts = made
    if not isinstance(module, nn.Module):
        raise refusal(net, f"has no projection whose output is the {point.what}", _REMEDY)
    return module, _Made(point, n, n_parts, bool(layout.woven))


def _sites_of_blocks(net: HuggingFace) -> dict[tuple[StackName, int], list[Site]]:
    """The attention sites of each block, found by a pass over four pieces."""
    found: dict[tuple[StackName, int], list[Site]] = {}
    calls: dict[StackName, int] = {}
    first = 0

    def begin(block: nn.Module, args: tuple[Any, ...]) -> None:
        nonlocal first
        running = current()
        first = running.calls if running else 0

    def end(stack: StackName) -> Callable[..., None]:
        def ended(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            running = current()
            layer = calls[stack] = calls.get(stack, -1) + 1
            found[stack, layer] = list(net.sites[first : running.calls if running else first])

        return ended

    with ExitStack() as hooks, torch.no_grad():
        for stack, blocks in zip(net.stacks, blocks_of(net), strict=True):
            for block in blocks:
                hooks.callback(block.register_forward_pre_hook(begin).remove)
                hooks.callback(block.register_forward_hook(end(stack.name)).remove)
        net.forward(probe(net.net), hidden=False)
    return found


def _elmo_points(model: Model, what: What | Vectors) -> PatchPoints:
    if what != "states":
        raise refusal(
            model,
            f"is a recurrent network: it has no {_NAMES[what]}, only states of layers",
            "Restore states, or choose a model with attention such as mini:bert.",
        )
    stack = model.stacks[0]
    points = tuple(Point(what, stack.name, layer) for layer in range(stack.layers + 1))
    return PatchPoints(model, what, points, {point: point.layer for point in points}, {})


# --- activations on their way ---------------------------------------------------------------------


@dataclass(eq=False)
class Passing:
    """A running pass of a transformers model: which block runs, and the states of its layers."""

    points: PatchPoints
    change: Change
    keeps: bool = False
    is_edit: bool = False  # of the model itself: before all other changes
    states: dict[StackName, list[Tensor]] = field(default_factory=dict)  # if it keeps them
    calls: dict[StackName, int] = field(default_factory=dict)
    inside: tuple[StackName, int] | None = None
    made: dict[nn.Module, int] = field(default_factory=dict)  # calls within the block
    offset: dict[StackName, int] = field(default_factory=dict)  # pieces that a cache has read
    is_single: bool = False  # of two streams, this pass has the first alone

    @property
    def net(self) -> HuggingFace:
        net = self.points.model
        assert isinstance(net, HuggingFace), "only transformers models have modules to hook"
        return net

    def passed(self, point: Point, stream: int, states: Tensor) -> Tensor:
        """What goes on instead of an activation in the layout of the model."""
        return batch_first(self.net, self.change(point, stream, batch_first(self.net, states)))

    def start(self, stack: StackName, kwargs: Mapping[str, Any]) -> None:
        """A pass over a stack begins; while text is written, over its last piece alone."""
        # by what it can do: its name differs between versions of transformers
        cache = next((each for each in kwargs.values() if hasattr(each, "get_seq_length")), None)
        self.offset[stack] = 0 if cache is None else int(cache.get_seq_length())
        self.calls[stack] = 0
        self.inside = None

    def begin(
        self, block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        stack = self.points.blocks[block]
        layer = self.calls.get(stack, 0) % self.points.n_blocks[stack]
        self.calls[stack] = layer + 1
        self.inside = stack, layer
        self.made.clear()
        if layer:
            return None
        self.states[stack] = []
        for stream in range(self.points.streams):
            read = args[stream] if len(args) > stream else kwargs["hidden_states"]
            self.is_single = read is None  # no hidden piece is predicted
            if read is None:
                continue
            if self.points.what == "states":
                new = self.passed(Point("states", stack, 0), stream, read)
                if len(args) > stream:
                    args = (*args[:stream], new, *args[stream + 1 :])
                else:
                    kwargs = {**kwargs, "hidden_states": new}
                read = new
            if self.keeps and not stream:
                self.states[stack].append(batch_first(self.net, read))
        return args, kwargs

    def end(self, block: nn.Module, output: Any) -> Any:
        assert self.inside is not None, "a block begins before it ends"
        stack, layer = self.inside
        self.inside = None
        if self.points.what == "states":
            point = Point("states", stack, layer + 1)
            for stream in range(self.points.streams):
                if (read := stream_of(output, stream)) is not None:
                    output = with_stream(output, self.passed(point, stream, read), stream)
        if self.keeps:
            self.states[stack].append(batch_first(self.net, stream_of(output, 0)))
        return output

    def returned(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        """The output of an attention or an MLP, if this call returns it."""
        states = output[0] if isinstance(output, tuple | list) and output else output
        is_states = isinstance(states, Tensor) and states.ndim == 3
        if self.inside is None or not is_states or states.shape[-1] != self.net.width:
            return None
        call = self.made[module] = self.made.get(module, -1) + 1
        source = self.points.made.get((*self.inside, module, call))
        if self.is_single:  # XLNet's MLP reads the second stream first, if there is one
            both = (self.points.made.get((*self.inside, module, n)) for n in (0, 1))
            source = next((each for each in both if each and not each.stream), None)
        if source is None:
            return None
        return with_stream(output, self.passed(source.point, source.stream, states), 0)

    def projected(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        """The output of a projection of queries, keys or values; DeBERTa's calls it again."""
        call = self.made[module] = self.made.get(module, -1) + 1
        own = [] if self.inside is None or call else self.points.vectors.get((*self.inside, module))
        for made in own or ():
            heads = self.points.heads[made.point]
            old = made.view(output, heads)
            new = self.passed(made.point, 0, old)
            if new is not old:
                output = output.clone()
                made.view(output, heads).copy_(new)
        return output

    def read(self, module: nn.Module, heads: Tensor) -> Tensor:
        """The outputs of all heads that an output projection reads.

        # [batch, pieces, heads x width of a head], or four dimensions
        """
        known = [] if self.inside is None else self.points.projected.get(self.inside, [])
        own = [point for projection, point in known if projection is module]
        if not own:
            return heads
        stream = self.made[module] = self.made.get(module, -1) + 1
        n_heads = self.points.heads[own[0]]
        split = heads.reshape(*heads.shape[:2], n_heads, -1)
        return self.passed(own[0], stream, split).reshape(heads.shape)

    def before(self, layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Change what a layer reads: a forward pre-hook."""
        return (self.read(layer, args[0]), *args[1:])


@contextmanager
def passing(
    points: PatchPoints, change: Change, keeps: bool = False, is_edit: bool = False
) -> Iterator[Passing]:
    """In passes inside the context, every activation goes through `change`; ELMo's with the ends.

    With `keeps`, `Passing.states` has the states of each layer of the last pass.
    """
    here = Passing(points, change, keeps, is_edit)
    if points.is_recurrent:
        stack = points.points[0].stack
        with points.model.changing(
            lambda layer, states: change(Point("states", stack, layer), 0, states)
        ):
            yield here
        return

    def ending(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            return here.end(block, run(*args, **kwargs))

        return forward

    with ExitStack() as hooks:
        for each in here.net.stacks:
            hooks.callback(_starting(here.net.body(each.name), each.name, here))
        for block in points.blocks:
            begin = block.register_forward_pre_hook(here.begin, with_kwargs=True)
            hooks.callback(_in_turn(block._forward_pre_hooks, begin).remove)
        # not as a hook: what a block returns, to any other code, is what it returns after a change
        hooks.enter_context(replaced_forward([list(points.blocks)], ending))
        for module in dict.fromkeys(key[2] for key in points.made):
            made = module.register_forward_hook(here.returned)
            hooks.callback(_in_turn(module._forward_hooks, made).remove)
        for module in dict.fromkeys(key[2] for key in points.vectors):
            made = module.register_forward_hook(here.projected)
            hooks.callback(_in_turn(module._forward_hooks, made).remove)
        reading = dict.fromkeys(m for each in points.projected.values() for m, _ in each)
        for module in reading:
            hooks.enter_context(_reading(module, here))
        yield here


def _starting(body: nn.Module, stack: StackName, here: Passing) -> Callable[[], None]:
    """Tell when a pass over a stack begins; returns what stops it."""

    def start(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        here.start(stack, kwargs)

    return body.register_forward_pre_hook(start, with_kwargs=True).remove


@contextmanager
def _reading(module: nn.Module, here: Passing) -> Iterator[None]:
    """Change what an output projection reads: the input of a layer, or of XLNet's method."""
    if not hasattr(module, "post_attention"):
        hook = module.register_forward_pre_hook(here.before)
        try:
            _in_turn(module._forward_pre_hooks, hook)
            yield
        finally:
            hook.remove()
        return
    # its projection is a parameter
    readers: list[Passing] = vars(module).setdefault(_READERS, [])
    readers.insert(sum(each.is_edit for each in readers), here)
    if len(readers) == 1:
        run: Any = module.post_attention

        def post_attention(h: Tensor, attn_vec: Tensor, *args: Any, **kwargs: Any) -> Any:
            for each in readers:
                attn_vec = each.read(module, attn_vec)
            return run(h, attn_vec, *args, **kwargs)

        module.post_attention = post_attention  # type: ignore[assignment]
    try:
        yield
    finally:
        readers.remove(here)
        if not readers:
            del module.post_attention


_READERS = "_workbench_readers"


def _in_turn(hooks: dict[int, Any], added: RemovableHandle) -> RemovableHandle:
    """Call a new hook before all others but those of the model's own edit, which a tap sees."""

    def turn(key: int) -> int:
        owner = getattr(hooks[key], "__self__", None)
        return 0 if isinstance(owner, Passing) and owner.is_edit else 2 - (key == added.id)

    for key in sorted(hooks, key=turn):
        hooks[key] = hooks.pop(key)
    return added


# --- recording ------------------------------------------------------------------------------------


@torch.no_grad()
def activations(points: PatchPoints, run: Callable[[], object]) -> Activations:
    """The activations of all points in one pass over one text.

    `run` makes the pass; of ELMo it returns the layers of `Model.states_with_ends`.
    """
    if points.is_recurrent:
        layers: Any = run()
        return {(point, 0): layers[point.layer] for point in points.points}
    found: dict[tuple[Point, int], Tensor] = {}

    def store(point: Point, stream: int, states: Tensor) -> Tensor:
        found[point, stream] = states.clone()
        return states

    with passing(points, store):
        run()
    return found


@dataclass(frozen=True, eq=False)
class Base:
    """The recorded pass over the text that is patched: what runs below the patches."""

    prefix: Prefix | None = None
    layers: Sequence[Tensor] = ()  # of ELMo, with the text's ends


@torch.no_grad()
def recorded_base(points: PatchPoints, run: Callable[[], object]) -> Base:
    """Record the text that is patched; `run` as for `activations`."""
    if points.replay is None:
        layers: Any = run()
        return Base(layers=layers)
    with recorded_prefix(points.replay) as prefix:
        run()
    return Base(prefix)


# --- patching -------------------------------------------------------------------------------------


@torch.no_grad()
def patched(
    points: PatchPoints,
    base: Base,
    source: Activations,
    patches: Sequence[Patch],
    run: Run,
    n_pieces: int,
    *,
    keeps: bool = False,
    on_progress: OnProgress | None = None,
) -> Tensor:
    """The number of each patched pass.

    Args:
        points: The points of the model.
        base: The recorded text that is patched.
        source: The activations to restore.
        patches: What each row restores.
        run: Makes a pass over a number of copies of the text, and returns a number for each.
        n_pieces: Pieces of the text in its longest stack, which bound the rows of a batch.
        keeps: The states of all layers are kept for `run`.
        on_progress: Called with the number of patches that are done.

    # [patches], float64, on the host
    """
    order = sorted(range(len(patches)), key=lambda n: points.depth[patches[n].point])
    values = torch.zeros(len(patches), dtype=torch.float64)
    limit = Limit(PIECES.get(points.model.device.type, PIECES["cpu"]))
    size = max(1, limit.pieces // max(n_pieces, 1))

    def rows_of(group: Places) -> Tensor:
        own = [patches[n] for n in group.places]
        return _numbers(points, base, source, own, run, keeps).double().cpu()

    n_done = 0
    for chosen in _chunks(points, patches, order, size):
        for group, numbers in in_halves(rows_of, Places(chosen, n_pieces), limit):
            values[list(group.places)] = numbers
            n_done += len(group)
            if on_progress is not None:
                on_progress(n_done)
    return values


def first_order(
    points: PatchPoints,
    source: Activations,
    patches: Sequence[Patch],
    run: Run,
    *,
    keeps: bool = False,
) -> Tensor:
    """About the number of each patched pass, of one pass forward and backward (Nanda 2023).

    It is the number of the text plus the gradient of its activations times what each patch changes
    of them: right for small changes, and wrong where a softmax or an activation saturates.
    Arguments as for `patched`.  # [patches], float64, on the host
    """
    own: dict[tuple[Point, int], Tensor] = {}

    def follow(point: Point, stream: int, states: Tensor) -> Tensor:
        is_first = not states.requires_grad  # the weights of a frozen model need no gradients
        own[point, stream] = states.detach().requires_grad_() if is_first else states.clone()
        return own[point, stream]

    with torch.enable_grad(), passing(points, follow, keeps) as here:
        number = run(1, here)[0]
        slopes = torch.autograd.grad(number, list(own.values()), allow_unused=True)
    values = []
    gradients = dict(zip(own, slopes, strict=True))
    for patch in patches:
        value = number.detach().double()
        for (point, stream), states in own.items():
            gradient = gradients[point, stream]
            if point != patch.point or gradient is None:
                continue
            offset = 1 if points.is_recurrent else 0  # ELMo's layers begin with the text's start
            at, given = ([n + offset for n in each] for each in (patch.positions, patch.sources))
            new = source[point, stream][0].to(states)[given]
            change, slope = new - states.detach()[0, at], gradient[0, at]
            if patch.head is not None:
                change, slope = change[:, patch.head], slope[:, patch.head]
            value = value + (change.double() * slope.double()).sum()
        values.append(value)
    return torch.stack(values).cpu() if values else torch.zeros(0, dtype=torch.float64)


def _chunks(
    points: PatchPoints, patches: Sequence[Patch], order: Sequence[int], size: int
) -> Iterator[list[int]]:
    """The patches in batches, the lowest layers first; of ELMo one layer to a batch."""
    chunk: list[int] = []
    for n in order:
        other = bool(chunk) and patches[chunk[0]].point != patches[n].point
        if len(chunk) == size or (points.is_recurrent and other):
            yield chunk
            chunk = []
        chunk.append(n)
    if chunk:
        yield chunk


def _numbers(
    points: PatchPoints,
    base: Base,
    source: Activations,
    patches: Sequence[Patch],
    run: Run,
    keeps: bool,
) -> Tensor:
    """The numbers of one batch, with a row for each patch.  # [patches]"""
    change = _restoring(points, source, patches)
    n_rows = len(patches)
    if base.prefix is None:
        layer = patches[0].point.layer
        below = [each.expand(n_rows, -1, -1) for each in base.layers[: layer + 1]]
        below[-1] = change(patches[0].point, 0, below[-1])
        with points.model.resuming(below):
            return run(n_rows, None)
    first = min(points.depth[patch.point] for patch in patches)
    rows = torch.zeros(n_rows, dtype=torch.int64)
    with base.prefix.from_block(first, rows), passing(points, change, keeps) as here:
        return run(n_rows, here)


def _restoring(points: PatchPoints, source: Activations, patches: Sequence[Patch]) -> Change:
    """Replace the activations of each row's patch."""
    offset = 1 if points.is_recurrent else 0  # ELMo's layers begin with the text's start
    by_point: dict[Point, list[tuple[int, int, int, int]]] = {}
    for row, patch in enumerate(patches):
        cells = by_point.setdefault(patch.point, [])
        head = -1 if patch.head is None else patch.head
        for at, given in zip(patch.positions, patch.sources, strict=True):
            cells.append((row, at + offset, given + offset, head))
    chosen = {point: torch.tensor(cells).T for point, cells in by_point.items() if cells}
    by_head = {point for point, cells in chosen.items() if bool((cells[3] >= 0).all())}

    def change(point: Point, stream: int, states: Tensor) -> Tensor:
        if point not in chosen:
            return states
        row, at, given, head = sent(chosen[point], states.device)  # [cells] each
        own = source[point, stream][0].to(states)  # [pieces, ...]
        restored = states.clone()  # [rows, pieces, ...]
        if point in by_head:
            restored[row, at, head] = own[given, head]
        else:
            restored[row, at] = own[given]
        return restored

    return change
