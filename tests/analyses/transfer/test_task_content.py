"""The content of a fine-tuned model includes its task head: another head is another model."""

import shutil
from pathlib import Path

import pytest

import workbench as wb
from tests.analyses.transfer.test_trying import predictions
from tests.minis import shared
from workbench.models.references import TASK, facts
from workbench.runs.model_facts import files_hash, known


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    corpus = wb.read("primer/sentiment:size=200")
    predictions(shared("mini:bert"), corpus, folder, method="frozen")
    return folder


def test_the_content_hash_includes_the_task_head(saved: Path, tmp_path: Path) -> None:
    without, other = tmp_path / "without", tmp_path / "other"
    for copy in (without, other):
        shutil.copytree(saved, copy)
    shutil.rmtree(without / "task")
    description = other / TASK
    description.write_text(description.read_text().replace("frozen", "fine-tuned"))
    hashes = {wb.load(str(folder)).content_hash for folder in (saved, without, other)}
    assert len(hashes) == 3
    assert len({files_hash(str(folder)) for folder in (saved, without, other)}) == 3
    assert wb.load(str(without)).content_hash == shared("mini:bert").content_hash


def test_facts_name_the_kind_of_task(saved: Path) -> None:
    model = wb.load(str(saved))
    assert model.predicts.name == "sentiment" and model.classes == ("negative", "positive")
    assert facts(model)["task"] == "class" == known(str(saved)).facts["task"]
    assert known(str(saved)).hash == model.content_hash


def test_random_weights_have_no_task_head(saved: Path) -> None:
    model = wb.load(f"{saved}@random")
    assert model.task_head is None
    assert facts(model)["task"] == ""
