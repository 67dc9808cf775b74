"""How far training has moved each layer's and each module's weights, and whether it could have.

Weights meet by name, whatever head the model was saved with: what only one side has, such as
another head, is told and left out. Costs two passes over the weights.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

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

    def grouped(by: Callable[[Place], Place]) -> dict[Place, tuple[float, float, int]]:
        labels = {str(by(places[name])): by(places[name]) for name in shared}
        changes = weight_changes(old_shared, new_shared, lambda name: str(by(places[name])))
        return {
            labels[one.group]: (one.distance, one.norm_before, one.parameters)
            for one in changes.groups
        }

    layers = grouped(lambda place: Place(place.stack, place.layer, ""))
    modules = grouped(lambda place: place)
    rows = [(*place, *numbers) for place, numbers in modules.items()]
    return Moved(
        {
            (place.stack, place.layer): numbers[0]
            for place, numbers in layers.items()
            if place.layer != ELSEWHERE
        },
        pd.DataFrame(rows, columns=COLUMNS),
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
#
# How far training has moved a model's weights: ‖after - before‖ / ‖before‖, by name and by group.
#
# Tensors that both sides tie are counted once, under their first name. Whole numbers in a state
# dict (positions, counters) are no weights. Costs one pass over the weights, each in float64
# while it is looked at.

Weights = nn.Module | Mapping[str, Tensor]


@dataclass(frozen=True)
class Change:
    """Of a parameter, or of a group of them as if it were one; a group's name is its own."""

    name: str
    group: str
    distance: float  # NaN for what was all 0 and is so no longer
    norm_before: float
    parameters: int  # numbers in it


@dataclass(frozen=True)
class Changes:
    """Rows in the order of the weights before, and the names that only one side has."""

    parameters: tuple[Change, ...]
    groups: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def weight_changes(before: Weights, after: Weights, group: Callable[[str], str]) -> Changes:
    """Of all weights that both have; `group` gives the group of a parameter's name."""
    old, new = _named(before), _named(after)
    seen: set[tuple[object, object]] = set()
    rows: list[Change] = []
    squares: dict[str, list[tuple[float, float, int]]] = {}
    for name in old:
        if name not in new:
            continue
        if old[name].shape != new[name].shape:
            raise WorkbenchError(
                f"{name} is {tuple(old[name].shape)} before and {tuple(new[name].shape)} after.",
                remedy="Compare a model with what it was trained from, or leave this name out.",
            )
        tied = _place(old[name], name), _place(new[name], name)
        if tied in seen:
            continue
        seen.add(tied)
        moved, whole = _squares(old[name], new[name])
        number = old[name].numel()
        rows.append(_change(name, group(name), moved, whole, number))
        squares.setdefault(group(name), []).append((moved, whole, number))
    pooled = []
    for one, parts in squares.items():
        moved, whole = math.fsum(part[0] for part in parts), math.fsum(part[1] for part in parts)
        pooled.append(_change(one, one, moved, whole, sum(part[2] for part in parts)))
    return Changes(
        parameters=tuple(rows),
        groups=tuple(pooled),
        only_before=tuple(name for name in old if name not in new),
        only_after=tuple(name for name in new if name not in old),
    )


def _named(weights: Weights) -> dict[str, Tensor]:
    if isinstance(weights, nn.Module):
        weights = dict(weights.named_parameters(remove_duplicate=False))
    return {name: tensor for name, tensor in weights.items() if tensor.is_floating_point()}


def _place(tensor: Tensor, name: str) -> object:
    """Where its numbers lie, the same for tied tensors; its name where it has none."""
    if not tensor.numel():
        return name
    return tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride()


def _squares(before: Tensor, after: Tensor) -> tuple[float, float]:
    """‖after - before‖² and ‖before‖²"""
    with torch.no_grad():
        old = before.double()
        moved = after.to(old) - old
        return float(moved.square().sum()), float(old.square().sum())


def _change(name: str, group: str, moved: float, whole: float, number: int) -> Change:
    if whole:
        distance = math.sqrt(moved) / math.sqrt(whole)
    else:
        distance = math.nan if moved else 0.0
    return Change(name, group, distance, math.sqrt(whole), number)
