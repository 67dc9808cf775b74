"""Language-model losses with logits at target positions only, computed in slices.

The states of the targets are selected before the head, so the head's layers run on them alone. The
output map and its softmax are one autograd function that goes through a few hundred rows at a time
and computes the gradient in the forward pass, so logits and their gradients are never stored.
Costs: for a masked model a seventh of the head's work; it saves the memory of the logits,
`[tokens, vocabulary]` twice. Works on any transformers model without changes.
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
# The first module of heads with layers before the output map.
_FIRST_MODULES = (
    "cls.predictions",
    "predictions",
    "vocab_transform",
    "generator_predictions",
    "lm_head",
)


def nats_at(net: nn.Module, inputs: Mapping[str, Tensor], **options: Any) -> tuple[Tensor, Any]:
    """The summed loss at the targets, and the model's output.

    `inputs` are the model's inputs and `at` [targets], flat positions in [batch, length], and
    `gold` [targets], the tokens there.
    """
    model_inputs = {name: tensor for name, tensor in inputs.items() if name not in ("at", "gold")}
    output = output_map(net)
    with _selected(head_start(net), inputs["at"]), _captured(output) as states:
        model_output = net(**model_inputs, **no_cache(net), **options)
    return linear_nats(states[0], output.weight, output.bias, inputs["gold"]), model_output


def token_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The summed loss at the targets, as the losses of a `Task`.  # [1]"""
    return nats_at(net, inputs)[0][None]


def logits_at(net: nn.Module, inputs: Mapping[str, Tensor], **options: Any) -> tuple[Tensor, Any]:
    """Logits at the targets [targets, vocabulary], and the model's output."""
    model_inputs = {name: tensor for name, tensor in inputs.items() if name not in ("at", "gold")}
    with _selected(head_start(net), inputs["at"]):
        model_output = net(**model_inputs, **no_cache(net), **options)
    return model_output["logits"] if "logits" in model_output else model_output[
        "prediction_logits"
    ], model_output


def no_cache(net: nn.Module) -> dict[str, bool]:
    """The argument that turns off the key-value cache, which only generation needs."""
    parameters = inspect.signature(net.forward).parameters
    return {"use_cache": False} if "use_cache" in parameters else {}


def output_map(net: nn.Module) -> nn.Linear:
    """The last linear map of a language-model head, from states to the vocabulary."""
    model: Any = net
    output = model.get_output_embeddings()
    if not isinstance(output, nn.Linear):
        raise WorkbenchError(
            f"{type(net).__name__} has no language-model head to train with.",
            code="no-language-model-head",
            remedy="Continue from a model saved with one, such as BertForMaskedLM.",
        )
    return output


def head_start(net: nn.Module) -> nn.Module:
    """The first module of the language-model head."""
    output = output_map(net)
    for name in _FIRST_MODULES:
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
def _selected(head: nn.Module, at: Tensor) -> Iterator[None]:
    """Give the head only the states at these positions, [targets, width]."""

    def take(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        states = args[0]  # [batch, length, width]
        return (states.flatten(0, 1).index_select(0, at), *args[1:])

    hook = head.register_forward_pre_hook(take)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _captured(output: nn.Linear) -> Iterator[list[Tensor]]:
    """Capture the inputs of the output map, which then runs on no rows."""
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
        dtype = torch.get_autocast_dtype(states.device.type)
        states, weight = states.to(dtype), weight.to(dtype)
    needs_gradient = torch.is_grad_enabled() and (states.requires_grad or weight.requires_grad)
    nats: Tensor = _LinearNats.apply(states, weight, bias, gold, needs_gradient)  # type: ignore[no-untyped-call]
    return nats


class _LinearNats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        gold: Tensor,
        needs_gradient: bool,
    ) -> Tensor:
        nats = torch.zeros((), device=states.device)
        states_gradient = torch.empty_like(states) if needs_gradient else None
        weight_gradient = torch.zeros_like(weight, dtype=torch.float32) if needs_gradient else None
        bias_gradient = bias.new_zeros(bias.shape) if needs_gradient and bias is not None else None
        rows = ROWS.get(states.device.type, ROWS["cpu"])
        for first in range(0, len(states), rows):
            part = slice(first, first + rows)
            logits = functional.linear(states[part], weight).float()  # [rows, vocabulary]
            if bias is not None:
                logits += bias
            at = gold[part, None]
            maximum, gold_logit = logits.amax(1, keepdim=True), logits.gather(1, at)  # [rows, 1]
            exponentials = logits.sub_(maximum).exp_()
            total = exponentials.sum(1, keepdim=True)  # [rows, 1]
            nats += (total.log() + maximum - gold_logit).sum()
            if states_gradient is None or weight_gradient is None:
                continue
            exponentials.div_(total)  # the softmax; minus the targets it is the gradient
            exponentials.scatter_add_(1, at, exponentials.new_full(at.shape, -1.0))
            if bias_gradient is not None:
                bias_gradient += exponentials.sum(0)
            exponentials = exponentials.to(states.dtype)
            states_gradient[part] = exponentials @ weight
            if weight.dtype == torch.float32:
                weight_gradient.addmm_(exponentials.T, states[part])
            else:
                weight_gradient += exponentials.T @ states[part]
        ctx.save_for_backward(states_gradient, weight_gradient, bias_gradient)
        ctx.kind = weight.dtype
        return nats

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        states_gradient, weight_gradient, bias_gradient = ctx.saved_tensors
        return (
            states_gradient * scale.to(states_gradient.dtype),
            (weight_gradient * scale).to(ctx.kind),
            None if bias_gradient is None else bias_gradient * scale,
            None,
            None,
        )
