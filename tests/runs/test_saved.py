"""Saved selections of runs: filters and groups in one file, whatever else is written there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench import WorkbenchError
from workbench.core import machine
from workbench.runs import saved
from workbench.runs.notes import Note
from workbench.runs.saved import Saved
from workbench.runs.status import Status

DONE = Status(state="done", experiment="heads", models=("mini:bert",), corpora=("primer",))
NOTE = Note(("talk", "keep"), "For the seminar.")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    return machine.runs()


def test_a_selection_is_saved_renamed_and_removed(folder: Path) -> None:
    assert saved.read() == {}
    mine, group = Saved(text="bert", tags=("talk",)), Saved(runs=("heads-1", "heads-2"))
    saved.write("  for  the talk ", mine)
    saved.write("pair", group)
    assert saved.read() == {"for the talk": mine, "pair": group}
    saved.rename("pair", "two runs")
    assert saved.named("two runs") == group and "pair" not in saved.read()
    with pytest.raises(WorkbenchError, match="another selection"):
        saved.rename("two runs", "for the talk")
    saved.remove("for the talk")
    assert [*saved.read()] == ["two runs"] and [each.name for each in folder.iterdir()] == [
        saved.FILE
    ]
    with pytest.raises(WorkbenchError, match="two runs"):
        saved.named("two rums")


@pytest.mark.parametrize(
    ("selection", "has"),
    [
        (Saved(), True),
        (Saved(text="SEMINAR mini"), True),
        (Saved(text="seminar gpt"), False),
        (Saved(text="Attention heads of mini:bert"), True),
        (Saved(experiments=("heads", "lens")), True),
        (Saved(experiments=("lens",)), False),
        (Saved(models=("mini:gpt",)), False),
        (Saved(models=("mini:gpt", "mini:bert")), True),
        (Saved(states=("failed",)), False),
        (Saved(tags=("talk", "keep")), True),
        (Saved(tags=("talk", "other")), False),
        (Saved(runs=("heads-1",)), True),
        (Saved(runs=("heads-2",)), False),
        (Saved(runs=("heads-1",), tags=("other",)), False),
    ],
)
def test_a_filter_takes_the_runs_that_it_says(selection: Saved, has: bool) -> None:
    assert selection.has("heads-1", DONE, NOTE) is has


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"3", b"[" * 9_000, b"\xff"])
def test_a_broken_file_counts_as_empty_and_is_put_aside(folder: Path, content: bytes) -> None:
    folder.mkdir()
    (folder / saved.FILE).write_bytes(content)
    assert saved.read() == {}
    saved.write("new", Saved(text="x"))
    assert saved.named("new") == Saved(text="x")
    assert (folder / saved.ASIDE).read_bytes() == content


def test_an_entry_that_cannot_be_read_is_left_out_and_kept(folder: Path) -> None:
    folder.mkdir()
    stored = {"good": {"text": "x"}, "bad": {"runs": 3}, "later": {"text": "y", "more": 1}}
    (folder / saved.FILE).write_text(json.dumps(stored))
    assert [*saved.read()] == ["good", "later"]
    saved.write("new", Saved())
    assert json.loads((folder / saved.FILE).read_text())["bad"] == {"runs": 3}


@pytest.mark.parametrize("wrong", ["", "  ", "x" * 81])
@pytest.mark.parametrize("store", [lambda name: saved.write(name, Saved())])
def test_what_is_no_name_is_explained(wrong: str, store: Callable[[str], None]) -> None:
    with pytest.raises(WorkbenchError, match="saved-invalid"):
        store(wrong)
