"""Direct contributions to a logit: of the embeddings, each head, each MLP and each bias.

The state that a head reads is a sum of what the embeddings and every attention and MLP have
written. With the scale of each norm held at its value in the pass (Elhage et al. 2021), a norm is
linear, so a logit is a sum too: each part contributes the product of its output with a direction.
The direction is the gradient of the logit at the input of the language-model head, taken back
through the norms on the way: the final norm of pre-norm models, every norm of post-norm ones. If
the head itself is not linear (BERT: a layer, an activation and a norm), the scale of its norm is
held too, and the parts sum to the product of the head's input and this gradient, not to the logit.

The output of an attention is split over its heads by the input of its output projection, or, if
there is no such module (XLNet), by the gradient of its gates, in which it is linear. Contributions
of later layers that read what a part has written belong to these layers. Costs: a forward pass, the
backward pass of the head, and a product per part; a backward pass through every attention for
XLNet.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Pieces
from workbench.engine.model import Model, refusal
from workbench.engine.taps import Gate, Site, StackName
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.interventions.residual_stream import (
    NormCall,
    Plan,
    ResidualStream,
    Step,
    is_norm,
    plan,
    probe_of,
    recorded,
)
from workbench.models.output_heads.task_heads import MixHead

Part = Literal["embeddings", "head", "attention-bias", "mlp", "norm-bias", "output-bias"]
Of = Literal["logit", "head input"]
# From logits, [n, choices], to the explained numbers, [n, targets]; linear in the logits.
Explained = Callable[[Tensor], Tensor]

LINEAR = 1e-3  # relative deviation up to which a head counts as linear
EXACT = 1e-2  # relative deviation from which a split of an output is rejected
_NO_STREAM = (
    "has no residual stream that every layer writes to, so no output is a sum of contributions"
)
_REMEDY = "Choose a transformers model with a language-model head, such as mini:bert or mini:gpt."


@dataclass(frozen=True)
class Component:
    """A part of a model that writes to the residual stream of its last stack."""

    part: Part
    layer: int = -1  # from 0; -1: before or after all layers
    kind: str = ""  # of an attention: self, causal or cross
    head: int = -1  # -1: not a head


@dataclass(frozen=True, eq=False)
class Reader:
    """How to take a model's logits apart, from a few small passes over it."""

    model: HuggingFace
    plan: Plan
    of: Of
    bias: Tensor | None  # [choices], the logits of an input of zeros, if the head is linear
    norms: Mapping[nn.Module, "FrozenNorm"]

    @property
    def stack(self) -> StackName:
        """The stack that the head reads."""
        return self.model.stacks[-1].name


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions of each component to each explained number."""

    components: Sequence[Component]
    values: Tensor  # [targets, n, components], float64
    totals: Tensor  # [targets, n], what they sum to: the logit, or the product at the head's input
    logits: Tensor  # [n, choices], float32
    gradients: Tensor | None = None  # [targets, width], of all numbers at the head's input: means


def reader(model: Model) -> Reader:
    """How to take the logits of a model apart.

    Raises:
        WorkbenchError: The model has no residual stream (ELMo), or an unknown kind of block.
    """
    net = require_transformer(model, _NO_STREAM, _REMEDY)
    if net.added is not None:
        raise refusal(
            net,
            f"has added modules ({net.added.kind}), so its blocks alone do not sum to its logits",
            "Use wb.attribute, wb.patch or head-ablation, or a model fine-tuned by another method.",
        )
    if isinstance(net.task_head, MixHead):
        where = plan(net)
        return Reader(net, where, "head input", None, _frozen_norms(where))
    if net.predicts is None:
        raise refusal(net, "has no trained language-model or task head", _REMEDY)
    where = plan(net, predicting=net.objective == "masked")
    text = probe_of(net, where.stream)
    logits = [_logits_at(net, where, text, factor) for factor in (0.0, 1.0, 2.0)]
    bend = (logits[2] - 2 * logits[1] + logits[0]).norm() / (logits[1] - logits[0]).norm()
    is_linear = bool(bend < LINEAR)
    bias = logits[0][0] if is_linear else None  # [choices]
    of: Of = "logit" if is_linear else "head input"
    return Reader(net, where, of, bias, _frozen_norms(where))


def contributions_to(
    reader: Reader,
    text: Pieces,
    target: Pieces | None,
    places: Tensor | None,
    explained: Explained,
    first: int | None = None,
    directions: Tensor | None = None,
) -> Contributions:
    """The contributions at some pieces of a batch.

    Args:
        reader: From `reader(model)`.
        text: The batch in pieces.
        target: Of an encoder-decoder, what its decoder writes.
        places: The pieces of the last stack whose logits are explained, [n, 2]: row and piece,
            sorted by both. None: one number per text, of a classifier.
        explained: The explained numbers of these logits.
        first: Take apart the first numbers only; `gradients` has all (default: all).
        directions: Take this direction at the head's input instead of the gradient of each number,
            the same for every piece, [targets, width].
    """
    model, where = reader.model, reader.plan
    by_gates = any(each is None for each in where.projections)
    if by_gates and places is not None:  # gates are per row: one place per row
        rows = places[:, 0]
        text, target = text.take(rows), None if target is None else target.take(rows)
        places = torch.stack([torch.arange(len(rows), device=rows.device), places[:, 1]], 1)
    gates = _Gates(model, len(text)) if by_gates else None
    mask: bool | Tensor = True
    if places is not None:
        read = text if target is None else target
        mask = torch.zeros_like(read.mask)
        mask[places[:, 0], places[:, 1]] = True
    at_head = _Leaf()
    with (
        torch.set_grad_enabled(by_gates),
        _head_input(model, where, at_head),
        _held_norms_of_head(reader, at_head),
        recorded(model, where) as seen,
        _projected(model, where) as inputs,
    ):
        output = model.forward(
            text, targets=target, taps=gates.taps if gates else [], hidden=False, logits=mask
        )
        assert output.logits is not None, "the model has a head"
        logits = output.logits.float()
        numbers = explained(logits)  # [n, targets]
        gradients = [
            torch.autograd.grad(numbers[:, index].sum(), at_head.leaf, retain_graph=True)[0]
            for index in range(numbers.shape[1] if directions is None else 0)
        ]
    stream = seen.stream(output)
    batch_first = [seen.shown(each, reader.stack) for each in gradients]
    if places is None:  # a classifier may read any piece
        places = output.texts[reader.stack].mask.nonzero()  # [n, 2]
        owners = places[:, 0]
    else:
        owners = torch.arange(len(places), device=places.device)
    rows, pieces = places.T
    if directions is None:
        direction = torch.stack([each[rows, pieces] for each in batch_first]).double()
    else:
        direction = directions.double()[:, None].expand(-1, len(rows), -1)
    mean = direction.mean(1)  # [targets, width]
    direction, numbers = direction[:first], numbers[:, :first]
    walk = _Walk(reader, reader.stack, stream, places, owners, len(numbers), inputs, gates)
    head_input = stream.final_state(reader.stack)[rows, pieces].detach().double()  # [n, width]
    totals = walk.summed((direction * head_input).sum(-1))  # [targets, predictions]
    components, values = walk.back({}, direction)
    if reader.bias is not None:
        share = explained(reader.bias[None].expand(len(numbers), -1)).T.double()
        components.append(Component("output-bias"))
        values.append(share[:first])
        totals = numbers.detach().T.double()
    return Contributions(components, torch.stack(values, -1), totals, logits.detach(), mean)


def contributions_to_layers(
    reader: Reader, text: Pieces, explained: Callable[[Sequence[Tensor]], Tensor]
) -> Contributions:
    """The contributions to numbers that a task head computes from the layers of its stack.

    `explained` maps the layers, [batch, pieces, width] each, to [batch, targets]. The numbers are
    those of the head, and the contributions sum to the product of the layers and their gradients.
    """
    model, where = reader.model, reader.plan
    stack = model.stacks[0].name
    gates = _Gates(model, len(text)) if any(p is None for p in where.projections) else None
    with (
        torch.set_grad_enabled(gates is not None),
        recorded(model, where) as seen,
        _projected(model, where) as inputs,
    ):
        output = model.forward(text, taps=gates.taps if gates else [], alone=True)
    layers = [layer.detach().requires_grad_() for layer in output.hidden[stack]]
    with torch.enable_grad():
        numbers = explained(layers)  # [batch, targets]
        gradients = [
            torch.autograd.grad(numbers[:, index].sum(), layers, retain_graph=True)
            for index in range(numbers.shape[1])
        ]
    places = output.texts[stack].mask.nonzero()  # [n, 2]
    rows, pieces = places.T
    stream = seen.stream(output)
    walk = _Walk(reader, stack, stream, places, rows, len(numbers), inputs, gates)
    added = {
        layer: torch.stack([each[layer][rows, pieces] for each in gradients]).double()
        for layer in range(len(layers))
    }
    totals = torch.stack(
        [
            walk.summed((added[layer] * states[rows, pieces].detach().double()).sum(-1))
            for layer, states in enumerate(layers)
        ]
    ).sum(0)
    components, values = walk.back(added)
    return Contributions(components, torch.stack(values, -1), totals, numbers.detach())


# --- norms ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FrozenNorm:
    """A norm as a linear map: `scale * gain * x + bias`, a scale per piece, x centred or not."""

    gain: Tensor  # [width], float64
    bias: Tensor  # [width], float64
    centred: bool

    def scale(self, read: Tensor, output: Tensor) -> Tensor:
        """The scale of each piece in a call.  # [n, width], [n, width] -> [n, 1]"""
        moved = self.gain * self._centred(read)
        size = moved.square().sum(-1, keepdim=True)
        return ((output - self.bias) * moved).sum(-1, keepdim=True) / size.clamp_min(1e-300)

    def back(self, direction: Tensor, scale: Tensor) -> Tensor:
        """The direction at the norm's input for one at its output.  # [..., n, width]"""
        return self._centred(self.gain * direction) * scale

    def held(self, read: Tensor, output: Tensor) -> Tensor:
        """The output as a function of the input with the scale held.  # [..., width] each"""
        scale = self.scale(read.detach().double(), output.detach().double())
        return (self.gain * self._centred(read.double()) * scale + self.bias).to(output.dtype)

    def _centred(self, states: Tensor) -> Tensor:
        return states - states.mean(-1, keepdim=True) if self.centred else states


def _frozen_norms(where: Plan) -> dict[nn.Module, FrozenNorm]:
    return {norm: frozen_norm(norm) for norm in where.norms}


@torch.no_grad()
def frozen_norm(norm: nn.Module) -> FrozenNorm:
    """A norm's gain, bias and whether it subtracts the mean, found by calling it."""
    weight = next(norm.parameters())
    index = torch.arange(len(weight), device=weight.device, dtype=torch.float64)
    wave = (1 + index / len(weight)) * (-1) ** index  # [width], without zeros
    wave = wave - wave.mean()

    def call(states: Tensor) -> Tensor:
        output: Tensor = norm.forward(states.to(weight.dtype)[None, None])  # without its hooks
        return output[0, 0].double()

    up, down = call(wave), call(-wave)
    centred = bool((call(wave + 3) - up).norm() < LINEAR * up.norm().clamp_min(1e-12))
    read = wave.to(weight.dtype).double()
    return FrozenNorm((up - down) / 2 / read, (up + down) / 2, centred)


# --- the head -------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Leaf:
    """Cuts the graph at the head's input, and stores it as the start of a new one."""

    leaf: Tensor = field(default_factory=lambda: torch.zeros(0))
    is_set: bool = False

    def __call__(self, states: Tensor) -> Tensor:
        self.is_set = True
        torch.set_grad_enabled(True)  # until the pass ends; the context around it restores it
        self.leaf = states.detach().requires_grad_()
        return self.leaf


@contextmanager
def _held_norms_of_head(reader: Reader, at_head: _Leaf) -> Iterator[None]:
    """Hold the scales of the norms that the head itself calls."""
    inside = {module for block in reader.plan.blocks for module in block.modules()}
    final = reader.plan.final_norms[reader.stack]

    def hold(norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        # norms of the embeddings and of an encoder come before the head's input
        return frozen_norm(norm).held(args[0], output) if at_head.is_set else output

    with ExitStack() as hooks:
        for module in reader.model.net.modules():
            if module not in inside and module is not final and is_norm(module):
                hooks.callback(module.register_forward_hook(hold).remove)
        yield


@contextmanager
def _head_input(
    model: HuggingFace, where: Plan, change: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Replace what the head reads: the output of the final norm, or of the last block."""
    stack = model.stacks[-1]
    norm = where.final_norms[stack.name]
    calls = 0

    def normed(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        return change(output)

    def ended(block: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < stack.layers:
            return output
        if isinstance(output, Tensor):
            return change(output)
        changed = change(output[where.stream])
        return type(output)([*output[: where.stream], changed, *output[where.stream + 1 :]])

    with ExitStack() as hooks:
        if norm is not None:
            hooks.callback(norm.register_forward_hook(normed).remove)
        else:
            for block, name in where.blocks.items():
                if name == stack.name:
                    hooks.callback(block.register_forward_hook(ended).remove)
        yield


def _logits_at(model: HuggingFace, where: Plan, text: Pieces, factor: float) -> Tensor:
    """The logits of a text if the head reads its input times a factor.  # [n, choices]"""
    with torch.no_grad(), _head_input(model, where, lambda states: states * factor):
        logits = model.forward(text, hidden=False, logits=True).logits
    assert logits is not None, "the model has a head"
    return logits.float().reshape(-1, logits.shape[-1])


# --- heads ----------------------------------------------------------------------------------------


@contextmanager
def _projected(model: HuggingFace, where: Plan) -> Iterator[list[Tensor]]:
    """The input of each attention's output projection, in the order of the sites."""
    seen: list[Tensor] = []

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        seen.append(args[0].detach())

    with ExitStack() as hooks:
        for module in {each for each in where.projections if each is not None}:
            hooks.callback(module.register_forward_pre_hook(keep).remove)
        yield seen


class _Gates:
    """A gate of one for every head of every text, with gradients."""

    def __init__(self, model: HuggingFace, rows: int) -> None:
        most = max(site.heads for site in model.sites)
        self.by_site = [
            torch.ones(rows, most, device=model.device, requires_grad=True) for _ in model.sites
        ]
        with torch.enable_grad():
            self.taps = [Gate(torch.stack(self.by_site, 1))]

    def shares(self, site: Site, objective: Tensor) -> Tensor:
        """The share of each head in an objective, which is linear in the gates of its site.

        # [rows, heads]
        """
        gates = self.by_site[site.index]
        (found,) = torch.autograd.grad(objective, gates, retain_graph=True)
        return found[:, : site.heads].detach()


# --- the way back ---------------------------------------------------------------------------------


@dataclass(eq=False)
class _Walk:
    """Takes a direction from the head's input back to the embeddings, and collects products."""

    reader: Reader
    stack: StackName
    stream: ResidualStream
    places: Tensor  # [n, 2]
    owners: Tensor  # [n], the prediction that each place belongs to
    n_predictions: int
    inputs: Sequence[Tensor]
    gates: _Gates | None

    def back(
        self, of_layers: Mapping[int, Tensor], at_head: Tensor | None = None
    ) -> tuple[list[Component], list[Tensor]]:
        """All components and their contributions.

        `at_head` is the direction at the head's input, `of_layers` those at the outputs of layers
        that a task head reads itself.  # [targets, n, width] each -> [targets, predictions] each
        """
        found: list[tuple[Component, Tensor]] = []
        final = self.stream.final_norms[self.stack]
        layers = self.stream.steps[self.stack]
        if at_head is None:
            direction = of_layers[len(layers)]
        elif final is None:
            direction = at_head
        else:
            found.append((Component("norm-bias"), self._of_bias(at_head, final)))
            direction = self._through(at_head, final)
        for layer in reversed(range(len(layers))):
            for step in reversed(layers[layer]):
                if step.norm is not None:
                    share = self._of_bias(direction, step.norm)
                    kind = step.site.kind if step.site else ""
                    found.append((Component("norm-bias", layer, kind), share))
                    direction = self._through(direction, step.norm)
                found += reversed(list(self._of_step(layer, step, direction)))
            direction = direction + of_layers[layer] if layer in of_layers else direction
        first = self._at(self.stream.embeddings(self.stack))
        found.append((Component("embeddings"), self.summed((direction * first).sum(-1))))
        found.reverse()
        return [component for component, _ in found], [share for _, share in found]

    def summed(self, products: Tensor) -> Tensor:
        """Products of places, summed for each prediction.  # [..., n] -> [..., predictions]"""
        total = products.new_zeros(*products.shape[:-1], self.n_predictions)
        return total.index_add_(-1, self.owners.to(products.device), products)

    def _at(self, states: Tensor) -> Tensor:
        """The states of the places, on the model's device.  # [n, width], float64"""
        rows, pieces = self.places.to(states.device).T
        chosen = states.detach()[rows, pieces]
        return chosen.to(self.reader.model.device).double()

    def _of_bias(self, direction: Tensor, call: NormCall) -> Tensor:
        bias = self.reader.norms[call.module].bias.to(direction.device)
        return self.summed(direction @ bias)

    def _through(self, direction: Tensor, call: NormCall) -> Tensor:
        norm = self.reader.norms[call.module]
        return norm.back(direction, norm.scale(self._at(call.read), self._at(call.output)))

    def _of_step(
        self, layer: int, step: Step, direction: Tensor
    ) -> Iterator[tuple[Component, Tensor]]:
        total = self.summed((direction * self._at(step.added)).sum(-1))  # [targets, predictions]
        if step.site is None:
            yield Component("mlp", layer), total
            return
        shares, bias = self._of_heads(step, step.site, direction)
        rest = total - shares.sum(-1)
        bias = rest if bias is None else bias
        if float((rest - bias).norm()) > EXACT * float(total.norm() + shares.norm()):
            raise WorkbenchError(
                f"the heads of {step.site.name} do not sum to the output of their attention.",
                code="model-unsupported",
                where=f"{self.reader.model.name} ({self.reader.model.family})",
                remedy="Contributions of heads are not known for this architecture.",
            )
        for head in range(step.site.heads):
            yield Component("head", layer, step.site.kind, head), shares[..., head]
        yield Component("attention-bias", layer, step.site.kind), bias

    def _of_heads(self, step: Step, site: Site, direction: Tensor) -> tuple[Tensor, Tensor | None]:
        """Shares of the heads, [targets, predictions, heads], and of the projection's bias."""
        if self.gates is not None:
            rows, pieces = self.places.T
            added = step.added[rows, pieces].double()  # [n, width]
            by_target = [self.gates.shares(site, (one * added).sum()).double() for one in direction]
            return torch.stack(by_target), None  # a row is a prediction
        module = self.reader.plan.projections[site.index]
        assert module is not None, "there are gates for such sites"
        weight, bias = _linear(module)
        device = direction.device
        read = self._at(self.inputs[site.index])  # [n, heads x width of a head]
        reading = direction @ weight.to(device)  # [targets, n, heads x width of a head]
        products = reading * read
        width = products.shape[-1] // max(site.heads, 1)  # of a head; a layer may have none
        parts = products.view(*products.shape[:2], site.heads, width)
        by_head = parts.sum(-1)  # [targets, n, heads]
        shares = self.summed(by_head.movedim(-1, 0)).movedim(0, -1)
        of_bias = shares.new_zeros(shares.shape[:-1])
        if bias is not None:
            of_bias = self.summed(direction @ bias.to(device))
        return shares, of_bias


def _linear(module: nn.Module) -> tuple[Tensor, Tensor | None]:
    """Weight, [out, in], and bias, [out], of an output projection, in float64."""
    weight: Tensor = module.weight  # type: ignore[assignment]
    bias: Tensor | None = module.bias  # type: ignore[assignment]
    whole = weight.detach().T if isinstance(module, Conv1D) else weight.detach()
    return whole.double(), None if bias is None else bias.detach().double()
