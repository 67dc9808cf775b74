"""Folders of ELMo and of vectors are named, told apart and run as every other model."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.models import bilms
from workbench import load
from workbench.models.word_models import Vectors
from workbench.runs import launch
from workbench.runs.execute import open_inputs
from workbench.runs.model_facts import known
from workbench.runs.request import make_request
from workbench.runs.subruns import in_process

WORDS = "Dogs bark . the".split()


@pytest.fixture
def elmo(tmp_path: Path) -> Path:
    bilms.saved(tmp_path / "mine", WORDS)
    return tmp_path / "mine"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    Vectors(WORDS, torch.ones(4, 3)).save(tmp_path / "table")
    return tmp_path / "table"


def test_they_are_used_in_fp32_with_their_absolute_path(
    elmo: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elmo.parent)
    for folder in (elmo, vectors):
        for end in ("", "@random"):
            question = make_request("profile", [f"{folder.name}{end}"], precision="bf16")
            (model,) = question.spec.models
            assert model.ref == f"{folder}{end}" and model.name == f"{folder.name}{end}"
            assert model.precision == "fp32"
            assert model.hash == load(f"{folder}{end}", "cpu").content_hash


def test_what_is_known_follows_softmax_and_words(elmo: Path) -> None:
    def told() -> str:
        found = known(str(elmo))
        assert found.hash == load(elmo, "cpu").content_hash
        assert known(str(elmo)).hash == found.hash, "kept"
        return found.hash

    hashes = [told()]
    bilms.edited(elmo, bias=torch.ones(7))
    hashes.append(told())
    (elmo / "vocab.txt").write_text((elmo / "vocab.txt").read_text().replace("bark", "bite"))
    hashes.append(told())
    assert len(set(hashes)) == 3
    own = [known(f"{elmo}@random", seed).hash for seed in (0, 1)]
    assert len({*hashes, *own}) == 5


def test_the_same_folder_elsewhere_is_the_same_run(elmo: Path, tmp_path: Path) -> None:
    other = shutil.copytree(elmo, tmp_path / "other" / "mine")
    names = {make_request("profile", [folder]).spec.name for folder in (elmo, other)}
    assert len(names) == 1


def test_a_run_opens_it_by_its_folder_and_measures_it(
    elmo: Path, tmp_path: Path, undrawn: None
) -> None:
    (tmp_path / "text.txt").write_text("Dogs bark.\nThe dogs bark.\n")
    asked = make_request("profile", [elmo], [tmp_path / "text.txt"]).spec
    found = launch.start(asked, compute=in_process(open_inputs))
    losses = found.tables["losses"].set_index("metric")["value"]
    assert losses["bidirectional_perplexity"] > 1
