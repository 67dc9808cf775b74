"""The floors, where import-linter cannot see: scripts that are no package, and a bare machine."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOORS = [
    ROOT / "streamlit_app.py",
    *(ROOT / "workbench" / "cli").glob("*.py"),
    *(ROOT / "workbench" / "app").glob("*.py"),
    *(ROOT / "pages").glob("*.py"),
]
MATHS = {"torch", "numpy", "scipy", "sklearn", "transformers", "captum"}


def imported(file: Path) -> set[str]:
    """Every module a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
    return found


def first_parts(modules: set[str]) -> set[str]:
    return {module.split(".")[0] for module in modules}


@pytest.mark.parametrize("door", DOORS, ids=lambda path: path.name)
def test_doors_do_no_maths(door: Path) -> None:
    assert not first_parts(imported(door)) & MATHS


def test_nothing_below_imports_a_page() -> None:
    doors = {"pages", "streamlit_app"}
    for folder in ("workbench", "probes"):
        for file in (ROOT / folder).rglob("*.py"):
            assert not first_parts(imported(file)) & doors, file


def test_every_module_has_its_floor() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    named = set(re.findall(r"workbench[.](\w+)", " ".join(contract["contracts"][0]["layers"])))
    there = {path.stem for path in (ROOT / "workbench").glob("*.py")}
    there |= {path.parent.name for path in (ROOT / "workbench").glob("*/__init__.py")}
    assert there - {"__init__"} <= named


def test_the_finder_of_imports_finds_them(tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text("def show():\n    from torch.nn import functional\n    import numpy as np\n")
    assert first_parts(imported(file)) == {"torch", "numpy"}
