"""Runs of release 0.2.0 open in this version: their words, numbers, figures, reports, comparisons.

`runs-0.2.0.zip` was written by that release and is never written again: a test that fails here says
that people's own folders of runs no longer open.
"""

import json
import zipfile
from pathlib import Path

import pytest

import workbench as wb
from workbench.runs import notes
from workbench.runs.run import open_run

FINDINGS = {"profile": 3, "heads": 1, "edge-probing": 1}  # at least


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A folder of runs of that release, after an upgrade."""
    folder = tmp_path / "runs"
    with zipfile.ZipFile(Path(__file__).with_name("runs-0.2.0.zip")) as file:
        file.extractall(folder)
    monkeypatch.setenv("WORKBENCH_RUNS", str(folder))
    return sorted(folder.iterdir())


def test_findings_and_tables_are_those_of_the_files(runs: list[Path]) -> None:
    for path in runs:
        run = open_run(path.name)
        assert run.status.state == "done", path
        stored = json.loads((path / "findings.json").read_text("utf-8"))
        said = [each["claim"] for each in stored]
        assert [each.claim for each in run.findings] == said
        assert len(said) >= FINDINGS[run.spec.experiment]
        names = {file.stem for file in (path / "tables").iterdir()}
        assert set(run.tables) == names
        assert all(len(run.tables[name].columns) for name in names)


def test_figures_are_drawn_from_their_tables(runs: list[Path]) -> None:
    for path in runs:
        run = open_run(path.name)
        assert run.figures
        assert all(run.figures[name].data for name in run.figures)


def test_they_end_as_one_report_and_one_comparison(runs: list[Path], tmp_path: Path) -> None:
    opened = [open_run(path.name) for path in runs]
    text = Path(wb.report(opened, tmp_path / "report.html")).read_text("utf-8")
    assert all(run.findings[0].claim[:20] in text for run in opened)
    profiles = [run for run in opened if run.spec.experiment == "profile"]
    compared = wb.compare(*profiles)["losses"].select_dtypes("number").to_numpy()
    for run in profiles:
        assert set(run.tables["losses"]["value"]) <= set(compared.ravel())


def test_their_tags_are_written_and_read(runs: list[Path]) -> None:
    run = open_run(runs[0].name)
    notes.write(run, ["before-upgrade"], "kept")
    assert notes.read(run.path) == notes.Note(("before-upgrade",), "kept")
