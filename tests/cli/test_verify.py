"""A file of a finished run that is gone or changed is said wherever the run is looked at."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import workbench as wb
from tests.cli.conftest import Command
from tests.night import mostly
from tests.runs.conftest import await_free
from workbench import Run, WorkbenchError, open_run
from workbench.runs.run import PROVENANCE, all_runs

pytestmark = pytest.mark.usefixtures("warm_workers")
LENGTHS = "tables/lengths.parquet"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test of this process leaves its run for the others."""
    return tmp_path_factory.mktemp("kept") / "runs"


@pytest.fixture
def run(workbench: Command, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of its own, done: computed once, and copied."""
    runs = tmp_path / "runs"
    monkeypatch.setenv("WORKBENCH_RUNS", str(runs))
    if not kept.exists():
        assert workbench("run", "describe", "--corpus", "dog.conllu").code == 0
        await_free(all_runs()[0][0])  # its process deletes its checkpoint after all else
        shutil.copytree(runs, kept)
    else:
        shutil.copytree(kept, runs)
    (found,) = (one for one, _ in all_runs())
    assert found.status.state == "done"
    return found


def again(run: Run) -> Run:
    """The same run as somebody else opens it."""
    return open_run(run.name)


def test_a_whole_run_is_found_whole(run: Run, workbench: Command) -> None:
    kept = run.provenance["files"]
    assert {"bytes", "sha256"} == set(kept[LENGTHS])
    results = {p.relative_to(run.path).as_posix() for p in run.path.glob("*s/*")}
    assert set(kept) == results | {"findings.json"}
    answer = workbench("runs", "verify")
    assert answer.code == 0 and answer.out == "1 run checked, 0 damaged.\n"
    assert json.loads(workbench("runs", "verify", run.name, "--json").out) == {
        "checked": 1,
        "damaged": {},
    }


def test_tags_and_a_note_are_kept_shown_and_no_damage(run: Run, workbench: Command) -> None:
    name = run.name
    answer = workbench("runs", "note", name, "--tag", "talk", "-t", "keep", "--text", "Of May.")
    assert answer.out == f"{name}: keep, talk\n    Of May.\n"
    assert workbench("runs", "note", name, "--untag", "keep").out == f"{name}: talk\n    Of May.\n"
    assert "Of May." in workbench("runs", "show", name).out
    assert json.loads(workbench("runs", "show", name, "--json").out)["tags"] == ["talk"]
    assert workbench("runs", "verify").out == "1 run checked, 0 damaged.\n"
    wrong = workbench("runs", "note", name, "--tag", "two words")
    assert wrong.code == 2 and "tag-invalid" in wrong.err


def test_a_table_that_is_gone_is_said_everywhere_and_computed_again(
    run: Run, workbench: Command, tmp_path: Path
) -> None:
    before = (run.path / LENGTHS).read_bytes()
    (run.path / LENGTHS).unlink()
    remedy = f"workbench runs resume {run.name}"
    assert "incomplete" in workbench("runs", "list").out
    shown = " ".join(workbench("runs", "show", run.name).out.split())
    assert f"A file is missing from this run: {LENGTHS}." in shown and remedy in shown
    assert json.loads(workbench("runs", "show", run.name, "--json").out)["missing"] == [LENGTHS]
    out = tmp_path / "report.md"
    assert workbench("report", run.name, "--out", out).code == 0
    assert "missing from this run" in " ".join(out.read_text().split())
    exported = workbench("export", run.name, "lengths", "--out", tmp_path / "l.csv")
    assert exported.code == 2 and "the table 'lengths' of this run is missing" in exported.err
    assert remedy in exported.err
    wrong = workbench("runs", "verify")
    assert wrong.code == 1 and f"{LENGTHS} is missing" in wrong.out and remedy in wrong.out
    assert "done, incomplete" in shown
    assert workbench("runs", "resume", run.name).code == 0
    assert (run.path / LENGTHS).read_bytes() == before
    assert workbench("runs", "verify").code == 0
    assert again(run).missing == [] and not any("missing" in c.text for c in again(run).caveats)


def test_a_pipe_in_place_of_a_table_is_a_table_that_is_gone(
    run: Run, workbench: Command, tmp_path: Path
) -> None:
    (run.path / LENGTHS).unlink()
    os.mkfifo(run.path / LENGTHS)
    shown = workbench("runs", "show", run.name)
    assert shown.code == 0 and f"A file is missing from this run: {LENGTHS}." in " ".join(
        shown.out.split()
    )
    assert workbench("report", run.name, "--out", tmp_path / "report.md").code == 0


def test_one_changed_byte_is_found_by_verify_alone(run: Run, workbench: Command) -> None:
    path = run.path / LENGTHS
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert again(run).missing == []
    answer = workbench("runs", "verify")
    assert answer.code == 1 and f"{LENGTHS} has changed" in answer.out
    assert f"workbench runs rm {run.name} --yes" in answer.out


@pytest.mark.parametrize(
    "content",
    mostly(["[]", "{}", "not json", '{"tables": 3}', '{"files": []}'], "not json", '{"tables": 3}'),
)
def test_damaged_provenance_is_said_without_a_traceback(
    run: Run, workbench: Command, content: str
) -> None:
    (run.path / PROVENANCE).write_text(content)
    assert workbench("runs", "verify").code == 1
    for arguments in (("runs", "list"), ("runs", "show", run.name), ("report", run.name)):
        answer = workbench(*arguments)
        assert "Traceback" not in answer.out + answer.err
        assert answer.code in (0, 2)


def test_what_is_not_done_cannot_be_verified(run: Run, workbench: Command) -> None:
    answer = workbench("runs", "verify", "describe-none")
    assert answer.code == 2 and "there is no run" in answer.err
    with pytest.raises(WorkbenchError, match="missing"):
        (run.path / LENGTHS).unlink()
        wb.open_run(run.name).tables["lengths"]


def test_checkpoints_left_by_a_kill_at_the_end_are_deleted_at_the_next_start(
    run: Run, workbench: Command
) -> None:
    until = time.monotonic() + 20  # its process says that it is done, then deletes its own
    while (run.path / "checkpoint").exists() and time.monotonic() < until:
        time.sleep(0.01)
    (run.path / "checkpoint").mkdir()
    (run.path / "checkpoint" / "part").write_text("kept")
    answer = workbench("run", "describe", "--corpus", "dog.conllu")
    assert answer.code == 0 and "Read from disk" in answer.err
    assert not (run.path / "checkpoint").exists()
