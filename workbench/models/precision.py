"""The arithmetic that models learn in: bf16 on a GPU that has it, float32 elsewhere.

Weights stay in float32 everywhere. Costs nothing.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    """In its context products are made in bf16 where the device can."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
