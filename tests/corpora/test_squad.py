"""SQuAD as published, tables of sources and targets, and what is wrong in them."""

import json
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench import WorkbenchError
from workbench.corpora.text_pairs import text_pairs

CONTEXT = "Ben  walks to the hill. Ann's dog sleeps."


def squad(path: Path, *asked: dict[str, Any], **dump: Any) -> Path:
    article = {"title": "x", "paragraphs": [{"context": CONTEXT, "qas": list(asked)}]}
    path.write_text(json.dumps({"version": "v2.0", "data": [article]}, **dump))
    return path


@pytest.mark.parametrize("indent", [None, 1])
def test_questions_with_and_without_answers(indent: int | None, tmp_path: Path) -> None:
    hill = {"text": "the hill", "answer_start": CONTEXT.index("the hill")}
    path = squad(
        tmp_path / "dev-v2.0.json",
        {"id": "a", "question": "Where?", "answers": [hill, hill, {**hill, "text": "the"}]},
        {"id": "b", "question": "Who flies?", "answers": [], "is_impossible": True,
         "plausible_answers": [hill]},
        indent=indent,
    )  # fmt: skip
    corpus = wb.read(path)
    one, other = text_pairs(corpus.docs())
    assert one.targets == ("the hill", "the") and one.question == "Where?"
    assert one.source == "Ben walks to the hill. Ann's dog sleeps."
    assert other.targets == () and other.question == "Who flies?"
    assert "answers" in corpus.layers()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"id": "a", "answers": []}, "question"),
        ({"id": "a", "question": "Who?"}, "no list 'answers'"),
        ({"id": "a", "question": "Who?", "answers": [{"text": "Ben"}]}, "answer_start"),
        (
            {"id": "a", "question": "Who?", "answers": [{"text": "x", "answer_start": 999}]},
            "within",
        ),
    ],
)
def test_what_is_wrong_says_where(asked: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match=said) as caught:
        list(wb.read(squad(tmp_path / "train.json", asked)).docs())
    assert "article 1, paragraph 1" in str(caught.value.where) and caught.value.remedy


def test_sources_and_targets(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("source\ttarget\ttask\nBen walks.\tBen walked.\tpast\n")
    (pair,) = text_pairs(wb.read(path).docs())
    assert (pair.source, pair.targets, pair.task) == ("Ben walks.", ("Ben walked.",), "past")
    rows = tmp_path / "sums.jsonl"
    story = "Ben came. He saw Ann. She sang. They slept."
    rows.write_text(json.dumps({"document": story, "summary": "A night."}) + "\n")
    (pair,) = text_pairs(wb.read(rows).docs())
    assert pair.lead == "Ben came. He saw Ann. She sang." and pair.targets == ("A night.",)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("Document,title\nx,y\n")
    with pytest.raises(WorkbenchError, match="no column 'summary'"):
        wb.read(path)
