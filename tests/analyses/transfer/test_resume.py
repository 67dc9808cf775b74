"""A fine-tuning that is interrupted and started again ends in the same weights, byte for byte."""

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.models.gated import opened
from workbench import Corpus, Model, Result, experiments
from workbench.analyses.transfer.trainer import checkpoints
from workbench.experiment import Inputs
from workbench.models import fine_tuning

FEW: dict[str, Any] = {
    "max_train": 16, "max_dev": 6, "max_test": 6, "max_epochs": 3, "seeds": (0, 1),
    "learning_rates": (1e-3, 3e-3), "batch_size": 8, "patience": 3,
}  # fmt: skip
TIMED = ["seconds", "peak_memory"]


class KilledError(Exception):
    """Stands for a process that ends at any step."""


class Counted(Silent):
    """Counts the steps of training, and ends the process at one of them."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.steps, self.last = 0, last

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        self.steps += doing.startswith("training")
        if self.steps == self.last:
            raise KilledError


@cache
def model() -> Model:
    """Which no fine-tuning changes."""
    return opened("bert")


@cache
def corpus() -> Corpus:
    """Read once: which tasks it has is told of all its texts."""
    return wb.read("primer/sentiment:size=60")


def tuned(home: Path, progress: Silent, **settings: Any) -> Result:
    kind = experiments()["finetune"]
    scratch, keep = home / "scratch", home / "model"
    scratch.mkdir(parents=True, exist_ok=True)
    inputs = Inputs(
        (model(),), (corpus(),),
        scratch=scratch, keep=keep,
    )  # fmt: skip
    return kind.run(inputs, kind.settings(**{**FEW, **settings}), progress)


def weights_of(home: Path) -> dict[str, bytes]:
    return {
        f"{path.relative_to(home)} {name}": value.contiguous().numpy().tobytes()
        for path in sorted((home / "model").rglob("*.safetensors"))
        for name, value in load_file(path).items()
    }


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"method": "fine-tuned"}, id="fine-tuned", marks=pytest.mark.slow),
        pytest.param({"method": "gradual"}, id="gradual"),
        pytest.param({"method": "lora", "merge": False}, id="lora", marks=pytest.mark.slow),
        pytest.param({"method": "prefix"}, id="prefix", marks=pytest.mark.slow),
        pytest.param({"method": "frozen", "head": "lstm"}, id="lstm", marks=pytest.mark.slow),
        pytest.param({"head": "plain"}, id="plain", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_fine_tuning_goes_on(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fine_tuning, "SPACING", 0.0)
    whole = Counted()
    expected = tuned(tmp_path / "whole", whole, **settings)
    for step in (5, whole.steps // 2, 4):
        with pytest.raises(KilledError):
            tuned(tmp_path / "killed", Counted(step), **settings)
    last = Counted()
    found = tuned(tmp_path / "killed", last, **settings)
    assert last.steps < whole.steps / 2 + 3, "finished epochs are not repeated"
    assert weights_of(tmp_path / "killed") == weights_of(tmp_path / "whole")
    for name, table in expected.tables.items():
        again = found.tables[name].drop(columns=TIMED, errors="ignore")
        pd.testing.assert_frame_equal(again, table.drop(columns=TIMED, errors="ignore"))


def test_a_checkpoint_that_is_damaged_or_of_other_weights_is_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fine_tuning, "SPACING", 0.0)
    settings: dict[str, Any] = {"seeds": (0,), "learning_rates": (1e-3,), "max_epochs": 2}
    expected = tuned(tmp_path / "whole", Silent(), **settings)
    (file,) = checkpoints(tmp_path / "whole" / "scratch")
    other = tmp_path / "other" / "scratch" / file.name
    for content in (b"", file.read_bytes()[:-100], b"\0" * 100):
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(content)
        found = tuned(tmp_path / "other", Silent(), **settings)
        assert found.tables["predictions"].equals(expected.tables["predictions"])
    tuned(tmp_path / "bitfit", Silent(), **settings, method="bitfit")
    (of_biases,) = checkpoints(tmp_path / "bitfit" / "scratch")
    other.write_bytes(of_biases.read_bytes())
    counted = Counted()
    tuned(tmp_path / "other", counted, **settings)
    assert counted.steps == 4, "all of two epochs"


def test_short_attempts_write_no_checkpoint(tmp_path: Path) -> None:
    tuned(tmp_path, Silent(), seeds=(0,), learning_rates=(1e-3,))
    assert not checkpoints(tmp_path / "scratch")
