"""Two processes learn what one does with the same batch, and end with the same weights."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from tests.training.lessons import lesson, settings
from workbench.training.train import train

PROGRAM = """
import hashlib, os, sys
from pathlib import Path
from tests.training.lessons import lesson, settings
from workbench.training import train as training
out = Path(sys.argv[1])
fit = training.fit
def watched(net, *rest, **more):
    rows = fit(net, *rest, **more)
    bytes_of = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    (out / f"rank-{os.environ['RANK']}").write_text(hashlib.sha256(bytes_of).hexdigest())
    return rows
training.fit = watched
own = settings(12, at_once=4, evaluations=1)
training.train("bert", lesson(), out / "two", own, home=out / "tokens", device="cpu")
"""


def test_two_processes_are_one_with_twice_the_batch(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [*command, str(program), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [(tmp_path / f"rank-{rank}").read_text() for rank in range(2)]
    assert ranks[0] == ranks[1]
    own = settings(12, at_once=4, evaluations=1)
    one = train("bert", lesson(), tmp_path / "one", own, home=tmp_path / "tokens", device="cpu")
    two = load_file(tmp_path / "two" / "model.safetensors")
    for name, tensor in load_file(one.folder / "model.safetensors").items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=2e-5, msg=name)
    assert not (tmp_path / "two" / ".training").exists()
