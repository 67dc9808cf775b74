"""One process that trains as one of many: gradients through NCCL, or gloo on a CPU.

    python -m tests.gpu.one_rank DEVICE FOUND.json

A trainer alone wraps nothing; here its model is wrapped, two micro-batches a step, and must lose
what it loses unwrapped. Small numbers travel by gloo, as they do between many. Costs ten seconds.
"""

import json
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.analyses.training.lessons import lesson, settings
from workbench.analyses.training import trainer
from workbench.analyses.training.distributed import Process
from workbench.analyses.training.task import Task
from workbench.analyses.training.train import train


def wrapped(net: nn.Module, task: Task, place: Process) -> nn.Module:
    """The learner as it is where there are several processes."""
    learner = trainer._Learner(net, task).train()
    ids = [torch.cuda.current_device()] if place.device.type == "cuda" else None
    return DistributedDataParallel(learner, device_ids=ids, gradient_as_bucket_view=True)


def main(kind: str, out: Path) -> None:
    device = torch.device("cuda", 0) if kind.startswith("cuda") else torch.device("cpu")
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    own = settings(8, points=8, micro_batch_size=4)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        distributed.init_process_group(
            backend, init_method=f"file://{home / 'meeting'}", rank=0, world_size=1
        )
        losses = {}
        try:
            for name in ("alone", "wrapped"):
                given = ("bert", lesson(), home / name, own)
                learner = wrapped if name == "wrapped" else trainer._learner
                with patch.object(trainer, "_learner", learner):
                    rows = train(*given, device=kind, home=home / "tokens").rows
                losses[name] = torch.tensor([row.loss for row in rows])
            sums = 0.0
            for place in {"cpu", device.type}:
                numbers = torch.arange(5.0, device=place)
                distributed.all_reduce(numbers)
                sums = max(sums, float((numbers.cpu() - torch.arange(5.0)).abs().max()))
        finally:
            distributed.destroy_process_group()
    apart = float((losses["wrapped"] / losses["alone"] - 1).abs().max())
    bound = 0.02 if device.type == "cuda" else 1e-5
    found = {"backend": backend, "apart": apart, "bound": bound, "sums": sums}
    out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
