"""The floors, where import-linter cannot see: scripts that are no package, and a bare machine."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import grimp
import pytest

from workbench.core.analysis import Analysis, analyses, is_built_in

ROOT = Path(__file__).parents[1]
ANALYSES = [each for each in analyses().values() if is_built_in(f"{each.package}.")]


def folder_of(analysis: Analysis) -> Path:
    return ROOT / analysis.package.replace(".", "/")


VIEWS, FIGURES, COMMANDS = ("views", "browser"), ("figures",), ("commands",)  # files or folders
DOORS = [
    ROOT / "streamlit_app.py",
    *(ROOT / "workbench" / "cli").glob("*.py"),
    *(ROOT / "workbench" / "app").rglob("*.py"),
    *(ROOT / "pages").glob("*.py"),
    *(file for each in ANALYSES for file in folder_of(each).glob("views.py")),
    *(file for each in ANALYSES for file in folder_of(each).glob("views/*.py")),
]
MATHS = {"torch", "numpy", "scipy", "sklearn", "transformers", "captum"}
FOR_VIEWS = ("streamlit", "workbench.app", "workbench.report")
FOR_FIGURES = ("plotly", "workbench.drawing")
FOR_COMMANDS = ("typer", "rich", "workbench.cli")


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # of a statement


def imported(file: Path, for_types: bool = True, later: bool = True) -> set[str]:
    """Every module a file imports: also for types alone, and later, when a function is called."""
    return {
        name
        for name, is_for_types, is_later in _imports(file)
        if (for_types or not is_for_types) and (later or not is_later)
    }


@cache
def _imports(file: Path) -> list[tuple[str, bool, bool]]:
    """Each of them, with whether it is for types alone, and whether it is in a function."""
    found: list[tuple[str, bool, bool]] = []
    nodes: list[tuple[ast.AST, bool, bool]] = [(ast.parse(file.read_text()), False, False)]
    while nodes:
        node, for_types, later = nodes.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
            for_types = for_types or node.test.id == "TYPE_CHECKING"
        later = later or isinstance(node, ast.FunctionDef)
        nodes += [
            (child, for_types, later) for name in BLOCKS for child in getattr(node, name, ())
        ]  # nothing in an expression imports
        names: set[str] = set()
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
        found += [(name, for_types, later) for name in names]
    return found


def first_parts(modules: set[str]) -> set[str]:
    return {module.split(".")[0] for module in modules}


@pytest.mark.parametrize("door", DOORS, ids=lambda path: path.name)
def test_doors_do_no_maths(door: Path) -> None:
    assert not first_parts(imported(door)) & MATHS


def parts(folder: Path) -> list[tuple[Path, str]]:
    """The files of an analysis, each with the file or folder at its top that it belongs to."""
    return [(f, f.relative_to(folder).with_suffix("").parts[0]) for f in folder.rglob("*.py")]


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.package)
def test_only_views_know_the_app_only_figures_the_toolkit_and_only_commands_the_terminal(
    analysis: Analysis,
) -> None:
    for file, part in parts(folder_of(analysis)):
        for prefixes, allowed, for_types in (
            (FOR_VIEWS, VIEWS, True),
            (FOR_FIGURES, (*FIGURES, *VIEWS), False),  # `figure() -> Figure` names the type
            (FOR_COMMANDS, COMMANDS, True),
        ):
            found = imported(file, for_types)
            wrong = {
                name for name in found if f"{name}.".startswith(tuple(f"{p}." for p in prefixes))
            }
            assert part in allowed or not wrong, (file, wrong)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.package)
def test_computation_imports_figures_only_when_one_is_drawn(analysis: Analysis) -> None:
    """An object draws itself: its method `figure` imports `figures` of its analysis, so that
    computing needs no toolkit."""
    for file, part in parts(folder_of(analysis)):
        found = imported(file, for_types=False, later=False)
        figures = f"{analysis.package}.figures"
        wrong = {name for name in found if f"{name}.".startswith(f"{figures}.")}
        assert part in (*FIGURES, *VIEWS) or not wrong, (file, wrong)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.package)
def test_an_analysis_imports_only_those_that_it_says_it_needs(analysis: Analysis) -> None:
    others = {other.package for other in ANALYSES if other is not analysis} - {*analysis.needs}
    for file in folder_of(analysis).rglob("*.py"):
        found = {o for name in imported(file) for o in others if f"{name}.".startswith(f"{o}.")}
        assert not found, (file, found)


def test_what_is_not_an_analysis_names_none() -> None:
    packages = tuple(f"{analysis.package}." for analysis in ANALYSES)
    for file in (ROOT / "workbench").rglob("*.py"):
        if "analyses" not in file.parts:
            found = {name for name in imported(file) if f"{name}.".startswith(packages)}
            assert not found, (file, found)


@pytest.fixture(scope="module")
def graph() -> Any:
    return grimp.build_graph(
        "workbench", include_external_packages=True, exclude_type_checking_imports=True
    )


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.package)
@pytest.mark.parametrize("heavy", ["spacy", "streamlit"])
def test_bare_modules_run_where_only_torch_is(analysis: Analysis, heavy: str, graph: Any) -> None:
    for module in analysis.bare:
        assert graph.find_shortest_chain(f"{analysis.package}.{module}", heavy) is None, module


def test_nothing_below_imports_a_page() -> None:
    doors = {"pages", "streamlit_app"}
    for file in (ROOT / "workbench").rglob("*.py"):
        assert not first_parts(imported(file)) & doors, file


def test_every_module_has_its_floor() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    named = set(re.findall(r"workbench[.](\w+)", " ".join(contract["contracts"][0]["layers"])))
    there = {path.stem for path in (ROOT / "workbench").glob("*.py")}
    there |= {path.parent.name for path in (ROOT / "workbench").glob("*/__init__.py")}
    assert there - {"__init__"} <= named


def test_the_finder_of_imports_finds_them(tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text(
        "import re\nif TYPE_CHECKING:\n    import plotly\n"
        "class Page:\n    import json\n"
        "    def show():\n        from torch.nn import functional\n        import numpy as np\n"
    )
    assert first_parts(imported(file)) == {"re", "plotly", "json", "torch", "numpy"}
    assert first_parts(imported(file, for_types=False, later=False)) == {"re", "json"}
