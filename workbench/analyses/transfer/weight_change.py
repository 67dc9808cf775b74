"""Distance between the weights of two models, per layer and per module.

Weights are matched by name, whatever head the model was saved with. Weights that only one model
has, such as another head, are listed and left out. Costs: two passes over the weights.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pandas as pd
import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.engine.model import Model

COLUMNS = ["stack", "layer", "module", "weight_distance", "norm_before", "parameters"]
ELSEWHERE = -1  # the layer of weights outside all layers
KINDS = (".weight", ".bias")  # the weights of one module


class WeightKey(NamedTuple):
    """Stack, layer and module of a weight, as in the tables."""

    stack: str
    layer: int
    module: str


@dataclass(frozen=True)
class WeightChange:
    """‖after - before‖ / ‖before‖ per layer and per module."""

    layers: Mapping[tuple[str, int], float]  # layers with weights of their own
    modules: pd.DataFrame
    left_out: tuple[str, ...]  # names in one model only, or with another shape


def require_same(before: Model, after: Model) -> None:
    """Raise an error with the difference unless both models have the same architecture."""
    sides = [
        (model.family, model.width, model.stacks, [site.heads for site in model.sites])
        for model in (before, after)
    ]
    if sides[0] != sides[1]:
        raise _different(f"{_architecture(before)}; {_architecture(after)}")


def weight_change(before: Model, after: Model) -> WeightChange:
    """The change of all weights that both models have."""
    old, new = before.named_weights(), after.named_weights()
    known = {**_places(after), **_places(before)}
    places = {name: known.get(name, WeightKey("", ELSEWHERE, name)) for name in {**old, **new}}
    common = [name for name in old if name in new]
    reshaped = [name for name in common if old[name].shape != new[name].shape]
    for name in reshaped:
        if places[name].layer > 0:
            raise _different(
                f"{name} is {tuple(old[name].shape)} before and {tuple(new[name].shape)} after"
            )
    shared = [name for name in common if name not in reshaped]
    old_shared, new_shared = ({name: side[name] for name in shared} for side in (old, new))
    layers = weight_changes(
        old_shared, new_shared, lambda name: (places[name].stack, places[name].layer)
    )
    modules = weight_changes(old_shared, new_shared, lambda name: places[name])
    return WeightChange(
        {key: change.distance for key, change in layers.items() if key[1] != ELSEWHERE},
        pd.DataFrame([(*key, *change) for key, change in modules.items()], columns=COLUMNS),
        tuple(dict.fromkeys([name for name in (*old, *new) if name not in shared])),
    )


def _places(model: Model) -> dict[str, WeightKey]:
    """The key of each weight; the weight and bias of a module share one."""
    keys = {}
    for name, place in model.weight_places().items():
        layer = ELSEWHERE if place.layer is None else place.layer
        keys[name] = WeightKey(place.stack or "", layer, _module(place.module))
    return keys


def _module(name: str) -> str:
    return next((name.removesuffix(kind) for kind in KINDS if name.endswith(kind)), name)


def _architecture(model: Model) -> str:
    stacks = ", ".join(
        f"{stack.layers} {stack.name} layers"
        + (f" of {stack.heads} heads" if stack.heads else " without attention")
        for stack in model.stacks
    )
    return f"{model.name} is {model.family}, {stacks}, width {model.width}"


def _different(what: str) -> WorkbenchError:
    return WorkbenchError(
        f"drift needs two models of the same architecture: {what}.",
        code="architecture-mismatch",
        remedy="Name a model and one trained from it, or compare any two models with similarity.",
    )


# --- distances of weights -------------------------------------------------------------------------

K = TypeVar("K")


class Change(NamedTuple):
    """The change of a group of weights, taken as one long vector."""

    distance: (
        float  # ‖after - before‖ / ‖before‖; NaN if all weights were 0 before and are not after
    )
    norm_before: float
    parameters: int


def weight_changes(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor], group: Callable[[str], K]
) -> dict[K, Change]:
    """The change of each group of weights; `group` maps a name to its group.

    Tensors tied in both models count once, under their first name. Sums are in float64.
    """
    seen: set[tuple[object, object]] = set()
    squares: dict[K, list[tuple[float, float, int]]] = {}
    for name, old in before.items():
        new = after[name]
        tied = _address(old, name), _address(new, name)
        if tied in seen:
            continue
        seen.add(tied)
        with torch.no_grad():
            wide = old.double()
            difference = (new.to(wide) - wide).square().sum()
            numbers = float(difference), float(wide.square().sum()), old.numel()
        squares.setdefault(group(name), []).append(numbers)
    changes = {}
    for key, parts in squares.items():
        difference_squared, norm_squared = (math.fsum(part[i] for part in parts) for i in (0, 1))
        distance = (
            math.sqrt(difference_squared) / math.sqrt(norm_squared)
            if norm_squared
            else math.nan
            if difference_squared
            else 0.0
        )
        changes[key] = Change(distance, math.sqrt(norm_squared), sum(part[2] for part in parts))
    return changes


def _address(tensor: Tensor, name: str) -> object:
    """The memory of a tensor, equal for tied tensors; its name if it is empty."""
    if not tensor.numel():
        return name
    return tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
