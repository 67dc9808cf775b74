"""The objective that CONTRIBUTING.md shows: one file, by which a family is trained."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.analyses.training.lessons import lesson, settings
from tests.examples import ROOT, add_files
from workbench import WorkbenchError
from workbench.analyses.training import objectives
from workbench.analyses.training.experiments import Training
from workbench.analyses.training.train import train


@pytest.fixture
def with_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    add_files(ROOT / "CONTRIBUTING.md", objectives, tmp_path, monkeypatch)
    objectives.known.cache_clear()
    yield
    objectives.known.cache_clear()


def test_an_objective_is_one_file(with_objective: None, tmp_path: Path) -> None:
    Training(family="bert", objective="every-other")
    (tmp_path / "text").write_text("\n".join(lesson(60)))
    trained = train(
        "bert", tmp_path / "text", tmp_path / "out", settings(20, objective="every-other")
    )
    losses = [row.loss for row in trained.rows if row.loss is not None]
    assert losses[-1] < losses[0]
    with pytest.raises(WorkbenchError, match="gpt cannot be trained with"):
        train("gpt", tmp_path / "text", tmp_path / "no", settings(1, objective="every-other"))


def test_the_added_objective_is_gone() -> None:
    assert "every-other" not in objectives.known()
