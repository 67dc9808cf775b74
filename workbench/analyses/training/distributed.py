"""Processes of a training: one alone, or several started by `torchrun`.

Under `torchrun --nproc-per-node 8 ...` each process reads its rank from the environment; the call
stays the same. Small numbers travel between the hosts' memories (gloo), gradients between GPUs
(nccl). Costs: nothing with one process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed

from workbench.core.machine import require_cuda

TIMEOUT = timedelta(days=1)  # the other processes wait while one tokenises the text


@dataclass(frozen=True)
class Process:
    """This process among all processes of a training."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes of a small tensor on the CPU."""
        if self.world > 1:
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait until every process gets here."""
        if self.world > 1:
            distributed.all_reduce(torch.zeros(1))


@contextmanager
def join_processes(device: str | None) -> Iterator[Process]:
    """Join the process group if there are several processes, and leave it at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    device_name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device_name.startswith("cuda"):
        require_cuda()
    if world < 2:
        yield Process(torch.device(device_name))
        return
    torch_device = torch.device(device_name)
    if torch_device.type == "cuda":
        torch_device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(torch_device)
    created = not distributed.is_initialized()
    if created:
        backend = "cpu:gloo,cuda:nccl" if torch_device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=TIMEOUT)
    try:
        yield Process(torch_device, distributed.get_rank(), distributed.get_world_size())
    finally:
        if created:
            distributed.destroy_process_group()
