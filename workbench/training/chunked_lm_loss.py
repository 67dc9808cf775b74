"""Language-model losses that make logits only where there is something to predict, a slice at once.

The states of the places wanted are taken before the head, so the head's own layers run on them
alone; the output map and its softmax are one function that goes through a few hundred rows at a
time and computes their gradient on the way, so neither logits nor their gradients are ever held.
For a masked model a seventh of the head's work is left, and in every model the memory of the
logits, `[tokens, vocabulary]` twice. Works on any transformers model, as it is.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.core.errors import WorkbenchError

# Rows of logits at a time: few enough for a CPU's caches, enough to fill a GPU.
ROWS = {"cpu": 256, "cuda": 8_192}
# Where a head begins that has layers before its output map.
_BEGINNINGS = (
    "cls.predictions",
    "predictions",
    "vocab_transform",
    "generator_predictions",
    "lm_head",
)


def nats_at(net: nn.Module, inputs: Mapping[str, Tensor], **more: Any) -> tuple[Tensor, Any]:
    """The summed loss at the places wanted, and what else the model's forward pass gives.

    `inputs` are the model's own, and `at` [targets], flat places of [batch, length], and `gold`
    [targets], what stands there.
    """
    own = {name: tensor for name, tensor in inputs.items() if name not in ("at", "gold")}
    output = output_map(net)
    with _taken(beginning(net), inputs["at"]), _kept(output) as states:
        answer = net(**own, **no_cache(net), **more)
    return linear_nats(states[0], output.weight, output.bias, inputs["gold"]), answer


def logits_at(net: nn.Module, inputs: Mapping[str, Tensor], **more: Any) -> tuple[Tensor, Any]:
    """Logits at the places wanted, and the whole answer.  # [targets, vocabulary]"""
    own = {name: tensor for name, tensor in inputs.items() if name not in ("at", "gold")}
    with _taken(beginning(net), inputs["at"]):
        answer = net(**own, **no_cache(net), **more)
    return answer["logits"] if "logits" in answer else answer["prediction_logits"], answer


def no_cache(net: nn.Module) -> dict[str, bool]:
    """Keys and values of the past are for generation."""
    takes = inspect.signature(net.forward).parameters
    return {"use_cache": False} if "use_cache" in takes else {}


def output_map(net: nn.Module) -> nn.Linear:
    """The last map of a language-model head, from states to the vocabulary."""
    model: Any = net
    found = model.get_output_embeddings()
    if not isinstance(found, nn.Linear):
        raise WorkbenchError(
            f"{type(net).__name__} has no language-model head to train with.",
            remedy="Continue from a model saved with one, such as BertForMaskedLM.",
        )
    return found


def beginning(net: nn.Module) -> nn.Module:
    """The first module of the head."""
    output = output_map(net)
    for name in _BEGINNINGS:
        try:
            module = net.get_submodule(name)
        except AttributeError:
            continue
        if name == "vocab_transform" or any(part is output for part in module.modules()):
            return module
        if name == "generator_predictions":
            return module
    return output


@contextmanager
def _taken(head: nn.Module, at: Tensor) -> Iterator[None]:
    """The head sees the states of these places only, [targets, width]."""

    def take(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states = args[0]  # [batch, length, width]
        return (states.flatten(0, 1).index_select(0, at), *args[1:])

    hook = head.register_forward_pre_hook(take)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _kept(output: nn.Linear) -> Iterator[list[Tensor]]:
    """What the output map is given is kept; it is run on no row of it."""
    states: list[Tensor] = []

    def keep(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states.append(args[0])
        return (args[0][:0],)

    hook = output.register_forward_pre_hook(keep)
    try:
        yield states
    finally:
        hook.remove()


def linear_nats(states: Tensor, weight: Tensor, bias: Tensor | None, gold: Tensor) -> Tensor:
    """The cross-entropy of softmax(states @ weight.T + bias), summed over rows, in float32.

    # [rows, width], [vocabulary, width], [vocabulary], [rows] -> []
    """
    if torch.is_autocast_enabled(states.device.type):
        kind = torch.get_autocast_dtype(states.device.type)
        states, weight = states.to(kind), weight.to(kind)
    wanted = torch.is_grad_enabled() and (states.requires_grad or weight.requires_grad)
    found: Tensor = _LinearNats.apply(states, weight, bias, gold, wanted)  # type: ignore[no-untyped-call]
    return found


class _LinearNats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, gold: Tensor, wanted: bool
    ) -> Tensor:
        nats = torch.zeros((), device=states.device)
        to_states = torch.empty_like(states) if wanted else None
        to_weight = torch.zeros_like(weight, dtype=torch.float32) if wanted else None
        to_bias = bias.new_zeros(bias.shape) if wanted and bias is not None else None
        rows = ROWS.get(states.device.type, ROWS["cpu"])
        for first in range(0, len(states), rows):
            part = slice(first, first + rows)
            logits = functional.linear(states[part], weight).float()  # [rows, vocabulary]
            if bias is not None:
                logits += bias
            at = gold[part, None]
            most, own = logits.amax(1, keepdim=True), logits.gather(1, at)  # [rows, 1]
            share = logits.sub_(most).exp_()
            whole = share.sum(1, keepdim=True)  # [rows, 1]
            nats += (whole.log() + most - own).sum()
            if to_states is None or to_weight is None:
                continue
            share.div_(whole)  # the softmax, and less the targets its gradient
            share.scatter_add_(1, at, share.new_full(at.shape, -1.0))
            if to_bias is not None:
                to_bias += share.sum(0)
            share = share.to(states.dtype)
            to_states[part] = share @ weight
            if weight.dtype == torch.float32:
                to_weight.addmm_(share.T, states[part])
            else:
                to_weight += share.T @ states[part]
        ctx.save_for_backward(to_states, to_weight, to_bias)
        ctx.kind = weight.dtype
        return nats

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        to_states, to_weight, to_bias = ctx.saved_tensors
        return (
            to_states * scale.to(to_states.dtype),
            (to_weight * scale).to(ctx.kind),
            None if to_bias is None else to_bias * scale,
            None,
            None,
        )
