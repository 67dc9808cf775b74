"""pytest ends with what it did not test and the command that adds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.not_tested import NEEDS, lines

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.mark.parametrize("reason", [
    "no Chromium; on Debian: apt-get install chromium", "set WORKBENCH_DATA to a folder",
    "needs public corpora: set WORKBENCH_DATA", "there is no GPU",
])
def test_skips(reason):
    pytest.skip(reason)

@pytest.mark.slow
def test_slow():
    assert False

def test_passes():
    pass
"""


@pytest.mark.parametrize("processes", ["0", pytest.param("2", marks=pytest.mark.slow)])
def test_it_says_what_was_not_tested(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_tiny.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\naddopts = -m 'not slow'\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.not_tested", "-n", processes, "."],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout.partition("not tested")[2].splitlines()
    assert shown[1:5] == [
        "needs a browser (1): apt-get install chromium",
        "needs public corpora (2): WORKBENCH_DATA=FOLDER pytest",
        "needs a GPU (1): python -m tests.gpu, where there is one",
        "slow (1): pytest -m slow",
    ]


def test_there_are_six_lines_at_most_and_none_if_all_was_tested() -> None:
    packages = ["mkdocs is missing: pip install x", "h5py is missing: pip install y"]
    reasons = ["no Chromium", "set WORKBENCH_DATA", "no CUDA device", "needs root", "no such file"]
    found = lines([*reasons, *packages, *packages], slow=3)
    assert len(found) == len(NEEDS) + 2 == 6
    assert "needs a package (4): pip install x, pip install y" in found
    assert "other reasons (2): pytest -rs" in found
    assert lines([], slow=0) == []
