"""A report as Markdown: tables that hold together, and pictures beside it or why there are none."""

import re
from pathlib import Path

import pytest

from tests.report.making import (
    CONTROLS,
    HOSTILE,
    bars,
    described,
    found,
    made,
    words_and_sizes,
)
from workbench.experiment import Caveat
from workbench.report import drawn, write_report


@pytest.fixture(autouse=True)
def with_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "picture", lambda plain, kind, **look: kind.encode())


def markdown(*runs: object, to: Path) -> str:
    return write_report(list(runs), to / "report.md").read_text(encoding="utf-8")  # type: ignore[arg-type]


def cells(line: str) -> list[str]:
    """The cells of a row, parted where a bar is not escaped."""
    return re.split(r"(?<!\\)\|", line)[1:-1]


def test_every_row_of_a_table_has_as_many_cells_whatever_they_hold(tmp_path: Path) -> None:
    hostile = [*HOSTILE.values(), CONTROLS]
    run = made(tmp_path, tables=words_and_sizes(hostile), caveats=[Caveat(t) for t in hostile])
    text = markdown(run, to=tmp_path)
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        assert len({len(cells(line)) for line in table.split("\n")}) == 1
    assert tables[1].count("\n") == 1 + len(hostile)


def test_hostile_text_is_no_markup(tmp_path: Path) -> None:
    hostile = [*HOSTILE.values(), CONTROLS]
    run = made(tmp_path, tables=words_and_sizes(hostile), caveats=[Caveat(t) for t in hostile])
    text = markdown(run, to=tmp_path)
    assert not re.search(r"<(?!br>)", text)
    assert "{{" not in text and "${" not in text
    assert r"\`" in text and r"\|" in text and "one<br>two" in text
    assert "⟨U+0000⟩" in text and "\u2068שלום" in text


def test_pictures_lie_beside_it_under_names_that_links_can_have(tmp_path: Path) -> None:
    run = made(tmp_path, figures={"words": bars(["a"])})
    write_report([run], tmp_path / "my (own) report.md")
    text = (tmp_path / "my (own) report.md").read_text()
    (place,) = re.findall(r"!\[Figure words\]\((.*)\)", text)
    assert place == "my-own-report_files/run-1-words.svg"
    assert (tmp_path / place).read_bytes() == b"svg"


def test_it_says_what_the_page_says(tmp_path: Path) -> None:
    before = made(tmp_path, findings=[found("Few heads.", "undecided"), found("Many heads.")])
    after = made(tmp_path, tables=words_and_sizes(more=-4), seed=1)
    text = markdown(before, after, described(tmp_path), to=tmp_path)
    for said in (
        "# 3 runs of primer", "## Summary",
        "Few heads. **(undecided)** Would decide it: more words.",
        "## Comparison of 2 runs of counts", "| B − A docs |", "| −4 |",
        "content hash: hash-of-primer", "### Key numbers", "| Many | 100 | 90 to 110 | – | 50 |",
        "- Only the first 100 Docs were counted. (sizes)", "- Two Docs were empty.",
        "### Reproduce", "workbench run counts", "How often each `word`", "![Figure relations]",
    ):  # fmt: skip
        assert said in text, said


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    run = described(tmp_path)
    assert markdown(run, to=tmp_path) == markdown(run, to=tmp_path / "again")
