"""The residual stream of a pass: the state before each block, after each attention and its MLP.

A block adds the outputs of its attention and of its MLP to its input. In a pre-norm block the
norms read the stream (GPT-2, T5), in a post-norm block they are part of it (BERT, BART), and in a
parallel block both outputs are added at once (GPT-NeoX). Which it is follows from a small pass, not
from a list of architectures: a block is post-norm if a norm returns its output, and the states
after attention are then outputs of its other norms; otherwise they are inputs of its norms. Each
step must equal the output of some module, or the model is rejected. Costs: one pass over four
pieces for `plan`, and for a recorded pass the memory of its states.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from workbench.core.errors import WorkbenchError
from workbench.core.groups import grouped
from workbench.engine.batch import Pieces
from workbench.engine.model import Output, refusal
from workbench.engine.taps import Session, Site, StackName, Tap, current
from workbench.models.head_removal import parts
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.prefix_cache import blocks_of
from workbench.models.net_parts import probe
from workbench.models.output_heads.lm_heads import in_order

ROUNDING = 32  # tolerance of a sum, in units of the precision of its largest term


@dataclass(frozen=True, eq=False)
class NormCall:
    """One call of a norm."""

    module: nn.Module
    read: Tensor  # [batch, pieces, width]
    output: Tensor  # [batch, pieces, width]
    n_sites: int = 0  # attention calls of the block before it
    n_made: int = 0  # outputs of modules of the block before it, if requested


@dataclass(frozen=True, eq=False)
class Step:
    """One addition to the residual stream: of an attention output, or of an MLP's.

    Shapes are [batch, pieces, width].
    """

    site: Site | None  # None: the MLP
    before: Tensor
    total: Tensor  # `before` and the added output
    norm: NormCall | None  # of a post-norm block: it reads `total`

    @property
    def added(self) -> Tensor:
        """The output of the attention or the MLP."""
        return self.total - self.before

    @property
    def after(self) -> Tensor:
        """The state after this step."""
        return self.total if self.norm is None else self.norm.output


@dataclass(frozen=True, eq=False)
class ResidualStream:
    """The residual stream of each stack: for each layer its steps, in order."""

    steps: Mapping[StackName, Sequence[Sequence[Step]]]
    final_norms: Mapping[StackName, NormCall | None]  # the norm after the last block, if any
    output: Output

    def embeddings(self, stack: StackName) -> Tensor:
        """The state before the first block.  # [batch, pieces, width]"""
        return self.steps[stack][0][0].before

    def final_state(self, stack: StackName) -> Tensor:
        """The state after the last block, and after the final norm if there is one."""
        norm = self.final_norms[stack]
        return self.steps[stack][-1][-1].after if norm is None else norm.output


@dataclass(frozen=True)
class Layer:
    """Where a block's states are: the index of a norm call for each step.

    Of a pre-norm block the last step ends at the block's output, so it has no norm call.
    """

    post_norm: bool
    calls: tuple[int, ...]
    parallel: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """How to read the residual stream of a model, from one small pass over it."""

    blocks: Mapping[nn.Module, StackName]  # a shared block appears once
    norms: Sequence[nn.Module]
    projections: Sequence[nn.Module | None]  # by site: the module with the attention output
    layers: Mapping[StackName, Sequence[Layer]]
    final_norms: Mapping[StackName, nn.Module | None]
    stream: int  # 1: the second of XLNet's two streams, which predicts


def plan(model: HuggingFace, predicting: bool = False) -> Plan:
    """How to read the residual stream of a model.

    Args:
        model: A transformers model.
        predicting: Of a model with two streams (XLNet), the stream that predicts hidden pieces.

    Raises:
        WorkbenchError: The outputs of attention and MLP do not add up to the states of a block.
    """
    stream = int(predicting and in_order(model.net))
    stacks = list(blocks_of(model))
    if len(stacks) != len(model.stacks):
        raise _unknown(model, "has no list of blocks")
    found = {b: s.name for s, each in zip(model.stacks, stacks, strict=True) for b in each}
    norms = [
        module
        for module in model.net.modules()
        if is_norm(module) and len(next(module.parameters())) == model.width
    ]
    draft = Plan(found, norms, _projections(model), {}, {}, stream)
    text = probe_of(model, stream)
    with torch.no_grad(), _recorder(model, draft, every_module=True) as seen:
        model.forward(text, hidden=False)
        layers = grouped((block.stack, _layer_of(model, draft, block)) for block in seen.calls)
    if any(len(layers.get(stack.name, ())) != stack.layers for stack in model.stacks):
        raise _unknown(model, "does not call one block per layer")
    final_norms = {
        stack: None if call is None else call.module for stack, call in seen.final_norms().items()
    }
    return Plan(found, norms, draft.projections, layers, final_norms, stream)


def probe_of(model: HuggingFace, stream: int) -> Pieces:
    """A small test input; for XLNet's second stream its first piece is hidden."""
    text = probe(model.net)
    if not stream:
        return text
    unseen = torch.zeros_like(text.mask)  # [1, pieces]
    unseen[:, 0] = True
    return replace(text, unseen=unseen)


def residual_stream(
    model: HuggingFace,
    text: Pieces,
    targets: Pieces | None = None,
    *,
    where: Plan | None = None,
    taps: Sequence[Tap] = (),
    logits: bool | Tensor = False,
) -> ResidualStream:
    """The residual stream of one pass; gradients flow through it.

    Args:
        model: A transformers model.
        text: The text in pieces.
        targets: Of an encoder-decoder: what its decoder writes.
        where: The plan of the model (default: found by a small pass).
        taps: Taps of the pass.
        logits: As for `Model.forward`.

    Raises:
        WorkbenchError: As `plan`.
    """
    where = where or plan(model, predicting=text.unseen is not None)
    with recorded(model, where) as seen:
        output = model.forward(text, targets=targets, taps=taps, hidden=False, logits=logits)
    return seen.stream(output)


@contextmanager
def recorded(model: HuggingFace, where: Plan) -> Iterator["Recorder"]:
    """Record the next forward pass inside the context; `Recorder.stream` then returns its states.

    For passes of another caller, such as a replay of some blocks.
    """
    with _recorder(model, where) as seen:
        yield seen


# --- recording ------------------------------------------------------------------------------------


@dataclass(eq=False)
class BlockCall:
    """What one call of a block read and returned, and what its norms did."""

    stack: StackName
    first_site: int
    length: int | None  # pieces without the padding that a model adds itself
    inputs: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    norms: list[NormCall] = field(default_factory=list)
    made: list[Tensor] = field(default_factory=list)  # all outputs of modules, if requested
    makers: list[nn.Module] = field(default_factory=list)  # the modules with these outputs
    attention_output: Tensor | None = None
    end_site: int = 0


@dataclass(eq=False)
class Recorder:
    """The blocks called in a pass."""

    model: HuggingFace
    plan: Plan
    calls: list[BlockCall] = field(default_factory=list)
    outside: list[NormCall] = field(default_factory=list)  # norms called outside all blocks
    inside: BlockCall | None = None

    def final_norms(self) -> dict[StackName, NormCall | None]:
        """The norm that reads the output of each stack's last block."""
        last = {call.stack: call.outputs[self.plan.stream] for call in self.calls}
        return {
            stack: next((call for call in self.outside if _same(call.read, state)), None)
            for stack, state in last.items()
        }

    def stream(self, output: Output) -> ResidualStream:
        """The residual stream of the recorded pass."""
        steps: dict[StackName, list[list[Step]]] = {}
        for call in self.calls:
            layers = steps.setdefault(call.stack, [])
            layer = self.plan.layers[call.stack][len(layers)]
            layers.append(list(self._steps(call, layer)))
        lengths = {call.stack: call.length for call in self.calls}
        norms = {
            stack: norm and NormCall(
                norm.module,
                self._shown(norm.read, lengths[stack]),
                self._shown(norm.output, lengths[stack]),
            )
            for stack, norm in self.final_norms().items()
        }  # fmt: skip
        return ResidualStream(steps, norms, output)

    def totals(
        self, call: BlockCall, layer: Layer
    ) -> list[tuple[Site | None, Tensor, NormCall | None]]:
        """By step: the attention (None: the MLP), the state with its output, and a norm on it.

        In the layout of the model.
        """
        sites: list[Site | None] = [*self.model.sites[call.first_site : call.end_site], None]
        before, end = call.inputs[self.plan.stream], call.outputs[self.plan.stream]
        if layer.parallel:
            assert call.attention_output is not None, "the plan has the projection's module"
            totals = [before + call.attention_output, end]
            norms: list[NormCall | None] = [None, None]
        elif layer.post_norm:
            norms = [call.norms[index] for index in layer.calls]
            totals = [norm.read for norm in norms if norm]
        else:
            norms = [None] * len(sites)
            totals = [*(call.norms[index].read for index in layer.calls), end]
        return list(zip(sites, totals, norms, strict=True))

    def _steps(self, call: BlockCall, layer: Layer) -> Iterator[Step]:
        before = self._shown(call.inputs[self.plan.stream], call.length)
        for site, total, norm in self.totals(call, layer):
            total = self._shown(total, call.length)
            if norm is not None:
                read, output = total, self._shown(norm.output, call.length)
                norm = NormCall(norm.module, read, output, norm.n_sites)
            step = Step(site, before, total, norm)
            yield step
            before = step.after

    def shown(self, states: Tensor, stack: StackName) -> Tensor:
        """A tensor in the layout of a stack's blocks as [batch, pieces, width]."""
        length = next(call.length for call in self.calls if call.stack == stack)
        return self._shown(states, length)

    def _shown(self, states: Tensor, length: int | None) -> Tensor:
        """[batch, pieces, width], whatever the layout in the model."""
        states = states.transpose(0, 1) if self.model.sequence_first else states
        whole = length is None or states.shape[1] == length
        return states if whole else states[:, :length]  # a view would hide it from gradients


@contextmanager
def _recorder(model: HuggingFace, where: Plan, every_module: bool = False) -> Iterator[Recorder]:
    seen = Recorder(model, where)
    width = model.width

    def begin(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running = current()
        stack = where.blocks[block]
        text = running.texts.get(stack) if running else None
        seen.inside = BlockCall(
            stack,
            _site_now(running),
            None if text is None else text.ids.shape[1],
            [each for each in (*args, *kwargs.values()) if _is_states(each, width)],
        )
        seen.calls.append(seen.inside)

    def end(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        assert seen.inside is not None, "a block begins before it ends"
        outputs = output if isinstance(output, tuple | list) else (output,)
        seen.inside.outputs = [each for each in outputs if _is_states(each, width)]
        seen.inside.end_site = _site_now(current())
        seen.inside = None

    def normed(norm: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        inside = seen.inside
        if not args or not _is_states(args[0], width):
            return
        if inside is None:
            seen.outside.append(NormCall(norm, args[0], output))
        else:
            n_sites = _site_now(current()) - inside.first_site
            inside.norms.append(NormCall(norm, args[0], output, n_sites, len(inside.made)))

    def projected(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if seen.inside is not None and _is_states(output, width):
            seen.inside.attention_output = output

    def made(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) and output else output
        if seen.inside is not None and _is_states(first, width):
            seen.inside.made.append(first)
            seen.inside.makers.append(module)

    with ExitStack() as hooks:
        for block in where.blocks:
            first = block.register_forward_pre_hook(begin, with_kwargs=True, prepend=True)
            hooks.callback(first.remove)
            hooks.callback(block.register_forward_hook(end).remove)
        for norm in where.norms:
            hooks.callback(norm.register_forward_hook(normed).remove)
        for module in {each for each in where.projections if each is not None}:
            hooks.callback(module.register_forward_hook(projected).remove)
        for module in _inner(where) if every_module else ():
            hooks.callback(module.register_forward_hook(made).remove)
        yield seen


def _site_now(running: Session | None) -> int:
    return 0 if running is None else running.calls


def _inner(where: Plan) -> set[nn.Module]:
    """All modules inside blocks that are not norms."""
    inside = {module for block in where.blocks for module in block.modules() if module is not block}
    return inside - set(where.norms)


def _is_states(value: Any, width: int) -> bool:
    return isinstance(value, Tensor) and value.ndim == 3 and value.shape[-1] == width


def is_norm(module: nn.Module) -> bool:
    """Whether a module has the weights of a norm: one or two vectors of one size, and no parts."""
    weights = list(module.parameters(recurse=False))
    return (
        not isinstance(module, nn.Embedding)
        and not any(True for _ in module.children())
        and 1 <= len(weights) <= 2
        and all(weight.ndim == 1 and weight.shape == weights[0].shape for weight in weights)
    )


def _projections(model: HuggingFace) -> list[nn.Module | None]:
    """By site, the module whose output is the attention's, where it is known."""
    try:
        found = [part.output for part in parts(model)]
    except WorkbenchError:
        return [None] * len(model.sites)
    return [each if isinstance(each, nn.Module) else None for each in found]


# --- finding the outputs --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Addition:
    """The call of a module whose output a step adds to the residual stream."""

    stack: StackName
    layer: int  # from 0
    site: Site | None  # None: the MLP
    stream: int  # 1: the second of XLNet's two streams
    module: nn.Module
    call: int  # of this module in its block, from 0, counted over calls that return states


def additions(model: HuggingFace, predicting: bool = False) -> list[Addition]:
    """The module calls whose outputs are those of attentions and MLPs; arguments as for `plan`.

    If modules pass an output on unchanged (dropout), it is the last of them. Costs: two passes over
    four pieces, or three for two streams.
    """
    where = plan(model, predicting)
    text = probe_of(model, where.stream)
    found = []
    for stream in range(where.stream + 1):
        own = replace(where, stream=stream)
        with torch.no_grad(), _recorder(model, own, every_module=True) as seen:
            model.forward(text, hidden=False)
            layers: dict[StackName, int] = {}
            for block in seen.calls:
                number = layers.get(block.stack, 0)
                layers[block.stack] = number + 1
                layer = _layer_of(model, own, block)
                before, first = block.inputs[stream], 0
                for (site, total, norm), end in zip(
                    seen.totals(block, layer), _ends(block, layer), strict=True
                ):
                    made = range(first, end)
                    last = max(n for n in made if _adds(before, total, [block.made[n]]))
                    module = block.makers[last]
                    call = block.makers[:last].count(module)
                    found.append(Addition(block.stack, number, site, stream, module, call))
                    before, first = (total if norm is None else norm.output), end
    return found


def _ends(block: BlockCall, layer: Layer) -> list[int]:
    """How many modules of a block have returned at the end of each step."""
    if layer.parallel:
        assert block.attention_output is not None, "the plan has the projection's module"
        own = [n for n, each in enumerate(block.made) if _identical(each, block.attention_output)]
        return [max(own) + 1, len(block.made)]
    ends = [block.norms[index].n_made for index in layer.calls]
    return ends if layer.post_norm else [*ends, len(block.made)]


# --- finding the states ---------------------------------------------------------------------------


def _layer_of(model: HuggingFace, where: Plan, call: BlockCall) -> Layer:
    """Where the states of a block are; raises if its outputs do not add up to them."""
    n_sites = call.end_site - call.first_site
    if n_sites == 0 or len(call.inputs) <= where.stream or len(call.outputs) <= where.stream:
        raise _unknown(model, "has a block without attention")
    state, end = call.inputs[where.stream], call.outputs[where.stream]
    post_norm = any(_identical(norm.output, end) for norm in call.norms)
    of_norms = [norm.output for norm in call.norms]
    made = [each for each in call.made if not any(_identical(each, one) for one in of_norms)]
    calls: list[int] = []
    for step in range(n_sites + post_norm):  # the MLP's step ends at the output if pre-norm
        n_before = min(step + 1, n_sites)
        index = next(
            (
                index
                for index, norm in enumerate(call.norms)
                if norm.n_sites == n_before
                and index not in calls
                and not _identical(norm.read, state)
                and _adds(state, norm.read, made)
            ),
            None,
        )
        if index is None:
            break
        calls.append(index)
        state = call.norms[index].output if post_norm else call.norms[index].read
    if post_norm and len(calls) == n_sites + 1 and _identical(state, end):
        return Layer(True, tuple(calls))
    if not post_norm and len(calls) == n_sites and _adds(state, end, made):
        return Layer(False, tuple(calls))
    attention = call.attention_output
    if not (post_norm or calls) and n_sites == 1 and attention is not None:
        both = call.inputs[where.stream] + attention
        if _adds(both, end, made):
            return Layer(False, (), parallel=True)
    raise _unknown(model, "has blocks in which attention and MLP do not add up to the states")


def _adds(before: Tensor, total: Tensor, made: Sequence[Tensor]) -> bool:
    """Whether the difference of two states is the output of a module."""
    if before.shape != total.shape:
        return False
    added = (total - before).float()
    tolerance = ROUNDING * torch.finfo(total.dtype).eps * max(_size(total), _size(before))
    return any(
        each.shape == added.shape and _size(each.float() - added) <= tolerance for each in made
    )


def _size(states: Tensor) -> float:
    return float(states.float().norm())


def _identical(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same memory: equal numbers could be a coincidence (zeros)."""
    return one.shape == other.shape and one.data_ptr() == other.data_ptr()


def _same(one: Tensor, other: Tensor) -> bool:
    return _identical(one, other) or (one.shape == other.shape and torch.equal(one, other))


def _unknown(model: HuggingFace, what: str) -> WorkbenchError:
    return refusal(
        model,
        f"{what}, so its residual stream is not known",
        "Use a model with pre-norm, post-norm or parallel blocks, such as mini:bert or mini:gpt.",
    )
