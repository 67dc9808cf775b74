"""How far training has moved a model's weights: ‖after - before‖ / ‖before‖, by name and by group.

Tensors that both sides tie are counted once, under their first name. Whole numbers in a state
dict (positions, counters) are no weights. Costs one pass over the weights, each in float64 while
it is looked at.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workbench.errors import WorkbenchError

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
