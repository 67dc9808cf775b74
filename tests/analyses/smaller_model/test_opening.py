"""The code of a card is run in a new process, and what it prints is compared."""

import shutil
from pathlib import Path

import pytest

import workbench as wb
from tests.analyses.smaller_model.test_recipe import classifier
from workbench.analyses.smaller_model.opening import opened

TEXTS = ["The dog sees Mary .", "word " * 500, "Ben has an old boat today ."]


@pytest.mark.slow
def test_a_folder_is_opened_by_its_code(tmp_path: Path) -> None:
    model = classifier("bert", "BertForSequenceClassification")
    docs = list(wb.read(TEXTS[:1] + TEXTS[2:]).docs())
    model.save(tmp_path / "own")
    row = opened(tmp_path / "own", model, docs)
    assert row["works"] and row["difference"] < 1e-5 and row["opened_by"] == "transformers"
    other = classifier("bert", "BertForSequenceClassification").reinitialised(1)
    assert not opened(tmp_path / "own", other, docs)["works"]  # other weights, other logits
    shutil.rmtree(tmp_path / "own")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text("{}")
    broken = opened(tmp_path / "own", model, docs)
    assert not broken["works"] and broken["error"]


def test_the_shortest_texts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are longer than the model's maximum are cut by no plain tokenizer."""
    model = classifier("bert", "BertForSequenceClassification")
    model.save(tmp_path)
    seen = []

    def run(*arguments: object, **options: object) -> object:
        seen.append(options["input"])
        raise RuntimeError

    monkeypatch.setattr("subprocess.run", run)
    docs = list(wb.read([*TEXTS, *(f"Text {n} ." for n in range(3))]).docs())
    with pytest.raises(RuntimeError):
        opened(tmp_path, model, docs)
    assert "word" not in seen[0] and "Text 1" in seen[0]
