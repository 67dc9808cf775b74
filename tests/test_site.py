"""The documentation site builds, and its generated pages have everything that there is."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

import workbench
from tests.examples import ROOT, site_hooks
from workbench.cli.main import commands as all_commands
from workbench.experiment.definition import EXPERIMENTS, built_in_experiments


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    return site_hooks()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason='mkdocs is not installed: pip install -e ".[docs]"')
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert not (tmp_path / "hooks.py").exists()
    page = (tmp_path / "reference" / "python.html").read_text()
    missing = [name for name in workbench.__all__ if f">{name}<" not in page.replace("wb.", "")]
    assert missing in ([], ["__version__"])
    for path in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', path.read_text()
        )
        assert not loaded, path


def commands(command: Any, name: str) -> list[str]:
    """Every command as one types it, and every option."""
    names = [name] if name else []
    for parameter in command.params:
        names += [option for option in parameter.opts if option.startswith("--")]
    for sub, below in getattr(command, "commands", {}).items():
        names += commands(below, f"{name} {sub}")
    return names


def test_every_command_and_option_is_in_the_reference(hooks: ModuleType) -> None:
    page = hooks.command_line()
    missing = [
        n for n in commands(get_command(all_commands()), "workbench") if f"`{n}`" not in page
    ]
    assert not missing


def test_every_setting_and_table_is_in_the_reference(hooks: ModuleType) -> None:
    settings, tables = hooks.settings(), hooks.tables()
    for name, experiment in EXPERIMENTS.items():
        shown = settings.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert all(f"`{field}`" in shown for field in experiment.settings.model_fields)
        shown = tables.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert all(f"`{table}`" in shown for table in experiment.tables)


def test_every_code_of_an_error_is_in_the_reference(hooks: ModuleType) -> None:
    raised = {
        code
        for package in ("workbench", "probes")
        for path in (ROOT / package).rglob("*.py")
        for code in re.findall(r'\bcode="([\w-]+)"', path.read_text("utf-8"))
    }
    assert raised and raised <= set(re.findall(r"^## `([\w-]+)`$", hooks.errors(), re.MULTILINE))


def test_every_name_of_the_package_is_in_the_reference_and_what_it_returns(
    hooks: ModuleType,
) -> None:
    shown = re.findall(r"heading: (\w+)", hooks.python_api())
    names = set(workbench.__all__) - {"__version__"}
    assert len(shown) == len(set(shown)) and names <= set(shown)
    below = {"LensReading", "Explanation", "Faithfulness", "AttentionMaps", "Grid", "Comparison"}
    assert below <= set(shown) - names


def test_every_experiment_has_a_page() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "analyses").glob("*.md")}
    assert set(built_in_experiments()) <= pages
