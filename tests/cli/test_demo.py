"""The tour: every experiment there is, offline, in one report; the second time from disk."""

import json
import sys
from pathlib import Path

import pytest

from workbench import experiments
from workbench.cli.demo import STOPS
from workbench.cli.main import main


def demo(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["workbench", "demo", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_the_tour_has_every_experiment() -> None:
    assert {stop.experiment for stop in STOPS} == set(experiments().built_in)


@pytest.mark.slow
def test_the_tour_ends_in_one_report_and_is_answered_from_disk_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    assert demo(monkeypatch) == 0
    out, err = capsys.readouterr()
    for number, stop in enumerate(STOPS, start=1):
        assert f"{number} of {len(STOPS)}: {stop.title}" in out
    report = (tmp_path / "runs" / "demo.html").read_bytes()
    assert "Read from disk" not in err
    assert demo(monkeypatch, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["experiment"] for run in told["runs"]] == [stop.experiment for stop in STOPS]
    assert all(run["status"] == "done" for run in told["runs"])
    assert Path(told["report"]).read_bytes() == report
