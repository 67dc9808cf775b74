"""Both commands start Workbench, or name the other project whose package hides it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
START = "import sys; sys.argv = ['lm-workbench', '--version']; from lm_workbench import command; "


def started(*folders: Path) -> "subprocess.CompletedProcess[str]":
    paths = os.pathsep.join(map(str, (*folders, ROOT)))
    return subprocess.run(
        [sys.executable, "-P", "-c", f"{START}command()"],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip


def test_both_commands_are_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["scripts"] == dict.fromkeys(
        ("workbench", "lm-workbench"), "lm_workbench:command"
    )
    assert "0." in started().stdout


def test_another_project_is_named_with_what_to_do(tmp_path: Path) -> None:
    package = tmp_path / "workbench"
    package.mkdir()
    (package / "__init__.py").write_text("import_of = 'another project'\n")
    done = started(tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "another project" in done.stderr and "pip install lm-workbench" in done.stderr


def test_files_of_both_projects_in_one_folder_are_noticed(tmp_path: Path) -> None:
    """As after `pip install workbench`, which overwrites the files that both have."""
    package = tmp_path / "workbench"
    package.mkdir()
    for path in (ROOT / "workbench").iterdir():
        if path.name != "__init__.py":
            (package / path.name).symlink_to(path)
    (package / "__init__.py").write_text("")
    assert "another project" in started(tmp_path).stderr
