"""Tensors on their way to the device, without the host waiting for it.

A copy from ordinary memory waits until the device has done all that was asked of it; from
page-locked memory it does not. Costs a copy on the host.
"""

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on the device."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
