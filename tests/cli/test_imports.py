"""Commands import what they use: no torch or spaCy to look at a run, no pandas without a table."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.runs.api import answered
from workbench.runs.request import make_request

HEAVY = {"torch", "transformers", "spacy", "streamlit"}
TABLES = {"pandas", "pyarrow"}
REQUEST = ["run", "profile", "--model", "mini:bert", "--corpus", "primer:size=200"]
SETTINGS = {"max_sentences": 3}
COMMANDS = {  # in this order, in one process: what is imported stays
    "help": ["--help"],
    "help of a command": ["run", "--help"],
    "models": ["models"],
    "experiments": ["experiments"],
    "experiment": ["experiments", "show", "profile", "--json"],
    "list": ["runs", "list"],
    "list as data": ["runs", "list", "--json"],
    "show as data": ["runs", "show", "profile", "--json"],
    "help of corpora": ["corpora", "--help"],
    "corpora": ["corpora"],
    "answer as data": [*REQUEST, "--max-sentences", "3", "--json"],
    "show": ["runs", "show", "profile"],
    "answer": [*REQUEST, "--max-sentences", "3"],
    "export": ["export", "profile", "losses", "--out", "losses.csv"],
    "report": ["report", "profile", "--out", "report.html"],
}
PROGRAM = """
import contextlib, io, json, sys
from workbench.cli.main import main
imported = {}
for name, arguments in json.loads(sys.argv[1]).items():
    sys.argv = ["workbench", *arguments]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code
    packages = sorted({each.split(".")[0] for each in sys.modules})
    imported[name] = [code, printed.getvalue(), packages]
print(json.dumps(imported))
"""


@pytest.fixture(scope="module")
def imported(
    tmp_path_factory: pytest.TempPathFactory, warm_workers: None
) -> dict[str, tuple[int, str, set[str]]]:
    """Of each command its exit code, what it printed, and the packages that were imported then."""
    folder = tmp_path_factory.mktemp("runs")
    own = {"WORKBENCH_HOME": str(folder / "home"), "WORKBENCH_RUNS": str(folder / "runs")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        answered(make_request("profile", ["mini:bert"], ["primer:size=200"], SETTINGS))
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(COMMANDS)],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return {
        name: (code or 0, said, set(packages)) for name, (code, said, packages) in found.items()
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_that_only_looks_imports_torch_or_spacy(
    name: str, imported: dict[str, tuple[int, str, set[str]]]
) -> None:
    code, said, packages = imported[name]
    assert code == 0, said
    assert not packages & HEAVY
    if "answer" in name:
        assert "computed before" in said


def test_without_tables_nothing_reads_tables(
    imported: dict[str, tuple[int, str, set[str]]],
) -> None:
    assert not imported["answer as data"][2] & TABLES
    assert imported["show"][2] >= TABLES


def test_help_needs_no_settings(imported: dict[str, tuple[int, str, set[str]]]) -> None:
    assert not imported["help"][2] & {"pydantic", "numpy", "huggingface_hub", *TABLES}
