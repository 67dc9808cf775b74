"""A model is asked in a process of its own, with limits; the answer is facts or an error."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import warm
from workbench import WorkbenchError
from workbench.core.machine import machine_memory
from workbench.runs import isolated
from workbench.runs.isolated import PATIENCE, look
from workbench.runs.processes import locks

MINI = Path(isolated.__file__).parents[1] / "models" / "mini" / "bert"

ASKED = """
import os, sys
from workbench.runs import isolated
read, write = os.pipe()
os.write(write, os.environ["QUESTION"].encode() + b"\\n")
sys.stdin = open(read)
isolated.main()
"""  # a question as `look` puts it, and somebody waits for the answer


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))


def test_facts_and_parts_add_up() -> None:
    parts = isolated.facts_or_parts("mini:elmo", "parts")[
        "parts"
    ]  # opens it, and its facts are kept
    facts = look("mini:elmo", "facts")["facts"]
    assert facts["name"] == "mini:elmo" and facts["stacks"][0]["heads"] == 0
    assert sum(parts.values()) == facts["parameters"]
    assert "forward layer 1" in parts and "backward layer 0" in parts
    assert look("mini:elmo", "parts")["parts"] == parts


@pytest.mark.parametrize("fetch", [False, True])
def test_nothing_is_downloaded_by_default(
    fetch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is told to be offline, which the hub's own library obeys."""
    tells = tmp_path / "tells"
    tells.write_text('#!/bin/sh\nread question\necho "{\\"offline\\": ${HF_HUB_OFFLINE:-0}}"\n')
    tells.chmod(0o755)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(isolated.sys, "executable", str(tells))
    assert look("nobody/has-this", "facts", fetch) == {"offline": int(not fetch)}


@pytest.mark.parametrize("ref", ["mini:nonsense", "a\0b", "train-nonsense"])
def test_nonsense_is_an_error(ref: str) -> None:
    with pytest.raises(WorkbenchError):
        look(ref, "facts")


def in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Built-in models too, which otherwise are opened in a fork, once."""
    monkeypatch.setattr(isolated, "_stored", lambda ref, kind: None)
    monkeypatch.setattr(isolated.starter, "is_ready", lambda: False)


def test_a_process_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dies = tmp_path / "dies"
    dies.write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    monkeypatch.setattr(isolated.sys, "executable", str(dies))
    in_a_new_process(monkeypatch)
    with pytest.raises(WorkbenchError, match="signal 9"):
        look("mini:bert", "facts")


def wide(folder: Path, rows: int) -> str:
    """A model with so many rows of 128 numbers, and fresh weights: its numbers are possible."""
    shutil.copytree(MINI, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": rows}))
    return f"{folder}@random"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps a limit of memory")
def test_a_model_that_needs_more_memory_than_its_limit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = wide(tmp_path / "wide", 4_000_000)  # 2 GB
    monkeypatch.setattr(isolated, "machine_memory", lambda: 2 << 30)
    question = json.dumps([ref, "facts", isolated.limits(ref)[0]])
    error = json.loads(warm.python("-c", ASKED, QUESTION=question, **os.environ))["error"]
    assert re.search(r"more than 1\.\d GiB of memory", error["what"])
    assert error["where"] == ref and "config.json" in error["remedy"]


def test_the_limits_follow_the_files_and_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(MINI, tmp_path / "bert")
    memory, seconds = isolated.limits(str(tmp_path / "bert"))
    assert memory < isolated.ROOM + (64 << 20) and memory < machine_memory()
    assert PATIENCE < seconds < PATIENCE + 10
    with (tmp_path / "bert" / "model-2.safetensors").open("wb") as file:
        file.truncate(10 << 30)
    monkeypatch.setattr(isolated, "machine_memory", lambda: 1 << 40)
    assert isolated.limits(str(tmp_path / "bert"))[0] > 40 << 30
    assert isolated.limits(str(tmp_path / "bert"))[1] > 300
    monkeypatch.setattr(isolated, "machine_memory", lambda: 8 << 30)
    assert isolated.limits(str(tmp_path / "bert"))[0] == 6 << 30


def test_what_takes_too_long_is_killed_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, started = tmp_path / "slow", tmp_path / "started"
    slow.write_text(f"#!/bin/sh\nsleep 600 & echo $! $$ >{started}\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setattr(isolated.sys, "executable", str(slow))
    monkeypatch.setattr(isolated, "PATIENCE", 0.6)
    in_a_new_process(monkeypatch)
    with pytest.raises(WorkbenchError, match="longer than 1 seconds"):
        look("mini:bert", "facts")
    end = time.monotonic() + 20  # a busy machine takes its time to end what was killed
    for process in map(int, started.read_text().split()):
        while not locks.is_dying(process):
            assert time.monotonic() < end, "it lives on"
            time.sleep(0.01)


def test_it_ends_when_nobody_waits_for_it() -> None:
    question = json.dumps(["mini:bert", "facts", 1 << 33]).encode() + b"\n"
    command = [sys.executable, "-m", "workbench.runs.isolated"]
    ended = subprocess.run(command, input=question, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, b"")
