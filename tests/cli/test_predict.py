"""`workbench predict` at a shell."""

import json

import pytest
import torch

import workbench as wb
from tests.cli.conftest import Command

PREDICT = ("predict", "--model")


def test_a_hidden_word_is_printed_and_is_in_the_json(workbench: Command) -> None:
    text = "Ben [MASK] to the hill."
    answer = workbench(*PREDICT, "mini:bert", text, "--top", "2")
    assert answer.code == 0
    filled = wb.fill(wb.load("mini:bert", device="cpu"), text, top=2)
    assert answer.out.strip() == repr(filled)
    (data,) = json.loads(workbench(*PREDICT, "mini:bert", text, "--json").out)["predictions"]
    assert data["model"] == "mini:bert"
    assert data["rows"][0]["choice"] == filled.first.text
    assert len(data["rows"]) == 5


def test_written_text_appears_piece_by_piece(workbench: Command) -> None:
    answer = workbench(*PREDICT, "mini:gpt", "Ben walks", "--max-pieces", "3")
    written = wb.generate(wb.load("mini:gpt", device="cpu"), "Ben walks", 3).written
    assert answer.out.startswith(f"Ben walks{written}\n")
    arguments = ("Ben walks", "--max-pieces", "3", "--json")
    (data,) = json.loads(workbench(*PREDICT, "mini:gpt", *arguments).out)["predictions"]
    assert data["written"] == written
    assert [row["step"] for row in data["rows"]] == [1, 2, 3]


def test_two_models_stand_next_to_each_other(workbench: Command) -> None:
    models = ("mini:bert", "--model", "mini:elmo")
    answer = workbench(*PREDICT, *models, "Ben walks to the hill.", "--hide", "hill")
    assert answer.code == 0
    assert " │ " in answer.out
    data = json.loads(workbench(*PREDICT, *models, "a ___", "--json").out)["predictions"]
    assert [each["model"] for each in data] == ["mini:bert", "mini:elmo"]
    hidden = workbench(*PREDICT, "mini:bert", "Ben walks.", "--hide", "1", "--json")
    assert json.loads(hidden.out)["predictions"][0]["hidden"][0]["rank"] >= 1


def test_a_question_is_answered_and_its_note_is_elsewhere(workbench: Command) -> None:
    arguments = ("Ben walks.", "--question", "Who walks?", "--max-pieces", "4")
    answer = workbench(*PREDICT, "mini:t5", *arguments)
    assert answer.code == 0
    assert "question: Who walks? context: Ben walks." in answer.out
    assert "trained for this task" in answer.err
    assert "Note" not in answer.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mini:bert", "Ben walks."), "marker-missing"),
        (("mini:bert", ""), "text-empty"),
        (("mini:bert", "a ___", "--hide", "b"), "word-unknown"),
        (("mini:gpt", "a", "--second", "b"), "model-unsupported"),
        (("no-such-model", "a"), "hf download"),
    ],
)
def test_mistakes_end_with_a_code_and_a_remedy(
    workbench: Command, arguments: tuple[str, ...], code: str
) -> None:
    answer = workbench(*PREDICT, *arguments)
    assert answer.code == 2
    assert code in answer.err
    assert answer.out == ""


def test_an_edited_model_predicts_the_same_as_in_python(workbench: Command) -> None:
    ref, text = "mini:bert@edit:2.1=2,3.2=0", "Ben [MASK] to the hill."
    model = wb.load("mini:bert", device="cpu").edited("3.2=0,2.1=2")
    (data,) = json.loads(workbench(*PREDICT, ref, text, "--json").out)["predictions"]
    rows = wb.fill(model, text).table
    assert data["model"] == model.name == ref
    assert [row["probability"] for row in data["rows"]] == rows["probability"].tolist()
    answer = workbench(*PREDICT, "mini:bert@edit:3.9=0", text)
    assert answer.code == 2 and "3.4" in answer.err


@pytest.mark.slow  # by day `tests/composition/test_edits.py`
def test_a_direction_of_a_run_steers_the_same_as_in_python(workbench: Command) -> None:
    ref = "mini:gpt@edit:3.steering-mini-gpt=-2"
    (data,) = json.loads(workbench(*PREDICT, ref, "The girl", "--json").out)["predictions"]
    vector = torch.from_numpy(wb.open_run("built-in/steering-mini-gpt").arrays["directions"][0, 3])
    model = wb.Write("block 3", plus=-2 * vector).into(wb.load("mini:gpt", device="cpu"))
    rows = wb.predict(model, "The girl").table
    assert [row["probability"] for row in data["rows"]] == rows["probability"].tolist()
    answer = workbench(*PREDICT, "mini:gpt@edit:3.steering-nowhere=2", "The girl")
    assert answer.code == 2 and "run-not-found" in answer.err and "runs list" in answer.err
