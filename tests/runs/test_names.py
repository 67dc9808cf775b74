"""Names that try to leave the folder are refused, wherever one is taken."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.conftest import Asking, contents, done_here
from workbench import Result, WorkbenchError
from workbench.experiment import Table
from workbench.runs.launch import start
from workbench.runs.run import Run, all_runs, open_run, run_names, write
from workbench.runs.spec import LONGEST, checked, inside, is_name

LEAVING = [
    "../x",
    "..",
    ".",
    "a/../../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\0b",
    "",
    " ",
    ".hidden",
    "-option",
    "a\n",
    "a..b",
    "x" * (LONGEST + 1),
    "x" * 100_000,
    "~root",
    "é",
    "\udcff",
    "a\u202eb",
    None,
    7,
    Path("a"),
]


@pytest.fixture
def run(asking: Asking) -> Run:
    return done_here(asking())


def test_such_a_name_is_refused_everywhere(run: Run, tmp_path: Path) -> None:
    for name in LEAVING:
        require_refused(name, run, tmp_path)


def require_refused(name: Any, run: Run, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match=r"name-invalid|wrong-type"):
        open_run(name)
    for kind in (run.tables, run.arrays, run.figures):
        with pytest.raises(WorkbenchError, match="name-invalid"):
            kind[name]
        assert name not in kind
    result = Result({name: pd.DataFrame({"a": [1]})})
    with pytest.raises(WorkbenchError, match="name-invalid"):
        write(tmp_path / "new", result, {name: Table("", ())})
    with pytest.raises(WorkbenchError, match="name-invalid"):
        write(tmp_path / "new", Result({}, {name: np.zeros(1)}), {})
    with pytest.raises(WorkbenchError):
        inside(tmp_path, name, ".csv", "table")


@given(st.text(max_size=150))
def test_what_is_a_name_stays_in_its_folder(name: str) -> None:
    if is_name(name):
        assert checked(name, "run") == name
        assert os.path.normpath(f"/runs/{name}") == f"/runs/{name}" and name.isascii()


@pytest.mark.parametrize(
    "what", ["tables", "tables/values.parquet", "provenance.json", "spec.json"]
)
def test_a_link_inside_a_run_is_not_followed(what: str, run: Run, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    (run.path / what).rename(aside)
    (run.path / what).symlink_to(aside)
    opened = open_run(run.name)
    with pytest.raises(WorkbenchError, match="links are not followed"):
        _ = opened.spec if what == "spec.json" else opened.tables["values"]


def test_a_link_in_the_place_of_a_run_is_no_run(
    run: Run, asking: Asking, place: Path, tmp_path: Path
) -> None:
    aside = tmp_path / "aside"
    run.path.rename(aside)
    run.path.symlink_to(aside)
    assert run_names() == [] and all_runs() == []
    before = contents(Run(aside))
    for refused in (lambda: open_run(run.name), lambda: start(asking())):
        with pytest.raises(WorkbenchError, match="links are not followed"):
            refused()  # type: ignore[no-untyped-call]
    assert contents(Run(aside)) == before


@pytest.mark.parametrize("what", ["status.json", "log.txt", "events.jsonl", "spec.json", "cancel"])
def test_nothing_is_written_through_a_link(what: str, asking: Asking, tmp_path: Path) -> None:
    folder = Run(Path(os.environ["WORKBENCH_RUNS"]) / asking().name).path
    folder.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (folder / what).symlink_to(victim)
    with suppress(WorkbenchError):
        start(asking())
    assert victim.read_text() == "mine"


def test_a_run_is_found_by_how_its_name_begins(run: Run) -> None:
    assert open_run(run.name[:9]).path == run.path
    with pytest.raises(WorkbenchError, match="Did you mean"):
        open_run(run.name[:-1] + "x")
    with pytest.raises(WorkbenchError, match="there is no run"):
        open_run("nothing")


def test_a_table_that_is_not_there_says_which_are(run: Run) -> None:
    with pytest.raises(KeyError) as raised:
        run.tables["value"]
    assert "Did you mean 'values'?" in str(raised.value)
    assert run.tables.get("value") is None and list(run.tables) == ["values", "sums"]
