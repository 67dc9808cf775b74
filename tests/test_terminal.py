"""What the commands print: long tables cut, nothing taken for markup, progress out of the way."""

import pytest

from workbench import terminal


def test_text_is_left_and_numbers_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.table("Title", ("word", "count", "share"), [("a", 1, "100%"), ("bcdefg", 1234, "9%")])
    assert capsys.readouterr().out.splitlines() == [
        "Title",
        "word    count  share",
        "a           1   100%",
        "bcdefg  1,234     9%",
        "",
    ]


def test_brackets_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.table("Layer [red]", ("", ""), [("[bold]x[/bold]", "[/]")])
    assert capsys.readouterr().out.splitlines() == ["Layer [red]", "[bold]x[/bold]  [/]", ""]


def test_long_counts_are_cut_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    terminal._counts("Words", {f"w{n:02}": 30 - n for n in range(30)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Words (the first 12 of 30)"
    assert [line.split() for line in lines[2:-1]] == [[f"w{n:02}", str(30 - n)] for n in range(12)]


def test_progress_and_notes_leave_standard_output_clean(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress("Docs") as done:
        assert list(terminal.counted("abc", done)) == ["a", "b", "c"]
    terminal.note("no pipeline [yet].")
    assert tuple(capsys.readouterr()) == ("", "note: no pipeline [yet].\n")
