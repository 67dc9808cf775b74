"""Tensors on their way to the device, without the host waiting for it.

A copy from ordinary memory waits until the device has done all that was asked of it; from
page-locked memory it does not. Costs a copy on the host.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

D = TypeVar("D")


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on the device."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def all_sent(made: D, device: torch.device) -> D:
    """A dataclass with all tensors in it, and in what it holds, on the device."""
    found: Any = made
    if isinstance(found, Tensor):
        return sent(found, device)  # type: ignore[return-value]
    if isinstance(found, tuple):
        return tuple(all_sent(each, device) for each in found)  # type: ignore[return-value]
    if not is_dataclass(found):
        return made
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    sent_values = {name: all_sent(value, device) for name, value in values.items()}
    moved: Any = replace(found, **sent_values)  # type: ignore[type-var]
    return moved  # type: ignore[no-any-return]
