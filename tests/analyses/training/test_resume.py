"""A run that is killed and called again ends in the same weights, byte for byte."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests import warm
from tests.analyses.training.lessons import Told, lesson, settings
from workbench import WorkbenchError
from workbench.analyses.training.curves import read_curves
from workbench.analyses.training.train import RECIPE, SCRATCH, train
from workbench.analyses.training.trainer import NAME

STEPS = 20
KILLED = """
import sys, time
from pathlib import Path
from tests import warm
from tests.analyses.training.lessons import Told, lesson, settings
from workbench.analyses.training.train import train
class Halted(Told):
    def __call__(self, done, total=None, doing=""):
        if total == int(sys.argv[2]) and done > 12:
            time.sleep(600)  # it is not over before it is killed
out = Path(sys.argv[1])
own = settings(int(sys.argv[2]), checkpoint_steps=7, dropout=0.1)
train("bert", lesson(100), out / "model", own, Halted(), home=out / "tokens")
"""


def weights(folder: Path) -> bytes:
    (file,) = folder.glob("*.safetensors")
    return file.read_bytes()


def test_killed_and_resumed_is_left_alone(tmp_path: Path) -> None:
    alone = train(
        "bert",
        lesson(100),
        tmp_path / "alone",
        settings(STEPS, dropout=0.1),
        home=tmp_path / "tokens",
    )
    with Path(os.devnull).open("w") as nothing:
        process = warm.start("-c", KILLED, str(tmp_path), str(STEPS), output=nothing.fileno())
    checkpoint = tmp_path / "model" / SCRATCH / NAME
    while not checkpoint.is_file():
        assert process.is_alive()
        time.sleep(0.002)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (tmp_path / "model" / RECIPE).exists()
    told = Told()
    again = train(
        "bert",
        lesson(100),
        tmp_path / "model",
        settings(STEPS, checkpoint_steps=11, dropout=0.1),
        told,
        home=tmp_path / "tokens",
    )
    assert told.logs[0].startswith("Continuing from step ")
    assert weights(again.folder) == weights(alone.folder)
    assert [(r.step, r.tokens, r.loss, r.held_out) for r in again.rows] == [
        (r.step, r.tokens, r.loss, r.held_out) for r in alone.rows
    ]
    assert not (tmp_path / "model" / SCRATCH).exists()


class Ended(Told):
    """Progress that ends a run of twelve steps after its eighth."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        super().__call__(done, total, doing)
        if total == 12 and done > 8:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("family", "objective"),
    [
        ("spanbert", "masked-spans"),  # a head of its own
        ("vectors", "cbow-tree"),  # rows of words
        *(
            pytest.param(family, objective, marks=pytest.mark.slow)
            for family, objective in (
                ("xlnet", "permuted"),
                ("unilm", "unilm"),
                ("longformer", "masked"),
                ("prefix-lm", "prefix-lm"),
                ("albert", "masked-order"),
            )
        ),
    ],
)
def test_every_kind_of_head_and_row_is_resumed(family: str, objective: str, tmp_path: Path) -> None:
    """Ended between two checkpoints, whatever the model has beside what is saved of it."""
    own = settings(
        12,
        objective=objective,
        checkpoint_steps=4,
        points=12,
        dropout=0.1,
        batch_size=4,
        micro_batch_size=2,
    )
    home = tmp_path / "tokens"
    alone = train(family, lesson(100), tmp_path / "alone", own, home=home)
    with pytest.raises(KeyboardInterrupt):
        train(family, lesson(100), tmp_path / "ended", own, Ended(), home=home)
    told = Told()
    again = train(family, lesson(100), tmp_path / "ended", own, told, home=home)
    assert told.logs[0] == "Continuing from step 8."
    assert weights(again.folder) == weights(alone.folder)


def test_the_same_call_twice_trains_once_and_another_is_refused(tmp_path: Path) -> None:
    def call(steps: int) -> Told:
        told = Told()
        train("gpt", lesson(100), tmp_path / "m", settings(steps), told, home=tmp_path / "tokens")
        return told

    call(5)
    before = (tmp_path / "m" / "model.safetensors").stat().st_mtime_ns
    assert "already trained" in call(5).logs[0]
    assert (tmp_path / "m" / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(WorkbenchError, match="folder-not-empty"):
        call(6)


def test_a_checkpoint_of_other_settings_is_not_gone_on_from(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.analyses.training.train.save_trained", _fail)
        with pytest.raises(RuntimeError):
            train("gpt", lesson(100), tmp_path / "m", settings(5), home=tmp_path / "tokens")
    with pytest.raises(WorkbenchError, match="folder-not-empty"):
        train("gpt", lesson(100), tmp_path / "m", settings(6), home=tmp_path / "tokens")
    train("gpt", lesson(100), tmp_path / "m", settings(5), home=tmp_path / "tokens")
    assert read_curves(tmp_path / "m" / "curves.csv")[-1].step == 5


def test_a_damaged_checkpoint_says_so(tmp_path: Path) -> None:
    scratch = tmp_path / "m" / SCRATCH
    scratch.mkdir(parents=True)
    (scratch / NAME).write_bytes(b"\x00" * 100)
    with pytest.raises(WorkbenchError, match="cannot be read as a checkpoint"):
        train("gpt", lesson(100), tmp_path / "m", settings(5), home=tmp_path / "tokens")


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((3, 3, 4)):
        out = tmp_path / str(number)
        train("t5", lesson(100), out, settings(3, seed=seed), home=tmp_path / "tokens")
        found.append(weights(out))
        assert json.loads((out / RECIPE).read_text())["settings"]["plan"]["seed"] == seed
    assert found[0] == found[1] != found[2]


def _fail(*anything: object) -> None:
    raise RuntimeError("killed while it was saving")
