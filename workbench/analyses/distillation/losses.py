"""What a student is trained for beside a teacher: the losses of DistilBERT and TinyBERT.

Soft targets, gold targets and the cosine of the last states (Sanh et al. 2019); states of matched
layers, embeddings and attention scores (Jiao et al. 2020). Where the widths differ, a linear map
that learns along takes the student's states to the teacher's width; it is not saved. Attention
comes from the engine, as probabilities of either model: their logarithms are the scores up to a
constant of each row, which the softmax ignores and which is removed by centring.
Costs: a pass of the teacher in addition to the student's; with `maps` explicit attention in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.analyses.distillation.experiments import LossName
from workbench.analyses.training.objectives.chunked_lm_loss import logits_at, no_cache
from workbench.analyses.training.objectives.distillation import cosine_distance, soft_targets
from workbench.engine.taps import Site, StackName, Tap, View, session
from workbench.models.huggingface import HuggingFace

UNSEEN = 1e-20  # probabilities below it are of masked pieces
Place = tuple[StackName, str, int]  # stack, kind and layer of a site
LayerMaps = Mapping[StackName, Sequence[int]]  # by stack, the teacher's layer of each layer, from 1


# --- the losses, on tensors -----------------------------------------------------------------------


def state_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of states.  # [..., width] twice -> [...]"""
    return (student.float() - teacher.float()).square().mean(-1)


def map_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of centred attention scores over heads and visible keys.

    # [batch, heads, queries, keys] probabilities, twice -> [batch, queries]
    """
    visible = (teacher > UNSEEN) & (student > UNSEEN)
    gaps = _centred(student, visible) - _centred(teacher, visible)
    seen = visible.sum((1, 3)).clamp(min=1)  # [batch, queries]
    return gaps.square().sum((1, 3)) / seen


def _centred(probabilities: Tensor, visible: Tensor) -> Tensor:
    """Logarithms minus their mean over the visible keys; zero elsewhere."""
    scores = probabilities.masked_fill(~visible, 1.0).float().log()
    mean = scores.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp(min=1)
    return (scores - mean).masked_fill(~visible, 0.0)


def soft_loss(student: Tensor, teacher: Tensor, temperature: float, is_score: bool) -> Tensor:
    """Divergence from the teacher's prediction; of scores the squared difference.  # -> [n]"""
    if is_score:
        return (student.float() - teacher.float()).square().mean(-1)
    return soft_targets(student, teacher, temperature)


def hard_loss(student: Tensor, gold: Tensor) -> Tensor:
    """Cross-entropy with gold classes; of gold scores the squared difference.  # -> [n]"""
    if gold.is_floating_point():
        return (student.float()[:, 0] - gold).square()
    return functional.cross_entropy(student.float(), gold, reduction="none")


# --- one pass of a model --------------------------------------------------------------------------


@dataclass
class Maps(Tap):
    """The attention maps of a pass, with their gradients."""

    maps: dict[Place, Tensor] = field(default_factory=dict)  # [batch, heads, queries, keys]

    def see(self, view: View) -> None:
        self.maps[place_of(view.site)] = view.probabilities


def place_of(site: Site) -> Place:
    """Where a site is in its model."""
    return site.stack, site.kind, site.layer


@dataclass(frozen=True)
class Read:
    """What a model predicts for a micro-batch, and what is inside it."""

    logits: Tensor  # [targets, outputs]
    states: Mapping[StackName, Sequence[Tensor]]  # embeddings first; [batch, pieces, width]
    maps: Mapping[Place, Tensor]


def read(
    model: HuggingFace, inputs: Mapping[str, Tensor], states: bool = True, maps: bool = False
) -> Read:
    """One pass over a micro-batch: predictions at pieces where there is `at`, else of texts."""
    tap = Maps()
    options = {"output_hidden_states": states}
    with session([tap] if maps else [], model.sites):
        if "at" in inputs:
            logits, output = logits_at(model.net, inputs, **options)
        else:
            own = {name: tensor for name, tensor in inputs.items() if name != "gold"}
            output = model.net(**own, **no_cache(model.net), **options)
            logits = output["logits"]
    names = {stack.name: f"{stack.name}_" if model.two_sided else "" for stack in model.stacks}
    layers = {
        stack: output[f"{name}hidden_states"] if states else () for stack, name in names.items()
    }
    return Read(logits, layers, tap.maps)


def real_pieces(inputs: Mapping[str, Tensor], stack: StackName) -> Tensor:
    """The pieces of a stack that are no padding.  # [batch, pieces] bool"""
    if stack == "decoder" and "decoder_input_ids" in inputs:  # it predicts at each of its pieces
        real = torch.zeros_like(inputs["decoder_input_ids"], dtype=torch.bool)
        real.view(-1)[inputs["at"]] = True
        return real
    mask = inputs.get("attention_mask")
    return torch.ones_like(inputs["input_ids"]).bool() if mask is None else mask.bool()


# --- a student with its teacher -------------------------------------------------------------------


class Pair(nn.Module):
    """A student that learns from a frozen teacher; only the student and its maps have weights.

    Args:
        student: The model that learns.
        teacher: The model it learns from.
        layers: The teacher's layer for each of the student's.
        losses: The terms of the loss.
        temperature: Of the soft targets.
    """

    def __init__(
        self,
        student: HuggingFace,
        teacher: HuggingFace,
        layers: LayerMaps,
        losses: Sequence[LossName],
        temperature: float,
    ) -> None:
        super().__init__()
        self.net = student.net
        self._models = student, teacher  # a tuple, so that the teacher is no submodule
        self.layers, self.losses, self.temperature = layers, tuple(losses), temperature
        self.to_teacher = nn.ModuleDict()
        for name in {"cosine", "states", "embeddings"}.intersection(losses):
            if name != "cosine" or student.width != teacher.width:
                self.to_teacher[name] = _width_map(student.width, teacher.width)

    def train(self, mode: bool = True) -> "Pair":
        super().train(mode)
        self._models[1].net.eval()
        return self

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """The sums of the terms.  # [terms]"""
        student, teacher = self._models
        inside, with_maps = bool({*self.losses} - {"soft", "hard"}), "maps" in self.losses
        own = read(student, inputs, inside, with_maps)
        theirs = None
        if {*self.losses} != {"hard"}:
            with torch.no_grad():
                theirs = read(teacher, inputs, inside, with_maps)
        return torch.stack([self._term(name, own, theirs, inputs) for name in self.losses])

    def _term(
        self, name: LossName, own: Read, theirs: Read | None, inputs: Mapping[str, Tensor]
    ) -> Tensor:
        """The sum of one term over its targets or pieces."""
        if name == "hard":
            return hard_loss(own.logits, inputs["gold"]).sum()
        assert theirs is not None, "all other terms need the teacher"
        if name == "soft":
            is_score = inputs["gold"].is_floating_point()
            return soft_loss(own.logits, theirs.logits, self.temperature, is_score).sum()
        total = torch.zeros((), device=own.logits.device)
        for stack, matched in self.layers.items():
            real = real_pieces(inputs, stack)
            for by_piece in self._by_piece(name, own, theirs, stack, matched):
                total = total + by_piece.masked_fill(~real, 0.0).sum()
        return total

    def _by_piece(
        self, name: LossName, own: Read, theirs: Read, stack: StackName, matched: Sequence[int]
    ) -> list[Tensor]:
        """A term of one stack, for each matched layer.  # [batch, pieces] each"""
        if name == "maps":
            return [
                map_loss(maps, theirs.maps[stack, kind, matched[layer] - 1])
                for (of, kind, layer), maps in own.maps.items()
                if of == stack
            ]
        a, b = own.states[stack], theirs.states[stack]
        to_teacher: Any = self.to_teacher[name] if name in self.to_teacher else nn.Identity()
        if name == "cosine":
            return [cosine_distance(to_teacher(a[-1]), b[-1])]
        pairs = [(0, 0)] if name == "embeddings" else list(enumerate(matched, 1))
        return [state_loss(to_teacher(a[own_layer]), b[layer]) for own_layer, layer in pairs]


def pair_losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """The sums of the terms of a pair, as the training loop takes them.  # [terms]"""
    sums: Tensor = net(inputs)
    return sums


def _width_map(student: int, teacher: int) -> nn.Linear:
    """A linear map between widths; the identity at first, where they are equal."""
    made = nn.Linear(student, teacher, bias=False)
    if student == teacher:
        nn.init.eye_(made.weight)
    return made
