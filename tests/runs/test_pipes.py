"""Pipes, sockets and deep brackets among a run's files are errors at once, never waited for."""

import json
import os
import socket
from pathlib import Path

import pytest

from tests.cli.harms import in_time
from workbench import WorkbenchError
from workbench.core.files import DEEPEST, open_regular, parse_json
from workbench.runs import status
from workbench.runs.processes import device_queue
from workbench.runs.run import Run

FILES = ("spec.json", "provenance.json", "status.json", "events.jsonl", "log.txt")


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("levels", [DEEPEST + 1, 900, 100_000])
def test_json_that_is_too_deep_is_a_value_error(levels: int) -> None:
    with pytest.raises(ValueError, match="levels"):
        parse_json(deep(levels))
    with pytest.raises(ValueError, match="levels"):
        parse_json('{"a":' * levels + "1" + "}" * levels)


def test_json_as_deep_as_is_allowed_is_read() -> None:
    assert json.dumps(parse_json(deep(DEEPEST))) == deep(DEEPEST)
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "socket", tmp_path, Path("/dev/zero")):
            with pytest.raises(OSError, match=r"regular|No such device"):
                open_regular(path)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["pipe", "deep"])
def test_a_run_with_a_harmful_file_is_said(name: str, harm: str, tmp_path: Path) -> None:
    run = Run(tmp_path / "describe-0")
    run.path.mkdir()
    (run.path / "status.json").write_text(json.dumps({"state": "done"}))
    path = run.path / name
    pipe(path) if harm == "pipe" else path.write_text(deep(100_000))
    status.read(run.path)
    status.read_events(run.path)
    status.log_lines(run.path)
    for what in ("spec", "provenance"):
        with pytest.raises(WorkbenchError):
            getattr(run, what)


def test_a_pipe_in_the_queue_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    counter = tmp_path / "queue" / socket.gethostname() / "counter"
    counter.parent.mkdir(parents=True)
    os.mkfifo(counter)
    with (
        in_time(),
        pytest.raises(WorkbenchError, match="regular file"),
        device_queue.turn("cpu", print),
    ):
        pass
    counter.unlink()
    os.mkfifo(counter.with_name("000000000000.ticket"))
    with in_time(), device_queue.turn("cpu", print):
        pass


@pytest.mark.parametrize("name", ["spec.json", "status.json"])
def test_the_error_names_the_file_once_and_no_number(name: str, tmp_path: Path) -> None:
    run = Run(tmp_path / "describe-0")
    run.path.mkdir()
    pipe(run.path / name)
    if name == "spec.json":
        with pytest.raises(WorkbenchError) as caught:
            run.spec  # noqa: B018
        said = str(caught.value)
    else:
        failure = status.settled(run.path).failure
        assert failure is not None
        said = str(failure.error())
    assert said.count(str(run.path / name)) == 1
    assert "Errno" not in said and "regular file" in said
