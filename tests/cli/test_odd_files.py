"""Whatever lies in the place of a run's file, every command answers, or says what is wrong.

A pipe, a socket, a device, a folder, brackets deeper than the stack, bytes that are no text.
"""

import json
import shutil
from itertools import product
from pathlib import Path

import plotly.graph_objects as go
import pytest

from tests.cli.conftest import Answer, Command
from tests.cli.harms import HARMS, in_time, put
from tests.night import mostly
from tests.report.making import made
from workbench.runs import process, status
from workbench.runs.run import PROVENANCE, recorded, write_array

FILES = (
    "spec.json",
    "status.json",
    PROVENANCE,
    "events.jsonl",
    "log.txt",
    "lock",
    "tables/words.parquet",
    "figures/bars.json",
    "arrays/values.safetensors",
)


@pytest.fixture(autouse=True)
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's process is one that ends at once: here it matters that it is reached."""
    monkeypatch.setattr(process, "worker_command", lambda *_: [shutil.which("true")])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs, done, with tables, a figure and an array."""
    folder = tmp_path_factory.mktemp("whole")
    return _run(folder, 0), _run(folder, 1)


@pytest.fixture
def runs(
    whole: tuple[Path, Path], at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """Copies of both: their folders, for looking waits."""
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    one, other = (shutil.copytree(run, tmp_path / "runs" / run.name) for run in whole)
    return one, other


def _run(folder: Path, seed: int) -> Path:
    import numpy as np

    figure = go.Figure(go.Bar(x=["a"], y=[1]))
    run = made(folder / "runs", experiment="describe", figures={"bars": figure}, seed=seed)
    write_array(run.path, "values", np.zeros(3))
    facts = json.loads((run.path / PROVENANCE).read_text())
    facts["files"] = recorded(run.path)
    (run.path / PROVENANCE).write_text(json.dumps(facts))
    return run.path


COMMANDS: dict[str, tuple[str, ...]] = {
    "list": ("runs", "list"),
    "show": ("runs", "show", "{one}"),
    "show --json": ("runs", "show", "{one}", "--json"),
    "verify": ("runs", "verify", "{one}"),
    "compare": ("runs", "compare", "{one}", "{other}"),
    "export a table": ("export", "{one}", "words", "--out", "words.csv"),
    "export a figure": ("export", "{one}", "bars", "--out", "bars.html"),
    "report": ("report", "{one}", "--out", "report.html"),
    "resume": ("runs", "resume", "{one}"),  # last: it may mend the run
}


# Of each kind of reader, and each kind of harm, one: the rest takes a minute.
OFTEN = {
    "spec.json": ("deep",),
    "provenance.json": ("endless",),
    "status.json": ("pipe",),
    "events.jsonl": ("pipe",),
    "lock": ("socket",),
    "tables/words.parquet": ("pipe", "no text"),
    "figures/bars.json": ("deep enough",),
}
PAIRS = [
    pytest.param(name, harm, marks=() if harm in OFTEN.get(name, ()) else pytest.mark.slow)
    for name in FILES
    for harm in HARMS
]


@pytest.mark.parametrize(("name", "harm"), PAIRS)
def test_every_command_answers_or_says_what_is_wrong(
    name: str, harm: str, runs: tuple[Path, Path], workbench: Command, tmp_path: Path
) -> None:
    put(harm, runs[0] / name)
    said = answers(workbench, runs, tmp_path)
    for command, answer in said.items():
        assert answer.code in (0, 1, 2), command
        assert answer.code != 2 or is_an_error(answer), command
        assert "there is no run" not in answer.err
    assert said["list"].code == 0


def test_every_command_answers_where_nothing_is_wrong(
    runs: tuple[Path, Path], workbench: Command, tmp_path: Path
) -> None:
    assert {answer.code for answer in answers(workbench, runs, tmp_path).values()} == {0}


def answers(workbench: Command, runs: tuple[Path, Path], out: Path) -> dict[str, Answer]:
    """What each command says of these runs."""
    said = {}
    for command, arguments in COMMANDS.items():
        filled = (part.format(one=runs[0].name, other=runs[1].name) for part in arguments)
        with in_time():
            said[command] = workbench(*(out / part if "." in part else part for part in filled))
    return said


def is_an_error(answer: Answer) -> bool:
    """Whether what was wrong is said, where, and what to do."""
    lines = answer.err.splitlines()
    begun = next((n for n, line in enumerate(lines) if line.startswith("error: ")), len(lines))
    return len(lines) > begun + 1 and bool(lines[begun + 1].strip())


@pytest.mark.parametrize(
    ("name", "harm"),
    mostly(
        product(
            ("status.json", "events.jsonl", "log.txt", "lock", "cancel"),
            ("pipe", "socket", "endless", "folder"),
        ),
        ("status.json", "folder"), ("events.jsonl", "pipe"), ("log.txt", "endless"),
        ("lock", "socket"), ("cancel", "pipe"),
    ),
)  # fmt: skip
def test_a_failed_run_is_resumed_or_it_is_said_why_not(
    name: str, harm: str, runs: tuple[Path, Path], workbench: Command
) -> None:
    one, _ = runs
    status.write(one, status.Status("failed", attempt=1))
    put(harm, one / name)
    with in_time():
        answer = workbench("runs", "resume", one.name)
    assert answer.code == 1 or is_an_error(answer)
    assert "there is no run" not in answer.err
