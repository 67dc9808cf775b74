"""What the card of a saved model says, by the files of its folder alone."""

import json
from pathlib import Path

from workbench.models.references import TASK
from workbench.runs import model_card
from workbench.runs.spec import Spec


def folder_of(place: Path, kind: str, longest: float) -> Path:
    """The files of a model that a card reads, without weights."""
    task = {"kind": kind, "name": "topic", "names": ["a", "b"], "pairs": False}
    (place / TASK).parent.mkdir(parents=True)
    (place / TASK).write_text(json.dumps({"task": task}))
    (place / "config.json").write_text("{}")
    (place / "tokenizer_config.json").write_text(json.dumps({"model_max_length": longest}))
    return place


def test_a_classifier_says_how_long_its_texts_may_be_and_how_longer_ones_are_cut(
    tmp_path: Path,
) -> None:
    model_card.write(folder_of(tmp_path / "short", "class", 64), None)
    card = (tmp_path / "short" / "README.md").read_text("utf-8")
    assert "reads at most 64 pieces" in card and "`truncation=True`" in card


def test_without_a_limit_nothing_is_said_of_longer_texts(tmp_path: Path) -> None:
    model_card.write(folder_of(tmp_path / "open", "class", 10**30), None)
    assert "at most" not in (tmp_path / "open" / "README.md").read_text("utf-8")


def test_a_card_says_how_many_texts_were_read_where_the_sample_grew(tmp_path: Path) -> None:
    spec = Spec(experiment="finetune", version=1, settings={"task": "topic", "max_train": 300})
    cards = []
    for place, sizes in (
        ("as asked", {}),
        ("grown", {"max_train": 4800}),
        ("all", {"max_train": None}),
    ):
        origin = model_card.Origin("finetune-1", spec, (), (), "1.0", sizes)
        folder = folder_of(tmp_path / place, "class", 64)
        model_card.write(folder, origin)
        cards.append((folder / "README.md").read_text("utf-8"))
    as_asked, grown, everything = cards
    assert "trained on up to 300 texts" in as_asked and "trained on up to 4,800 texts" in grown
    assert "trained on all texts" in everything and "300" not in grown + everything
