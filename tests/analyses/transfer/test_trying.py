"""Trying a text: a kept model thinks of it what the run that kept it said."""

from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from spacy.tokens import Doc

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.analyses.transfer.conftest import VOCAB, of_words, parted
from tests.models.gated import opened
from workbench import Corpus, Model, WorkbenchError, experiments
from workbench.corpora.text_prediction import TextPrediction, pair_of, predict_text
from workbench.experiment import Inputs
from workbench.models.word_models import WordModel

BY_DAY = ("entities", "questions")  # tags, and spans of a second text
KINDS = ("sentiment", "entailment", "relatedness", "questions", "entities", "pos")


@cache
def bert() -> Model:
    """Which no fine-tuning changes."""
    return opened("bert")


def predictions(
    model: Model, corpus: Corpus, keep: Path | None, **settings: object
) -> pd.DataFrame:
    """What a small run said of each text, which leaves its model."""
    kind = experiments()["finetune"]
    small = {
        "max_train": 24,
        "max_dev": 10,
        "max_test": 10,
        "seeds": [0],
        "learning_rates": [1e-3],
        "ridge_strengths": [10.0],
        "max_epochs": 1,
    }
    inputs = Inputs((model,), (corpus,), "test", limit=10, keep=keep)
    return kind.run(inputs, kind.settings(**{**small, **settings}), Silent()).tables["predictions"]


def tried(folder: Path, doc: Doc) -> TextPrediction:
    return predict_text(wb.load(str(folder)), doc)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *(
            pytest.param(name, "frozen", marks=() if name in BY_DAY else pytest.mark.slow)
            for name in KINDS
        ),
        pytest.param("entailment", "fine-tuned", marks=pytest.mark.slow),
    ],
)
def test_a_text_is_thought_of_as_in_the_run(name: str, method: str, tmp_path: Path) -> None:
    of_words = name in ("entities", "pos")
    corpus = wb.read(f"primer{'' if of_words else f'/{name}'}:size=60")
    task = {"task": name} if of_words else {}
    said = predictions(bert(), corpus, tmp_path, method=method, **task)
    model = wb.load(str(tmp_path))
    for doc, row in zip(corpus.docs("test", 10), said.itertuples(), strict=True):
        assert doc.text == row.said
        found = predict_text(model, doc)
        assert found.guess == row.guess
        assert not found.cut or name == "questions", "whose texts are long"
        if found.classes:
            assert found.classes[0][0] == row.guess
            assert sum(share for _, share in found.classes) == pytest.approx(1)
        if of_words:
            assert [word for word, _, _ in found.words] == [word.text for word in doc]
            assert all(0 < share <= 1 for _, _, share in found.words)
        assert (found.answer is not None) == (name == "questions")
    kinds = {"entailment": "class", "questions": "answers", "pos": "tags"}
    assert name not in kinds or model.predicts.kind == kinds[name]


def test_two_texts_that_are_typed_are_the_pair_of_a_corpus(tmp_path: Path) -> None:
    corpus = wb.read("primer/entailment:size=60")
    said = predictions(bert(), corpus, tmp_path)
    doc = next(iter(corpus.docs("test", 1)))
    one, two = (part.as_doc() for part in doc.spans["segments"])
    assert tried(tmp_path, pair_of(one, two)).guess == said["guess"][0]
    with pytest.raises(WorkbenchError, match="two texts"):
        tried(tmp_path, one)


def test_a_text_with_no_word_that_is_known_is_answered(vectors: WordModel, tmp_path: Path) -> None:
    predictions(vectors, parted(of_words), tmp_path, head="lstm")
    found = tried(tmp_path, Doc(VOCAB, ["nothing", "known"]))
    assert {name for name, _ in found.classes} == {"good", "bad"}


def test_a_text_that_is_too_long_is_told(tmp_path: Path) -> None:
    predictions(bert(), wb.read("primer/sentiment:size=60"), tmp_path)
    assert tried(tmp_path, Doc(VOCAB, ["good"] * 3000)).cut


def test_a_model_without_a_head_is_told() -> None:
    with pytest.raises(WorkbenchError, match="task-head-missing"):
        predict_text(bert(), Doc(VOCAB, ["good"]))
