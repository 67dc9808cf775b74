"""Where a training runs: one device, or one of several that `torchrun` started.

Under `torchrun --nproc-per-node 8 ...` each process finds its rank in the environment; nothing in
the call changes. Small numbers travel between the hosts' memories (gloo), gradients between GPUs
(nccl). Costs nothing with one process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed

from workbench.core.machine import require_cuda

PATIENCE = timedelta(days=1)  # the others wait while one process tokenises the text


@dataclass(frozen=True)
class Place:
    """This process among all that train together."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Whether it is this process that writes files."""
        return self.rank == 0

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes of a small tensor on the CPU."""
        if self.world > 1:
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Until every process is here."""
        if self.world > 1:
            distributed.all_reduce(torch.zeros(1))


@contextmanager
def joined(device: str | None) -> Iterator[Place]:
    """Join the other processes where there are any, and leave them at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if kind.startswith("cuda"):
        require_cuda()
    if world < 2:
        yield Place(torch.device(kind))
        return
    here = torch.device(kind)
    if here.type == "cuda":
        here = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(here)
    ours = not distributed.is_initialized()
    if ours:
        backend = "cpu:gloo,cuda:nccl" if here.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Place(here, distributed.get_rank(), distributed.get_world_size())
    finally:
        if ours:
            distributed.destroy_process_group()
