"""Remove one analysis from a copy of the repository, and see that everything else works.

    python -m tests.deletable             each analysis in turn
    python -m tests.deletable heads       one of them

What an analysis consists of is its folder, the folder of its tests and its file in `pages/`.
Analyses that declare that they need it go with it. Then the import contracts and the types are
checked, every module is imported, the experiments of the others are listed, each page of the app is
drawn, and the demo says which stops it leaves out. No other
file is edited. The copy has the caches of mypy and of compiled
modules, so only what an analysis changes is computed anew, and checks run side by side. Costs: half
a minute of one core for each, if mypy was run before.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workbench.core.analysis import Analysis, analyses, pages

ROOT = Path(__file__).parents[1]
COPIED = (  # of the repository, with their times, by which caches are valid
    "workbench", "pages", "static", "tests", ".streamlit", ".mypy_cache",
    "lm_workbench.py", "streamlit_app.py", "pyproject.toml", "README.md", "LICENSE",
)  # fmt: skip
AT_ONCE = 2  # checks side by side
LINTED = "from importlinter.cli import lint_imports_command; lint_imports_command()"
IMPORTED = """
import importlib, pkgutil, sys
package = importlib.import_module("workbench")
for module in pkgutil.walk_packages(package.__path__, "workbench."):
    if module.name != "workbench.__main__":
        importlib.import_module(module.name)
print(len(sys.modules))
"""
DRAWN = """
import json, os, sys
from pathlib import Path
from streamlit.testing.v1 import AppTest
wrong = {}
for page in sorted(Path("pages").glob("*.py")):
    app = AppTest.from_file("streamlit_app.py", default_timeout=600)
    app.switch_page(f"pages/{page.name}") if page.stem != "home" else None
    app.run()
    found = [error.value for error in (*app.exception, *app.error)]
    if found:
        wrong[page.stem] = found
print(json.dumps(wrong))
"""
DEMO = """
from workbench.cli import demo
print(len(demo.stops()))
"""


def named() -> list[str]:
    """The analyses by the names of their folders."""
    return [package.rpartition(".")[2] for package in analyses()]


def gone_with(name: str) -> list[Analysis]:
    """The analysis, and those that need it."""
    found = {each.package: each for each in analyses().values()}
    gone = {package for package in found if package.rpartition(".")[2] == name}
    while more := {p for p, each in found.items() if gone.intersection(each.needs)} - gone:
        gone |= more
    return [found[package] for package in found if package in gone]


def parts_of(analysis: Analysis) -> Iterable[str]:
    """The paths that an analysis consists of."""
    folder = analysis.package.replace(".", "/")
    yield folder
    yield f"tests/{folder.removeprefix('workbench/')}"
    for owner, page in pages():
        if owner is analysis:
            yield f"pages/{page.name}.py"


def without(gone: Iterable[Analysis], tree: Path) -> None:
    """Copy what the checks need of the repository, without these analyses."""
    for part in COPIED:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tree / part)
        elif (ROOT / part).is_file():
            shutil.copy2(ROOT / part, tree / part)
    for analysis in gone:
        for part in parts_of(analysis):
            path = tree / part
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def faults_without(name: str) -> list[str]:
    """What is wrong in a repository without this analysis."""
    gone = gone_with(name)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        without(gone, tree)
        around = {
            **os.environ,
            "PYTHONPATH": str(tree),
            "WORKBENCH_HOME": f"{folder}/home",
            "WORKBENCH_RUNS": f"{folder}/runs",
            "WORKBENCH_STARTER": "0",
        }

        def said(command: tuple[str, ...]) -> tuple[str, str]:
            """What a command prints; and if it fails, how."""
            done = subprocess.run(
                [sys.executable, *command], cwd=tree, env=around, capture_output=True, text=True
            )
            failed = (done.stdout + done.stderr)[-3000:] if done.returncode else ""
            return done.stdout, failed

        commands = {
            "mypy": ("-m", "mypy"),
            "pages": ("-c", DRAWN),
            "imports": ("-c", IMPORTED),
            "lint-imports": ("-c", LINTED),
            "experiments": ("-m", "workbench", "experiments", "--json"),
            "demo": ("-c", DEMO),
        }
        with ThreadPoolExecutor(AT_ONCE) as workers:
            printed = dict(zip(commands, workers.map(said, commands.values()), strict=True))
    wrong = {what: failed for what, (_, failed) in printed.items()}
    if not wrong["experiments"]:
        there = {each["name"] for each in json.loads(printed["experiments"][0])["experiments"]}
        removed = {experiment for each in gone for experiment in each.experiments}
        expected = {e for each in analyses().values() for e in each.experiments} - removed
        if there != expected:
            wrong["experiments"] = f"listed: {sorted(there ^ expected)}"
    if not wrong["pages"]:
        drawn = printed["pages"][0]
        wrong["pages"] = "" if drawn.strip().endswith("{}") else drawn
    return [f"{what}: {how}" for what, how in wrong.items() if how]


def main() -> int:
    """Print what is wrong without each analysis; return whether anything is."""
    parser = argparse.ArgumentParser(
        description="Remove one analysis, and see that the rest works."
    )
    parser.add_argument("names", nargs="*", help="Analyses (default: all).")
    asked = parser.parse_args()
    if unknown := set(asked.names) - set(named()):
        parser.error(f"no analysis {', '.join(sorted(unknown))}; known: {', '.join(named())}")
    failed = False
    for name in asked.names or named():
        began = time.monotonic()
        gone = ", ".join(each.package.rpartition(".")[2] for each in gone_with(name))
        print(f"without {gone}: ", end="", flush=True)
        faults = faults_without(name)
        print(
            f"{'; '.join(faults) or 'all is well'} ({time.monotonic() - began:.0f} s)", flush=True
        )
        failed |= bool(faults)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
