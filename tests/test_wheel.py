"""An installed wheel, with no checkout beside it, has the app and its pages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from workbench.core.machine import app_file

ROOT = Path(__file__).parents[1]
PROGRAM = """
import workbench
from workbench.core.machine import app_file
print(workbench.__file__, app_file(), sep="\\n")
"""


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=cwd, env=environment or None,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The freshly built wheel."""
    built = tmp_path_factory.mktemp("wheel")
    run("-m", "hatchling", "build", "--target", "wheel", "--directory", built)
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which it is installed: unpacked, as pip does with a wheel of pure Python."""
    target = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


@pytest.mark.slow
def test_pip_installs_what_is_in_the_wheel(wheel: Path, installed: Path, tmp_path: Path) -> None:
    quickly = ("--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check")
    run("-m", "pip", "install", *quickly, "--target", tmp_path, wheel)
    there, here = (
        {
            file.relative_to(folder): file.read_bytes()
            for file in folder.rglob("*")
            if file.is_file()
            and not file.is_relative_to(folder / "bin")
            and file.parent.suffix != ".dist-info"
        }
        for folder in (tmp_path, installed)
    )
    assert there == here


def test_installed_packages_find_the_app(installed: Path, tmp_path: Path) -> None:
    answer = run("-c", PROGRAM, cwd=tmp_path, PYTHONPATH=str(installed))
    workbench, app = map(Path, answer.split())
    assert workbench == installed / "workbench" / "__init__.py"
    assert app == installed / "workbench" / "app" / "streamlit_app.py"


def test_installed_app_is_the_checkouts(installed: Path) -> None:
    app = installed / "workbench" / "app"
    for name in ("streamlit_app.py", ".streamlit/config.toml"):
        assert (app / name).read_bytes() == (ROOT / name).read_bytes()
    pages = {path.name for path in (ROOT / "pages").glob("*.py")}
    assert pages == {path.name for path in (app / "pages").glob("*.py")}
    assert "home.py" in pages
    fonts = {path.name for path in (ROOT / "static").iterdir()}
    assert fonts == {path.name for path in (app / "static").iterdir()}
    assert "inter-latin.woff2" in fonts


def test_every_module_is_installed_and_nothing_else(installed: Path) -> None:
    here = {path.relative_to(ROOT) for path in (ROOT / "workbench").rglob("*.py")}
    here.add(Path("lm_workbench.py"))
    there = {path.relative_to(installed) for path in installed.rglob("*.py")}
    added = {Path("workbench/app/streamlit_app.py")}
    added |= {Path("workbench/app/pages") / page.name for page in (ROOT / "pages").glob("*.py")}
    assert there - added == here and added <= there


def test_checkout_finds_its_own_app() -> None:
    assert app_file() == ROOT / "streamlit_app.py"


def test_what_reports_are_made_of_is_installed(installed: Path) -> None:
    here = Path("workbench", "report")
    kinds = {".j2", ".css", ".js"}
    parts = {path.relative_to(ROOT) for path in (ROOT / here).rglob("*") if path.suffix in kinds}
    assert len(parts) > 6
    assert all((installed / part).read_bytes() == (ROOT / part).read_bytes() for part in parts)


@pytest.mark.parametrize(("folder", "models"), [("mini", 4), ("mini-more", 4), ("novels", 2)])
def test_built_in_models_are_installed(installed: Path, folder: str, models: int) -> None:
    here = Path("workbench", "models", folder)
    shipped = {path.relative_to(ROOT / here) for path in (ROOT / here).rglob("*") if path.is_file()}
    there = {path.relative_to(installed / here) for path in (installed / here).rglob("*.*")}
    assert there == shipped
    assert sum(path.suffix == ".safetensors" for path in there) == models


def test_built_in_results_are_installed(installed: Path) -> None:
    here = Path("workbench", "runs", "built_in")
    shipped = {path.relative_to(ROOT / here) for path in (ROOT / here).rglob("*") if path.is_file()}
    there = {path.relative_to(installed / here) for path in (installed / here).rglob("*.*")}
    assert there == shipped
    assert sum(path.name == "spec.json" for path in there) > 30
