"""Every family's training with products in bf16, as on a GPU: its steps are those of float32."""

from pathlib import Path

import pytest
import torch

from tests.analyses.training.lessons import lesson, settings
from tests.night import mostly
from workbench.analyses.training import train as training
from workbench.analyses.training import trainer
from workbench.analyses.training.families import FAMILIES


def losses(name: str, folder: Path, home: Path, teacher: Path | None) -> list[float]:
    """Of four steps, at each."""
    how = settings(4, batch_size=4, points=4, evaluations=1)
    rows = training.train(name, lesson(60), folder, how, home=home, teacher=teacher).rows
    return [row.loss for row in rows]


@pytest.mark.parametrize("name", mostly(FAMILIES, "bert"))
def test_a_family_learns_under_autocast_what_it_learns_in_float32(
    name: str, tmp_path: Path, tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tmp_path / "teacher" if name == "distilbert" else None
    if teacher is not None:
        training.train("bert", lesson(60), teacher, settings(2), home=tokens)
    exact = losses(name, tmp_path / "exact", tokens, teacher)
    entered = []

    def halved(device: torch.device) -> torch.autocast:
        entered.append(device)
        return torch.autocast("cpu", dtype=torch.bfloat16)

    monkeypatch.setattr(trainer, "autocast", halved)
    half = losses(name, tmp_path / "half", tokens, teacher)
    assert entered
    assert exact[-1] != half[-1], "products are in bf16"
    assert half == pytest.approx(exact, rel=0.02)
