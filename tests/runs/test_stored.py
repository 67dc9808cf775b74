"""Every later version reads, shows, reports and finds again the runs that version 0.1.0 stored.

`stored/runs` is a folder of runs as that version left it, `stored/reports` its reports of them:

    workbench run profile --model mini:bert --corpus primer:size=30 --device cpu
    workbench run edge-probing --model mini:bert --corpus primer:size=40 --device cpu
        --set tasks=pos preset=quick
    workbench report NAME --out NAME.md

The machine was called `demo`, and had no kaleido. These files are never edited or made again.

A fingerprint holds no path and no version of a package. It does hold the model's configuration as
transformers completes it and the tokenizer as `tokenizers` writes it: the same with transformers
5.17 and 5.23, though a later one may add to them. It also holds every setting with its default, so
a new setting is another question. Costs one import of torch and two openings of the smallest model.
"""

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

import workbench as wb
from workbench.report import format as cells
from workbench.runs.request import make_request

STORED = Path(__file__).parent / "stored"
PROFILE, PROBING = "profile-a0c586b1bfd75eac", "edge-probing-25e1704f161a3b84"
QUESTIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    PROFILE: ("profile", "primer:size=30", {}),
    PROBING: ("edge-probing", "primer:size=40", {"tasks": ["pos"], "preset": "quick"}),
}
every_run = pytest.mark.parametrize("name", QUESTIONS)
Command = Callable[..., str]


@pytest.fixture(autouse=True)
def copied(place: Path) -> Path:
    """A copy of the stored runs, in the folder of runs."""
    shutil.copytree(STORED / "runs", place)
    return place


@pytest.fixture
def workbench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """What `python -m workbench ARGUMENTS` prints; it must end well."""

    def printed(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_module("workbench", run_name="__main__")
        out, err = capsys.readouterr()
        assert not end.value.code, err
        return out

    return printed


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a process is started: a run's worker is one."""

    def refused(*command: object, **_: object) -> None:
        raise AssertionError(f"a process was started: {command}")

    monkeypatch.setattr(subprocess, "Popen", refused)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# --- what the stored files are --------------------------------------------------------------------


def test_the_stored_files_are_as_they_were_written(workbench: Command) -> None:
    assert json.loads(workbench("runs", "verify", "--json")) == {"checked": 2, "damaged": {}}


def test_the_stored_files_name_no_place_and_no_person() -> None:
    texts = [path.read_text() for path in STORED.rglob("*") if path.suffix in (".json", ".md")]
    texts += [path.read_text() for path in STORED.rglob("events.jsonl")]
    texts += [pd.read_parquet(path).to_csv() for path in STORED.rglob("*.parquet")]
    assert len(texts) == 3 * 2 + 8 + 2 + 2 + 13
    for text in texts:
        assert not [name for name in ("/home", "/root", "/tmp", "/Users", ":\\") if name in text]
    hosts = [json.loads(path.read_text())["host"] for path in STORED.rglob("status.json")]
    assert hosts == ["demo", "demo"]


# --- reading --------------------------------------------------------------------------------------


def test_a_profile_is_read() -> None:
    run = wb.open_run("profile")  # the beginning of its name
    assert run.name == PROFILE and run.status.state == "done" and run.status.attempt == 1
    assert not run.missing and not run.warnings and not list(run.arrays)
    assert run.provenance["packages"]["transformers"] == "5.23.0"
    assert list(run.tables) == ["facts", "stacks", "modules", "losses"]
    assert run.tables["modules"]["parameters"].sum() == 1_082_752
    losses = run.tables["losses"]
    assert losses.attrs["keys"] == ["split", "objective", "metric"]
    assert losses.set_index("metric")["value"]["masked_accuracy"] == 0.6
    assert list(run.figures) == ["modules", "losses"]
    (bars,) = run.figures["modules"].data
    assert isinstance(bars, go.Bar) and list(bars.y) == run.tables["modules"]["module"].tolist()
    (caveat,) = run.caveats
    assert caveat.text.startswith("15% of pieces are hidden") and caveat.applies_to == ("losses",)


def test_an_edge_probing_is_read() -> None:
    run = wb.open_run(PROBING)
    assert run.status.state == "done" and not run.missing and not run.warnings
    assert run.provenance["tables"] == {name: len(table) for name, table in run.tables.items()}
    assert list(run.tables) == [
        "summary", "scores", "means", "halves", "per_label", "mix", "confusion", "gains", "tasks",
    ]  # fmt: skip
    (summary,) = run.tables["summary"].to_dict("records")
    assert (summary["task"], summary["best_layer"], summary["n"]) == ("pos", 3, 35)
    assert summary["best_score"] == 32 / 35 and not summary["enough_data"]
    scores = run.tables["scores"]
    top = scores[(scores["layer"] == 3) & (scores["mode"] == "layer") & ~scores["control"]]
    assert top["value"].tolist() == [32 / 35]
    gained = run.tables["gains"].iloc[0]
    assert gained["text"][gained["span1_start"] : gained["span1_end"]] == "puts"
    assert {name: len(figure.data) for name, figure in run.figures.items()} == {
        "curves": 2, "pipeline": 2, "baselines": 6, "selectivity": 2, "mixes": 1, "confusions": 1,
    }  # fmt: skip
    assert run.arrays["counts"].shape == (26, 4, 3) and run.arrays["sentences"].shape == (4,)
    assert [caveat.applies_to for caveat in run.caveats] == [(), (), ("means", "curves", "summary")]
    assert "Only 4 sentences are scored" in run.caveats[0].text


@every_run
def test_a_question_is_read(name: str) -> None:
    experiment, corpus, settings = QUESTIONS[name]
    asked = wb.open_run(name).spec
    assert (asked.experiment, asked.seed, asked.name) == (experiment, 0, name)
    assert [model.ref for model in asked.models] == ["mini:bert"]
    assert [corpus.ref for corpus in asked.corpora] == [corpus]
    assert settings.items() <= asked.settings.items()


# --- the commands ---------------------------------------------------------------------------------


@every_run
def test_the_commands_show_it(name: str, workbench: Command, copied: Path) -> None:
    before = contents(copied)
    listed = json.loads(workbench("runs", "list", "--json"))["runs"]
    assert {run["run"]: run["status"] for run in listed} == dict.fromkeys(QUESTIONS, "done")
    shown = json.loads(workbench("runs", "show", name, "--json"))
    run = STORED / "runs" / name
    assert shown["spec"].items() >= json.loads((run / "spec.json").read_text()).items()
    assert shown["provenance"] == json.loads((run / "provenance.json").read_text())
    printed = workbench("runs", "show", name)
    assert f"Caveat: {shown['caveats'][0]}" in printed
    assert all(figure in printed for figure in shown["provenance"]["figures"])
    assert contents(copied) == before, "looking at a run changes nothing in it"


@every_run
def test_a_report_has_every_row_of_the_report_of_then(
    name: str, workbench: Command, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MOST", 2_000)  # rows, as then
    before, out = contents(copied), tmp_path / "report.md"
    workbench("report", name, "--out", out)
    then = rows(STORED / "reports" / f"{name}.md")
    assert len(then) > 20 and then <= rows(out)
    assert contents(copied) == before


def rows(report: Path) -> set[str]:
    """The rows of all tables of a report in Markdown."""
    return {line for line in report.read_text(encoding="utf-8").splitlines() if line[:1] == "|"}


def test_a_page_of_it_has_its_figures(workbench: Command, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    workbench("report", PROFILE, "--out", out)
    page = out.read_text(encoding="utf-8")
    assert PROFILE in page and "270,848" in page
    assert "Number of parameters of each part" in page  # a figure's caption


# --- asking again ---------------------------------------------------------------------------------


@every_run
@pytest.mark.usefixtures("no_process")
def test_the_same_question_finds_it(name: str, copied: Path) -> None:
    before = contents(copied)
    experiment, corpus, settings = QUESTIONS[name]
    stored = wb.open_run(name).spec
    asked = make_request(experiment, ["mini:bert"], [corpus], settings, device="cpu").spec
    assert asked.models == stored.models, "the model has another content hash"
    assert [c.hash for c in asked.corpora] == [c.hash for c in stored.corpora]
    assert (asked.split, asked.seed) == (stored.split, stored.seed)
    if asked.version > stored.version:  # the experiment gives other tables since
        assert asked.name != name
        return
    assert asked.settings == wb.open_run(name).settings, "a setting that is new or gone"
    assert asked.name == name, "a setting was renamed without its first name"
    run = wb.run(experiment, model="mini:bert", corpus=corpus, device="cpu", **settings)
    assert run.path == copied / name and contents(copied) == before


@every_run
@pytest.mark.usefixtures("no_process")
def test_it_is_resumed_without_being_computed(name: str, workbench: Command, copied: Path) -> None:
    before = contents(copied)
    assert json.loads(workbench("runs", "resume", name, "--json"))["status"] == "done"
    assert contents(copied) == before
