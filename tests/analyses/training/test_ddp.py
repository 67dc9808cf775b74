"""Two processes learn what one does with the same batch, and end with the same weights."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests import warm
from tests.analyses.training.lessons import lesson, settings
from workbench.analyses.training.train import train

PROGRAM = """
import hashlib, os, sys
from pathlib import Path
from tests import warm
from tests.analyses.training.lessons import lesson, settings
from workbench.analyses.training import train as training
out = Path(sys.argv[1])
fit = training.fit
def watched(net, *rest, **more):
    rows = fit(net, *rest, **more)
    bytes_of = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    (out / f"rank-{os.environ['RANK']}").write_text(hashlib.sha256(bytes_of).hexdigest())
    return rows
training.fit = watched
own = settings(6, micro_batch_size=4, evaluations=1)
training.train("bert", lesson(), out / "two", own, home=out / "tokens", device="cpu")
"""


def two_processes(*command: str, **environment: str) -> str:
    """What `torchrun` starts twice; its standard output."""
    twice = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    twice += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    more = {"PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*twice, *command],
        env={**os.environ, **more, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_two_processes_are_one_with_twice_the_batch(tmp_path: Path) -> None:
    """Told what `torchrun` tells each."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        world = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    world |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    with (tmp_path / "printed").open("w+") as printed:
        both = [
            warm.start(
                *("-c", PROGRAM, str(tmp_path)),
                output=printed.fileno(),
                **world,
                RANK=rank,
                LOCAL_RANK=rank,
            )
            for rank in "01"
        ]
        for process in both:
            process.join()
    assert [each.exitcode for each in both] == [0, 0], (tmp_path / "printed").read_text()
    ranks = [(tmp_path / f"rank-{rank}").read_text() for rank in range(2)]
    assert ranks[0] == ranks[1]
    own = settings(6, micro_batch_size=4, evaluations=1)
    one = train("bert", lesson(), tmp_path / "one", own, home=tmp_path / "tokens", device="cpu")
    two = load_file(tmp_path / "two" / "model.safetensors")
    for name, tensor in load_file(one.folder / "model.safetensors").items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=2e-5, msg=name)
    assert not (tmp_path / "two" / ".training").exists()


@pytest.mark.slow
def test_the_command_is_the_same_with_torchrun_before_it(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(lesson()) + "\n")
    train_gpt = "train gpt --corpus text.txt --device cpu --steps 12 --batch-size 16 --size tiny"
    command = [*train_gpt.replace("text.txt", str(tmp_path / "text.txt")).split(), "--json"]
    command += ["--sequence-length", "32"]
    models = {}
    for name in ("one", "two"):
        environment = {"WORKBENCH_HOME": str(tmp_path), "WORKBENCH_RUNS": str(tmp_path / name)}
        if name == "two":
            said = two_processes("-m", "workbench", *command, **environment)
            again = two_processes("-m", "workbench", *command, **environment)
            assert json.loads(again)["run"] == json.loads(said)["run"]
        else:
            alone = [sys.executable, "-m", "workbench", *command]
            more = {"PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"}
            said = subprocess.check_output(alone, env={**os.environ, **more, **environment})
        assert json.loads(said)["status"] == "done"
        models[name] = load_file(Path(json.loads(said)["path"]) / "model" / "model.safetensors")
    for name, tensor in models["one"].items():
        torch.testing.assert_close(models["two"][name], tensor, rtol=0, atol=2e-5, msg=name)
