"""The demo: questions with answers, one short paper; and every experiment with `--all`."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer

from workbench.cli import demo, demo_all, pictures
from workbench.cli.main import commands, main
from workbench.experiment.definition import built_in_experiments
from workbench.runs.builtin import builtin_names

FEW = ("describe-primer", "edge-probing-mini-bert", "train-primer")
LINES, BYTES = 80, 2_000_000  # of the output, and of the report


def run_demo(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["workbench", "demo", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


# --- pictures -------------------------------------------------------------------------------------


def test_a_curve_has_its_lowest_value_lowest() -> None:
    assert pictures.sparkline([0, 7, 3.5, 1]) == "▁█▅▂"
    assert pictures.sparkline([2, 2]) == "▁▁"


def test_bars_show_shares() -> None:
    assert pictures.bars([("a", 0.5, ""), ("long", 1.0, "all")]) == [
        "a     ██████████░░░░░░░░░░  50 %",
        "long  ████████████████████ 100 %  all",
    ]
    assert pictures.bars([("a", 0.2, "")], most=0.2) == ["a  ████████████████████  20 %"]


def test_heads_are_a_grid_of_roles() -> None:
    heads = pd.DataFrame(
        {"layer": [0, 0, 1, 1], "head": [0, 1, 0, 1], "role": ["", "first", "", ""]}
    )
    assert pictures.head_roles(heads) == ["layer 1   ·      first", "layer 2   ·      ·"]


def test_words_have_blocks_as_high_as_their_scores() -> None:
    assert pictures.scored_words(["the", "cat", "sat"], [-1.0, 2.0, 1.0]) == [
        "the cat sat",
        "▁▁▁ ███ ▅▅▅",
    ]


def test_a_curve_says_its_range_and_its_best_layer() -> None:
    table = pd.DataFrame({"task": "pos", "layer": [0, 1, 2], "mean": [0.5, 0.9, 0.8]})
    assert pictures.curves(table, "task", "mean") == ["pos  ▁█▆  F1 50 to 90, best layer 1"]


# --- the stops ------------------------------------------------------------------------------------


def test_a_stop_shows_a_built_in_result_or_names_an_experiment() -> None:
    for stop in demo.STOPS:
        if isinstance(stop.runs, demo.Computed):
            assert stop.runs.experiment in built_in_experiments()
        else:
            assert set(stop.runs) <= set(builtin_names())


def test_a_stop_goes_on_with_the_same_question_of_a_model_and_text_of_ones_own() -> None:
    known = set(typer.main.get_command(commands()).commands)  # type: ignore[attr-defined]
    for stop in demo.STOPS:
        assert stop.go_on.split()[:1] == ["workbench"]
        command, experiment = stop.go_on.split()[1:3]
        assert command in known
        runs = stop.runs
        asked = runs.experiment if isinstance(runs, demo.Computed) else runs[0]
        name = experiment if command == "run" else command
        assert asked == name or asked.startswith(f"{name}-")
        if isinstance(stop.runs, demo.Computed) and "--keep" in stop.go_on:
            assert stop.go_on.endswith(f"--keep {stop.runs.settings['keep']:.0%}")


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_built_in_results_make_a_story_and_a_short_paper(
    every: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A computed stop shows the built-in result of its experiment, if there is one."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "100")
    stops = [
        replace(stop, runs=(built_in,)) if isinstance(stop.runs, demo.Computed) else stop
        for stop in demo.STOPS
        if (built_in := _built_in(stop.runs)) and (every or built_in in FEW)
    ]
    monkeypatch.setattr(demo, "STOPS", tuple(stops))
    demo.tour()
    out = capsys.readouterr().out
    for number, stop in enumerate(stops, start=1):
        assert f"{number} of {len(stops)}: {stop.question}" in out
    assert out.count("built-in result, computed in") == len(stops)
    assert len(out.splitlines()) <= LINES
    assert "▁" in out and "␣" not in out  # curves, and no marks of words
    assert "The held-out loss fell" in out and "  training loss  █" in out
    prose = [line for line in out.splitlines()[:-2] if " s by: workbench" not in line]
    assert max(map(len, prose)) <= demo.WIDEST
    page = (tmp_path / "runs" / "demo.html").read_text()
    assert len(page.encode()) < BYTES
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    for stop in stops:
        assert stop.question in page


def _built_in(runs: demo.Computed | tuple[str, ...]) -> str:
    """The built-in result of the experiment that a stop computes; "" without one."""
    if not isinstance(runs, demo.Computed):
        return runs[0]
    names = (
        name for name in builtin_names() if re.fullmatch(f"{runs.experiment}-[a-z0-9-]+", name)
    )
    return next(names, "")


@pytest.mark.slow
def test_the_demo_is_computed_and_answered_from_disk_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    assert run_demo(monkeypatch) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) + len(err.splitlines()) <= LINES
    report = (tmp_path / "runs" / "demo.html").read_bytes()
    assert run_demo(monkeypatch, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [stop["question"] for stop in data["stops"]] == [stop.question for stop in demo.STOPS]
    assert all(run["status"] == "done" for run in data["runs"])
    assert Path(data["report"]).read_bytes() == report


# --- every experiment -----------------------------------------------------------------------------


def test_all_has_every_experiment() -> None:
    without = sorted(set(built_in_experiments()) - set(demo_all.stops()))
    assert not without, f"give {without} a `demo`, which workbench demo --all runs"
    assert set(demo_all.stops()) <= set(built_in_experiments())


@pytest.mark.slow
def test_every_experiment_ends_in_one_report_and_is_answered_from_disk_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    assert run_demo(monkeypatch, "--all") == 0
    out, err = capsys.readouterr()
    stops = demo_all.stops()
    for number, stop in enumerate(stops.values(), start=1):
        assert f"{number} of {len(stops)}: {stop.title}" in out
    report = (tmp_path / "runs" / "demo-all.html").read_bytes()
    assert "Read from disk" not in err
    assert run_demo(monkeypatch, "--all", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [run["experiment"] for run in data["runs"]] == [*stops]
    assert all(run["status"] == "done" for run in data["runs"])
    assert Path(data["report"]).read_bytes() == report
