"""A model is asked in a process of its own; whatever is named, the answer is facts or an error."""

from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.runs import apart
from workbench.runs.apart import look


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))


def test_facts_and_parts_add_up() -> None:
    facts = look("mini:elmo", "facts")["facts"]
    parts = look("mini:elmo", "parts")["parts"]
    assert facts["name"] == "mini:elmo" and facts["stacks"][0]["heads"] == 0
    assert sum(parts.values()) == facts["parameters"]
    assert "forward layer 1" in parts and "backward layer 0" in parts
    assert look("mini:elmo", "parts")["parts"] == parts


def test_nothing_is_fetched_unasked() -> None:
    with pytest.raises(WorkbenchError, match="cannot be loaded"):
        look("nobody/has-this", "facts")


@pytest.mark.parametrize("ref", ["mini:nonsense", "a\0b", "train-nonsense"])
def test_nonsense_is_an_error(ref: str) -> None:
    with pytest.raises(WorkbenchError):
        look(ref, "facts")


def test_a_process_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dies = tmp_path / "dies"
    dies.write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    monkeypatch.setattr(apart.sys, "executable", str(dies))
    with pytest.raises(WorkbenchError, match="signal 9"):
        look("mini:bert", "facts")
