"""`import workbench` is cheap, and what it offers comes when asked for."""

import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import workbench

HEAVY = {"torch", "spacy", "pandas", "numpy", "streamlit", "transformers", "importlib.metadata"}
PROGRAM = f"""
import sys, time
start = time.perf_counter()
import workbench
print(time.perf_counter() - start, *({HEAVY!r} & set(sys.modules)))
"""


def test_import_takes_under_a_fifth_of_a_second_and_imports_nothing_heavy() -> None:
    answers = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(3)
    ]
    assert min(float(seconds) for seconds, *_ in answers) < 0.2
    assert [heavy for _, *heavy in answers] == [[], [], []]


COMPUTES = """
import sys
import workbench as wb
from workbench.core.analysis import announced
for name in announced("functions"):
    getattr(wb, name)
wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks home.").grid().map(0, 0)
print(*{"plotly", "streamlit"} & set(sys.modules))
"""


@pytest.mark.slow  # by day `tests/test_floors.py` looks who imports them
def test_computing_imports_neither_the_drawing_toolkit_nor_the_app() -> None:
    found = subprocess.run([sys.executable, "-c", COMPUTES], capture_output=True, text=True)
    assert (found.returncode, found.stdout.split()) == (0, []), found.stderr


def test_the_app_imports_models_and_corpora_only_when_a_page_needs_them() -> None:
    """Pages open faster, and visitors of a new server do not import the same packages at once."""
    modules = sorted(
        f"workbench.app.{file.stem}" for file in Path(workbench.__path__[0], "app").glob("*.py")
    )
    program = f"""
import sys, importlib
for name in {modules!r}:
    importlib.import_module(name)
print(*{{"torch", "transformers", "spacy", "scipy"}} & set(sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.returncode, found.stdout.split()) == (0, [])


def test_every_public_name_is_there() -> None:
    for name in workbench.__all__:
        assert getattr(workbench, name) is not None
    assert set(workbench.__all__) <= set(dir(workbench))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'workbench' has no attribute 'raed'"):
        _ = workbench.raed


def test_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert workbench.__version__ == project["version"]


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "5000"), ({"GOMP_SPINCOUNT": "1"}, "1"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)],
)
def test_waiting_threads_sleep_soon_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], spins: str | None
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(workbench.__file__))
    assert os.environ.get("GOMP_SPINCOUNT") == spins
