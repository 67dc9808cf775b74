"""How far training has moved each layer's and each module's weights, and whether it could have.

Weights meet by name, whatever head the model was saved with: what only one side has, such as
another head, is told and left out. Costs two passes over the weights.
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
ELSEWHERE = -1  # the layer of what belongs to none
KINDS = (".weight", ".bias")  # of one module


class Place(NamedTuple):
    """Where a weight is, as the tables tell it."""

    stack: str
    layer: int
    module: str


@dataclass(frozen=True)
class Moved:
    """‖after - before‖ / ‖before‖ by layer and by module."""

    layers: Mapping[tuple[str, int], float]  # of those that have weights of their own
    modules: pd.DataFrame
    left_out: tuple[str, ...]  # names that one side alone has, or in another shape


def require_same(before: Model, after: Model) -> None:
    """Two models of one architecture, or an error that says in what they differ."""
    sides = [
        (model.family, model.width, model.stacks, [site.heads for site in model.sites])
        for model in (before, after)
    ]
    if sides[0] != sides[1]:
        raise _other(f"{_said(before)}; {_said(after)}")


def moved(before: Model, after: Model) -> Moved:
    """What has become of the weights that both have."""
    old, new = before.named_weights(), after.named_weights()
    told = {**_places(after), **_places(before)}
    places = {name: told.get(name, Place("", ELSEWHERE, name)) for name in {**old, **new}}
    both = [name for name in old if name in new]
    odd = [name for name in both if old[name].shape != new[name].shape]
    for name in odd:
        if places[name].layer > 0:
            raise _other(
                f"{name} is {tuple(old[name].shape)} before and {tuple(new[name].shape)} after"
            )
    shared = [name for name in both if name not in odd]
    old_shared, new_shared = ({name: side[name] for name in shared} for side in (old, new))
    layers = weight_changes(
        old_shared, new_shared, lambda name: (places[name].stack, places[name].layer)
    )
    modules = weight_changes(old_shared, new_shared, lambda name: places[name])
    return Moved(
        {key: change.distance for key, change in layers.items() if key[1] != ELSEWHERE},
        pd.DataFrame([(*key, *change) for key, change in modules.items()], columns=COLUMNS),
        tuple(dict.fromkeys([name for name in (*old, *new) if name not in shared])),
    )


def _places(model: Model) -> dict[str, Place]:
    """Where each is; a module's weight and bias are together."""
    found = {}
    for name, place in model.weight_places().items():
        layer = ELSEWHERE if place.layer is None else place.layer
        found[name] = Place(place.stack or "", layer, _module(place.module))
    return found


def _module(name: str) -> str:
    return next((name.removesuffix(kind) for kind in KINDS if name.endswith(kind)), name)


def _said(model: Model) -> str:
    stacks = ", ".join(
        f"{stack.layers} {stack.name} layers"
        + (f" of {stack.heads} heads" if stack.heads else " without attention")
        for stack in model.stacks
    )
    return f"{model.name} is {model.family}, {stacks}, width {model.width}"


def _other(what: str) -> WorkbenchError:
    return WorkbenchError(
        f"drift follows one architecture from before to after: {what}.",
        remedy="Name a model and what was trained from it, or compare any two with similarity.",
    )


# --- distances of weights -------------------------------------------------------------------------

K = TypeVar("K")


class Change(NamedTuple):
    """Of a group of weights, as if they were one long vector."""

    distance: float  # ‖after - before‖ / ‖before‖; NaN for what was all 0 and is so no longer
    norm_before: float
    parameters: int  # numbers in it


def weight_changes(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor], group: Callable[[str], K]
) -> dict[K, Change]:
    """How far the weights of each group have moved; `group` gives the group of a name.

    Tensors that both sides tie are counted once, under their first name. Each is in float64 while
    it is looked at.
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
            apart = (new.to(wide) - wide).square().sum()
            numbers = float(apart), float(wide.square().sum()), old.numel()
        squares.setdefault(group(name), []).append(numbers)
    found = {}
    for key, parts in squares.items():
        apart_sum, whole = (math.fsum(part[place] for part in parts) for place in (0, 1))
        far = math.sqrt(apart_sum) / math.sqrt(whole) if whole else math.nan if apart_sum else 0.0
        found[key] = Change(far, math.sqrt(whole), sum(part[2] for part in parts))
    return found


def _address(tensor: Tensor, name: str) -> object:
    """Where its numbers lie, the same for tied tensors; its name where it has none."""
    if not tensor.numel():
        return name
    return tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
