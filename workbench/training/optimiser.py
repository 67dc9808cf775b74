"""The optimiser's parts: fused AdamW, which weights decay, the gradient's norm.

Costs 8 bytes a parameter for the two moments.
"""

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from workbench.training.task import Plan


def adamw(net: nn.Module, plan: Plan, device: torch.device) -> AdamW:
    """Matrices decay; biases, norms and other vectors do not."""
    trained = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": plan.decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(
        [group for group in groups if group["params"]],
        lr=plan.rate,
        betas=plan.betas,
        eps=plan.epsilon,
        fused=device.type in ("cpu", "cuda"),
    )


def clipped(net: nn.Module, most: float) -> Tensor:
    """The gradient's norm before it is brought down to `most`."""
    trained = [p for p in net.parameters() if p.grad is not None]
    return nn.utils.clip_grad_norm_(trained, most or float("inf"))
