"""`workbench neighbours` at a shell."""

import json

import pytest

import workbench as wb
from tests.cli.conftest import Command

TEXT = "Ben walks to the hill."
SEARCH = ("neighbours", "--model", "mini:bert", "--corpus", "primer:size=40")


def test_neighbours_are_printed_and_are_in_the_json(workbench: Command) -> None:
    answer = workbench(*SEARCH, TEXT, "hill", "--k", "2", "--split", "train")
    assert answer.code == 0
    model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=40")
    found = wb.neighbours(model, corpus, TEXT, "hill", k=2, split="train")
    assert answer.out.strip() == repr(found)
    options = ("--k", "1", "--layer", "embeddings", "--layer", "4", "--distinct", "--json")
    data = json.loads(workbench(*SEARCH, TEXT, "4", *options).out)
    assert [row["layer"] for row in data["neighbours"]] == [0, 4]
    assert data["word"] == "hill" and data["neighbours"][0]["rank"] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((TEXT, "zebra"), "word-unknown"),
        (("", "a"), "text-empty"),
        ((TEXT, "hill", "--layer", "9"), "layer-missing"),
        ((TEXT, "hill", "--split", "no"), "split-not-found"),
        ((TEXT, "hill", "--seed", "-1"), "seed-invalid"),
        ((TEXT, "hill", "--same-word", "x"), "'--same-word': 'x' is not one of"),
        ((TEXT, "hill", "--stack", "decoder"), "setting-invalid"),
        ((TEXT, "hill", "--same-word", "form", "--distinct"), "setting-invalid"),
    ],
)
def test_mistakes_end_with_a_code_and_a_remedy(
    workbench: Command, arguments: tuple[str, ...], code: str
) -> None:
    answer = workbench(*SEARCH, *arguments)
    assert answer.code == 2
    assert code in answer.err and "Traceback" not in answer.err
    assert answer.out == ""
