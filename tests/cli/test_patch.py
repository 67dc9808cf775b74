"""`workbench patch` at a shell."""

import json

import pytest

import workbench as wb
from tests.cli.conftest import Command

PAIR = ("The girls ___ tall.", "The girl ___ tall.")


def test_the_effects_are_printed_and_are_in_the_json(workbench: Command) -> None:
    answer = workbench("patch", "--model", "mini:bert", *PAIR, "--what", "heads")
    found = wb.patch(wb.load("mini:bert", device="cpu"), *PAIR, what="heads")
    assert (answer.code, answer.out.strip()) == (0, repr(found))
    data = json.loads(workbench("patch", "--model", "mini:bert", *PAIR, "--json").out)
    assert (data["target"], data["against"], data["what"]) == ("were", "was", "states")
    assert len(data["rows"]) == 5 * 7
    named = ("--target", "were", "--against", "is", "--by", "all", "--json")
    data = json.loads(workbench("patch", "--model", "mini:bert", *PAIR, *named).out)
    assert data["against"] == "is" and len(data["rows"]) == 5


def test_gaps_are_null_and_their_note_is_elsewhere(workbench: Command) -> None:
    texts = ("The old girls were tall.", "The girl was tall.", "--word", "were")
    answer = workbench("patch", "--model", "mini:elmo", *texts, "--json")
    rows = json.loads(answer.out)["rows"]
    assert {row["effect"] for row in rows if row["clean"] == "old"} == {None}
    plain = workbench("patch", "--model", "mini:elmo", *texts)
    assert "aligned" in plain.err and "Note" not in plain.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("mini:bert", PAIR[0], PAIR[0]), "texts-not-different"),
        (("mini:bert", PAIR[0], "Ben walks."), "marker-missing"),
        (("mini:elmo", *PAIR, "--what", "heads"), "model-unsupported"),
        (("mini:bert", *PAIR, "--what", "neurons"), "'--what': 'neurons' is not one of"),
        (("mini:gpt", "The unbelievable", "The old girls"), "texts-not-aligned"),
    ],
)
def test_mistakes_end_with_a_code_and_a_remedy(
    workbench: Command, arguments: tuple[str, ...], code: str
) -> None:
    answer = workbench("patch", "--model", *arguments)
    assert answer.code == 2
    assert code in answer.err
    assert answer.out == ""
