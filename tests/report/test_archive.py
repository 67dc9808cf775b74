"""A report as a zip: page and data, the same bytes for the same runs, no name that leaves."""

import io
import json
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from tests.report.making import bars, described, made, model
from workbench import WorkbenchError
from workbench.report import drawn, export, write_report
from workbench.runs.spec import is_name


@pytest.fixture(autouse=True)
def with_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "picture", lambda plain, kind, **words: kind.encode())


def test_it_holds_the_page_and_the_data(tmp_path: Path) -> None:
    run = made(tmp_path, figures={"words": bars(["a"])})
    with zipfile.ZipFile(write_report([run], tmp_path / "report.zip")) as files:
        names = set(files.namelist())
        data = f"data/{run.name}"
        assert names == {
            "report.html",
            *(f"{data}/{name}" for name in ("spec.json", "provenance.json", "findings.json")),
            *(f"{data}/tables/sizes.{ending}" for ending in ("csv", "parquet")),
            *(f"{data}/tables/words.{ending}" for ending in ("csv", "parquet")),
            *(f"{data}/figures/words.{ending}" for ending in ("json", "svg", "pdf")),
        }  # fmt: skip
        assert files.read("report.html").startswith(b"<!doctype html>")
        words = pd.read_parquet(io.BytesIO(files.read(f"{data}/tables/words.parquet")))
        pd.testing.assert_frame_equal(words, run.tables["words"])
        assert json.loads(files.read(f"{data}/spec.json"))["experiment"] == "counts"
        assert files.testzip() is None


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    run = described(tmp_path)
    first, second = (write_report([run], tmp_path / name) for name in ("a.zip", "b.zip"))
    assert first.read_bytes() == second.read_bytes()


def test_names_stay_in_the_archive_whatever_the_folders_are_called(tmp_path: Path) -> None:
    here = made(tmp_path / "a")
    there = made(tmp_path / "b")
    odd = made(tmp_path / "c")
    moved = type(odd)(odd.path.rename(tmp_path / "..odd name"))
    with zipfile.ZipFile(write_report([here, there, moved], tmp_path / "report.zip")) as files:
        names = files.namelist()
    assert len(names) == len(set(names))
    assert all(is_name(part) for name in names for part in name.split("/"))
    assert {name.split("/")[1] for name in names if "/" in name} == {
        here.name,
        f"{there.name}-2",
        "run-3",
    }


def test_no_folder_of_the_user_is_in_it(tmp_path: Path) -> None:
    folder = Path.home() / "secret"
    run = made(
        tmp_path,
        models=(model(ref=f"{folder}/bert@random", name="bert@random"),),
        facts={"corpora": [{"name": "c", "hash": "h", "notes": [f"{folder}/a.conllu is empty."]}]},
    )
    with zipfile.ZipFile(write_report([run], tmp_path / "report.zip")) as files:
        texts = [files.read(n) for n in files.namelist() if n.endswith((".json", ".html"))]
        assert not any(str(folder).encode() in text for text in texts)
        given = json.loads(files.read(f"data/{run.name}/spec.json"))
        assert given["models"][0]["ref"] == "local:bert@random"


def test_a_link_in_a_run_is_not_followed(tmp_path: Path) -> None:
    run = made(tmp_path)
    table = run.path / "tables" / "words.parquet"
    table.rename(tmp_path / "elsewhere")
    table.symlink_to(tmp_path / "elsewhere")
    report = write_report([run], tmp_path / "report.zip")
    assert not any("words" in name for name in zipfile.ZipFile(report).namelist())
    (run.path / "provenance.json").rename(tmp_path / "p")
    (run.path / "provenance.json").symlink_to(tmp_path / "p")
    with pytest.raises(WorkbenchError, match="link"):
        write_report([type(run)(run.path)], tmp_path / "other.zip")
    assert not (tmp_path / "other.zip").exists()


def test_nothing_is_dated_but_by_the_first_day(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_report([made(tmp_path)], tmp_path / "report.zip")) as files:
        assert {entry.date_time for entry in files.infolist()} == {export.BEGINNING}
