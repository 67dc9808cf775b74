"""Tags and notes of runs: stored, found, and safe from what a user or another program writes."""

import json
from pathlib import Path

import pytest

import workbench as wb
from tests.runs.conftest import Asking, done_here
from workbench import WorkbenchError
from workbench.runs import notes
from workbench.runs.notes import Note
from workbench.runs.run import damage


def test_tags_and_words_are_kept_and_change_nothing_of_the_run(asking: Asking) -> None:
    run = done_here(asking())
    assert notes.read(run.path) == Note()
    notes.write(run, ["seminar", "keep", "keep"], " Run for the talk.\n")
    assert notes.read(run.path) == Note(("keep", "seminar"), "Run for the talk.")
    assert notes.tagged(run, ["new"], ["keep"]).tags == ("new", "seminar")
    assert not damage(run.path)
    assert done_here(asking()) == run, "the same request is still read from disk"


def test_what_is_no_tag_is_explained(asking: Asking) -> None:
    run = done_here(asking())
    for wrong in ("", "two words", "a/b", "x" * 41, "<b>", "../up", "\0", "new\nline"):
        with pytest.raises(WorkbenchError, match="tag-invalid"):
            notes.write(run, [wrong], "")
        assert notes.read(run.path) == Note(), wrong


def test_too_much_is_refused(asking: Asking) -> None:
    run = done_here(asking())
    for tags, text in (([f"t{k}" for k in range(21)], ""), ([], "x" * 4_001)):
        with pytest.raises(WorkbenchError, match="note-too-long"):
            notes.write(run, tags, text)
    with pytest.raises(WorkbenchError, match="run-built-in"):
        notes.write(wb.open_run("built-in/describe-primer"), ["mine"], "")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"tags": 3, "text": ""}', b'{"tags": null}', b"[" * 5_000, b"\xff"],
)
def test_a_file_that_cannot_be_read_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / notes.FILE).write_bytes(content)
    assert notes.read(tmp_path) == Note()
    (tmp_path / notes.FILE).write_text(json.dumps({"tags": ["ok", "<b>", 3], "text": "x"}))
    assert notes.read(tmp_path) == Note(("ok",), "x")
