"""What the commands print: long tables cut, nothing taken for markup, progress out of the way."""

from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from rich.text import Text

from tests.night import mostly
from workbench.cli import output


def test_text_is_left_and_numbers_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(
        "Title", ("word", "count", "share"), [("a", 1, "100%"), ("bcdefg", 1234, "9%")]
    )
    assert capsys.readouterr().out.splitlines() == [
        "Title",
        "word    count  share",
        "a           1   100%",
        "bcdefg  1,234     9%",
        "",
    ]


def test_a_header_is_broken_at_underscores_and_not_in_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "out", Console(highlight=False, soft_wrap=True, width=24))
    columns = ("head", "entropy_lower", "entropy_upper")
    output.print_table("", columns, [(7, 0.5, 0.75)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == [["entropy_", "entropy_"], ["head", "lower", "upper"]]
    assert output.columns_that_fit(columns, [(7, 0.5, 0.75)]) == 3


def test_brackets_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table("Layer [red]", ("", ""), [("[bold]x[/bold]", "[/]")])
    assert capsys.readouterr().out.splitlines() == ["Layer [red]", "[bold]x[/bold]  [/]", ""]


@pytest.mark.parametrize("cell", [np.array(["a", "b"]), np.array([["a", "b"]]), ["a", "b"]])
def test_a_cell_that_is_a_list_is_printed(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"n": [1, 2], "words": [cell, None]})
    output._table("lists", table, 8)
    assert "['a', 'b']" in capsys.readouterr().out


def test_a_significant_p_value_is_not_rounded_to_the_level(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = [0.046875, 0.04996, 0.0512, 0.05, 0.25, 0.0005, float("nan")]
    output._table("tests", pd.DataFrame({"p": values, "share": 0.046875}), 8)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:9]]
    assert [row[0] for row in rows[:6]] == ["0.047", "0.04996", "0.051", "0.05", "0.25", "5.0e-04"]
    assert rows[0][1] == "0.05"


def test_long_counts_are_cut_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    output._counts("Words", {f"w{n:02}": 30 - n for n in range(30)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Words (the first 12 of 30)"
    assert [line.split() for line in lines[2:-1]] == [[f"w{n:02}", str(30 - n)] for n in range(12)]


def test_progress_and_notes_leave_standard_output_clean(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("Docs") as done:
        assert list(output.counted("abc", done)) == ["a", "b", "c"]
    output.note("no pipeline [yet].")
    assert tuple(capsys.readouterr()) == ("", "note: no pipeline [yet].\n")


WORDS = (
    *("a", "describe-ff448dbe27c5ae0d", "2026-12-28 23:00", "12", "3.5 %", "", "[b]"),
    *("两个词 字", "e\u0301te\u0301", "x" * 45, "two words", "a, b, c, d, e, f, g, h"),
    *("x\ty", "a\nb", "\x1b[31m"),
)


@pytest.mark.parametrize("seed", mostly(range(120), *range(25)))
def test_a_table_is_as_rich_draws_it(
    seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = Random(seed)
    console = Console(highlight=False, soft_wrap=True, width=draw.choice([60, 80, 120, 200]))
    monkeypatch.setattr(output, "out", console)
    columns = ("run", "status", "models", "corpora", "asked (UTC)", "took")[: draw.randint(1, 6)]
    count = draw.choice([0, 1, 4, 12])
    rows = [[draw.choice(WORDS) for _ in columns] for _ in range(count)]
    drawn = output._columns(columns, rows)
    drawn.title, drawn.title_justify = "Runs", "left"
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    with console.capture() as capture:
        console.print(drawn)
    expected = [line.rstrip() for line in capture.get().splitlines()]
    output.print_table("Runs", columns, rows)
    assert capsys.readouterr().out.split("\n")[:-2] == expected
