"""`workbench run` and `workbench runs`, as one uses them at a shell."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import Command
from tests.report.making import corpus, made
from tests.runs.conftest import forget_experiments, installed
from workbench import experiments
from workbench.cli import output
from workbench.cli.options import spread
from workbench.runs import status
from workbench.runs.run import Run, is_whole
from workbench.runs.status import Failure, Journal

pytestmark = pytest.mark.usefixtures("warm_workers")

RUN = ("run", "describe", "--corpus", "dog.conllu")
SLOW = partial(pytest.param, marks=pytest.mark.slow)


def test_a_run_prints_one_json_object_and_its_progress_elsewhere(workbench: Command) -> None:
    answer = workbench(*RUN, "--json")
    assert answer.code == 0
    told = json.loads(answer.out)
    assert {"run", "path", "status", "tables"} <= set(told)
    assert told["status"] == "done"
    assert told["tables"]["relations"] == 3
    assert Path(told["path"]).name == told["run"]
    assert "running" in answer.err.splitlines()


def test_the_same_question_is_answered_from_disk(workbench: Command) -> None:
    first = json.loads(workbench(*RUN, "--json").out)
    again = workbench(*RUN, "--json")
    assert json.loads(again.out) == first
    assert "running" not in again.err
    assert (
        json.loads(workbench(*RUN, "--set", "max_words=100", "--json").out) == first
    )  # the default


@pytest.mark.parametrize(
    "how",
    [
        ["--set", "max_sentences=1"],
        ["--set", "max-sentences=1"],
        ["--max-sentences", "1"],
        ["--max-sentences=1"],
    ],
)
def test_a_setting_is_set_in_two_ways_with_dashes_or_underscores(
    workbench: Command, how: list[str]
) -> None:
    told = json.loads(workbench(*RUN, *how, "--json").out)
    spec = json.loads(workbench("runs", "show", told["run"], "--json").out)["spec"]
    assert spec["settings"] == {"max_sentences": 1, "max_words": 100}


def test_findings_come_first_then_one_table_then_where_the_rest_is(workbench: Command) -> None:
    answer = workbench(*RUN)
    assert answer.code == 0
    run = json.loads(workbench(*RUN, "--json").out)
    first = run["findings"][0]
    shown = " ".join(answer.out.split())
    assert f"1. {first['claim']}" in shown
    assert answer.out.count("\nTable ") == 1 and f"Table {first['table']}" in shown
    assert (
        shown.index("Findings") < shown.index("Table ") < shown.index("workbench report describe-")
    )
    assert f"workbench runs show {run['run']}" in shown
    assert first["claim"] in " ".join(workbench("runs", "show", run["run"]).out.split())
    listed = json.loads(workbench("runs", "list", "--json").out)["runs"]
    assert {each["run"]: each["finding"] for each in listed}[run["run"]] == first["claim"]


def test_caveats_of_a_run_are_printed(workbench: Command) -> None:
    asked = (*RUN, "--max-sentences", "1")
    assert "Caveat: Only " in workbench(*asked).out
    told = json.loads(workbench(*asked, "--json").out)
    assert any("Docs" in caveat for caveat in told["caveats"])
    assert "Caveat: Only " in workbench("runs", "compare", told["run"], told["run"]).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "descibe", "--corpus", "dog.conllu"), "Did you mean 'describe'?"),
        ((*RUN, "--max-sentnces", "3"), "'--max-sentences'"),
        ((*RUN, "--set", "max_sentnces=3"), "'max_sentences'"),
        ((*RUN, "--set", "max_sentences"), "name=value"),
        ((*RUN, "--max-sentences", "-3"), "max_sentences is '-3'"),
        ((*RUN, "--max-sentences"), "--max-sentences needs a value"),
        ((*RUN, "--max-sentences", "many"), "max_sentences is 'many'"),
        ((*RUN, "--seed", "-1"), "seed"),
        ((*RUN, "--split", "trian"), "there is no split 'trian'"),
        ((*RUN, "--model", "nowhere"), "model-count"),
        (("run", "describe"), "corpus-count"),
        (("run", "describe", "--corpus", "dgo.conllu"), "Did you mean 'dog.conllu'?"),
        ((*RUN, "--sweep", "max_sentnces=1,2"), "'max_sentences'"),
        ((*RUN, "--sweep", "max_sentences="), "no value"),
        ((*RUN, "--sweep", "max_sentences=1,1"), "value-repeated"),
        ((*RUN, "--sweep", "seed=a,b"), "a seed is 'a'"),
        ((*RUN, "--max-sentences", "9", "--scheduler", "tcp://127.0.0.1:1"), "cannot be reached"),
        (("runs", "show", "../../etc"), "cannot be the name of a run"),
        (("runs", "show", "/etc/passwd"), "cannot be the name of a run"),
        (("runs", "show", "x" * 500), "cannot be the name of a run"),
        (("runs", "show", "nothing"), "there is no run 'nothing'"),
        (("runs", "compare", "nothing", "else"), "there is no run 'nothing'"),
    ],
)
def test_a_user_error_is_printed_and_exits_with_2(
    workbench: Command,
    arguments: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("workbench.runs.cluster.CONNECT", 0.2)
    answer = workbench(*arguments)
    assert answer.code == 2
    assert said in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err


def test_the_log_of_a_bug_is_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, log = Journal(tmp_path), ("Traceback (most recent call last):", "ValueError: bad")
    for line in log:
        journal.log(line)
    journal.becomes("failed", failure=Failure("ValueError: bad.", lines=log))
    run = Run(tmp_path)
    output.follow(run)
    with pytest.raises(SystemExit):
        output.result(run, json=False)
    printed = capsys.readouterr().err
    assert printed.count("Traceback") == 1 and "error: ValueError: bad." in printed


@pytest.mark.slow
def test_a_sweep_gathers_one_table(workbench: Command) -> None:
    answer = workbench(*RUN, "--sweep", "max_sentences=1,2", "max_words=1,2", "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert told["tables"]["sizes"] == 4
    exported = workbench("export", told["run"], "words", "--out", "words.csv")
    assert exported.code == 0, exported.err
    head, *rows = Path("words.csv").read_text().splitlines()
    assert head.startswith("max_sentences,max_words,word,")
    assert len(rows) == 2 * (1 + 2)


def test_a_comparison_names_keys_with_one_value_once() -> None:
    rows = {"task": ["pos", "pos"], "layer": [0, 1], "A score": [0.5, 0.6], "B score": [0.5, 0.7]}
    table = pd.DataFrame(rows)
    assert output._row_keys(table) == (["layer"], ["task"])
    assert output._row_keys(table[:1]) == (["task", "layer"], [])


def test_runs_are_listed_compared_and_removed(workbench: Command) -> None:
    names = [json.loads(workbench(*RUN, "--max-sentences", n, "--json").out)["run"] for n in (1, 2)]
    listed = workbench("runs", "list")
    assert all(name in listed.out for name in names)
    assert workbench("runs").out == listed.out
    compared = json.loads(workbench("runs", "compare", *names, "--json").out)
    assert list(compared["runs"].values()) == names
    shown = workbench("runs", "compare", *names).out
    assert "nsubj" in shown
    assert shown.split()[:5] == ["Runs", "run", "max_sentences", "A", names[0]]  # what differs
    assert "+3" in shown  # words of the second sentence
    assert workbench("runs", "compare", names[0]).code == 2
    assert workbench("runs", "cancel", names[0]).code == 2  # it is done
    assert workbench("runs", "resume", names[0], "--json").code == 0  # and stays so
    assert workbench("runs", "rm", names[0]).code == 2  # there is nobody to ask
    assert workbench("runs", "rm", names[0], "--yes").out == f"{names[0]}: removed\n"
    assert workbench("runs", "show", names[0]).code == 2


def test_runs_that_a_run_started_are_below_it(
    workbench: Command, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Laid out as a sweep leaves them: `test_a_sweep_gathers_one_table` makes one, at night."""
    monkeypatch.setattr(output.out, "width", 240)  # a run a line
    kind = experiments()["describe"]
    settings = [kind.settings(max_words=n).model_dump(mode="json") for n in (5, 7, 8)]
    whole, *runs = (
        made(at_home / "runs", experiment="describe", corpora=(corpus("dog"),), settings=each)
        for each in settings
    )
    for run in runs:
        status.write(run.path, replace(run.status, part_of=whole.name))
    sweep, parts = whole.name, {run.name for run in runs}
    told = json.loads(workbench("runs", "list", "--json").out)["runs"]
    assert {row["run"] for row in told if row["part_of"] == sweep} == parts
    listed = workbench("runs", "list").out
    own = " ".join(listed.partition("Built-in")[0].split())
    assert "(started 2)" in own
    assert not any(part in own for part in parts)
    assert "--all lists all" in own
    lines = [line for line in workbench("runs", "list", "--all").out.splitlines() if "-" in line]
    at = next(n for n, line in enumerate(lines) if line.startswith(sweep))
    assert {line.split()[0] for line in lines[at + 1 : at + 3]} == parts
    assert all(line.startswith("  ") for line in lines[at + 1 : at + 3])


def test_a_report_and_an_export_are_written(workbench: Command) -> None:
    name = json.loads(workbench(*RUN, "--json").out)["run"]
    own = ("--title", "My corpus", "--notes", "Read it.")
    assert workbench("report", name, *own).code == 0
    report = (Path("runs") / name / "report.html").read_text()
    assert "<h1>My corpus</h1>" in report and "Read it." in report
    assert workbench("report", name, "--notes", "a" * 20_001).code == 2
    assert workbench("report", name, "--out", "report.md").code == 0
    assert Path("report.md").stat().st_size > 500
    assert workbench("export", name, "relations", "--out", "r.json").code == 0
    assert json.loads(Path("r.json").read_text())
    mistyped = workbench("export", name, "relatoins", "--out", "r.csv")
    assert mistyped.code == 2
    assert "Did you mean 'relations'" in mistyped.err
    assert workbench("export", name, "../../x", "--out", "r.csv").code == 2


@pytest.mark.slow
def test_reports_and_exports_of_all_kinds_are_written(workbench: Command) -> None:
    name = json.loads(workbench(*RUN, "--json").out)["run"]
    for ending in ("html", "md", "tex", "zip"):
        assert workbench("report", name, "--out", f"all.{ending}").code == 0
        assert Path(f"all.{ending}").stat().st_size > 500
    for ending in ("csv", "parquet", "json"):
        assert workbench("export", name, "relations", "--out", f"all-{ending}.{ending}").code == 0


def test_experiments_tell_what_they_take_and_what_fits(workbench: Command) -> None:
    listed = json.loads(workbench("experiments", "--json").out)["experiments"]
    assert {"describe", "profile"} <= {one["name"] for one in listed}
    told = json.loads(workbench("experiments", "show", "describe", "--json").out)
    assert told["settings"]["max_sentences"]["least"] == 1
    assert "max_sentences" in workbench("experiments", "show", "describe").out
    fits = json.loads(
        workbench("experiments", "show", "describe", "--corpus", "dog.conllu", "--json").out
    )
    assert fits["fits"]
    assert workbench("experiments", "show", "describe").out.startswith("describe: ")


def test_several_values_follow_one_flag() -> None:
    given = ["--set", "a=1", "b=2", "--json", "c=3", "--sweep", "d=0..2", "e=x,y", "end"]
    assert list(spread(given)) == [
        *("--set", "a=1", "--set", "b=2", "--json", "c=3"),
        *("--sweep", "d=0..2", "--sweep", "e=x,y", "end"),
    ]


def test_the_catalogue_of_what_can_be_fetched(workbench: Command) -> None:
    told = json.loads(workbench("fetch", "--json").out)["entries"]
    assert all(entry["licence"] for entry in told)
    assert workbench("fetch").code == 0
    assert workbench("fetch", "no-such-thing").code == 2


@pytest.mark.parametrize(
    "closed",
    [
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("<&-", ">&-", "2>&-")),
        "<&- >&- 2>&-",
    ],
)
def test_a_run_is_followed_to_its_end_where_standard_streams_are_closed(
    at_home: Path,
    workbench: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    closed: str,
) -> None:
    """Of an experiment that needs neither torch nor spaCy: both processes begin anew."""
    package = installed(tmp_path / "site")
    monkeypatch.syspath_prepend(str(package))
    paths = f"{package}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    number = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"].index(closed) + 1
    asked = ("run", "steps", "--steps", str(number))
    command = f"exec {sys.executable} -m workbench.cli.main {' '.join(asked)} {closed}"
    around = {**os.environ, "PYTHONPATH": paths}
    assert subprocess.run(["sh", "-c", command], cwd=at_home, env=around).returncode == 0
    forget_experiments()
    try:
        answer = workbench(*asked)
    finally:
        forget_experiments()
    assert answer.code == 0 and "Read from disk" in answer.err


def test_a_run_that_lost_a_table_is_computed_again(workbench: Command) -> None:
    asked = (*RUN, "--max-words", "7", "--json")
    path = Path(json.loads(workbench(*asked).out)["path"])
    whole = (path / "tables" / "sizes.parquet").read_bytes()
    for damage in (whole[:-10], b"", None):
        (path / "tables" / "sizes.parquet").unlink()
        if damage is not None:
            (path / "tables" / "sizes.parquet").write_bytes(damage)
            assert not is_whole(path)
            continue
        assert json.loads(workbench(*asked).out)["tables"]["sizes"] == 1
        assert (path / "tables" / "sizes.parquet").read_bytes() == whole


def test_a_link_among_the_runs_is_an_error(at_home: Path, workbench: Command) -> None:
    (at_home / "elsewhere").mkdir()
    (at_home / "runs").mkdir(exist_ok=True)
    (at_home / "runs" / "linked-1").symlink_to(at_home / "elsewhere")
    answer = workbench("runs", "show", "linked")
    assert answer.code == 2
    assert "link" in answer.err


def test_a_setting_is_set_once(workbench: Command) -> None:
    answer = workbench(*RUN, "--max-sentences", "1", "--set", "max_sentences=2")
    assert answer.code == 2
    assert "setting-repeated" in answer.err
