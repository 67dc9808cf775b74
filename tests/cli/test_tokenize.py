"""`workbench tokenize` at a shell."""

import json

import pytest

import workbench as wb
from tests.cli.conftest import Command

MODELS = ("--model", "mini:bert", "--model", "mini:elmo")


def test_models_stand_next_to_each_other_and_notes_elsewhere(workbench: Command) -> None:
    answer = workbench("tokenize", "Ben unlocks it.", *MODELS)
    assert answer.code == 0
    found = wb.tokenizations("Ben unlocks it.", "mini:bert", "mini:elmo")
    assert answer.out.strip() == repr(found).split("\n  Note")[0]
    assert "un ##l ##o ##cks" in answer.out and "Note" not in answer.out
    assert "do not say whether a space" in answer.err


def test_steps_are_shown_of_one_word_or_of_all(workbench: Command) -> None:
    one = workbench("tokenize", "Ben unlocks it.", "--model", "mini:gpt", "--word", "unlocks")
    assert "merge 76" in one.out and one.out.count("→") == 1
    every = workbench("tokenize", "Ben unlocks it.", "--model", "mini:gpt", "--steps")
    assert every.out.count("→") == 4


def test_the_json_has_pieces_losses_and_steps(workbench: Command) -> None:
    answer = workbench("tokenize", "Ben ☃", *MODELS, "--steps", "--json")
    data = json.loads(answer.out)
    bert, elmo = data["tokenizations"]
    assert bert["losses"][0]["kind"] == "unknown" and bert["n_unknown"] == 1
    assert [piece["piece"] for piece in elmo["pieces"]] == ["Ben", "☃"]
    assert [each["algorithm"] for each in data["steps"]] == ["WordPiece", "characters"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("Ben", "--model", "no-such-model"), "hf download"),
        (("Ben", "--model", "mini:bert", "--word", "Anna"), "word-unknown"),
        (("Ben", "--model", "mini:bert", "--word", "7"), "word-unknown"),
        (("the man saw the dog", "--model", "mini:gpt", "--word", "the"), "index: 0, 3"),
        (("", "--model", "mini:gpt"), "text-empty"),
    ],
)
def test_mistakes_end_with_a_code_and_a_remedy(
    workbench: Command, arguments: tuple[str, ...], code: str
) -> None:
    answer = workbench("tokenize", *arguments)
    assert answer.code == 2 and code in answer.err and answer.out == ""
