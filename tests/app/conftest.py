"""The app as a user has it: `workbench app` in a process of its own, and Chromium to look at it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from streamlit.components.v2 import manifest_scanner

import workbench as wb
from tests import warm
from tests.runs.conftest import forget_experiments, installed
from workbench import Run
from workbench.runs.launch import cancel, start
from workbench.runs.request import make_request
from workbench.runs.run import all_runs
from workbench.runs.subruns import in_process

APP = ("-m", "workbench.cli.main", "app", "--headless")
CODE = Path(wb.__file__).parents[1]  # the app is started with the code that is tested
START = 60  # seconds the app may take to answer on a busy machine
expect.set_options(timeout=1000 * START)


@pytest.fixture(scope="session", autouse=True)
def components_known() -> Iterator[None]:
    """AppTest reads the metadata of every installed package at each run; once is enough."""
    with pytest.MonkeyPatch.context() as patch:
        scan = cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


@pytest.fixture(scope="session")
def app_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the app is started: not the checkout; its runs and its cache lie here."""
    folder = tmp_path_factory.mktemp("app")
    installed(folder / "site")
    return folder


@pytest.fixture(scope="session")
def app_url(app_folder: Path) -> Iterator[str]:
    """The address of the running app."""
    with forked(app_folder) as url:
        yield url


@pytest.fixture
def runs(
    app_folder: Path, app_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Run]]:
    """Make a run of the experiment `steps` where the app sees it; what is under way is ended."""
    for name, value in _environment(app_folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(app_folder / "site"))
    forget_experiments()

    def made(seed: int = 0, **settings: Any) -> Run:
        spec = make_request("steps", settings=settings, seed=seed).spec
        return start(spec, compute=in_process(lambda requests, on_progress: ((), ())))

    yield made
    for run, now in all_runs():
        if now.under_way:
            cancel(run)
    forget_experiments()


@contextmanager
def served(folder: Path, *options: str, **environment: str) -> Iterator[str]:
    """The app in a process of its own, just started."""
    port = _free_port()
    command = [*APP, "--port", str(port), *options]
    env = {**os.environ, **_environment(folder), **environment}
    with (folder / "log").open("w") as log:
        app = subprocess.Popen(
            [sys.executable, *command], cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=env
        )
    try:
        _wait(port, lambda: app.poll() is None, folder / "log")
        yield f"http://localhost:{port}"
    finally:
        app.terminate()
        app.wait(timeout=20)


@contextmanager
def forked(folder: Path, *program: str, **environment: str) -> Iterator[str]:
    """The app in a process that has torch imported already, which else its first pages wait for.

    `program` is what Python gets in place of `-m workbench.cli.main`.
    """
    port = _free_port()
    command = [*(program or APP[:2]), *APP[2:], "--port", str(port)]
    around = {**os.environ, **_environment(folder), **environment}
    with (folder / "log").open("w") as log:
        app = warm.start(*command, output=log.fileno(), folder=folder, **around)
    try:
        _wait(port, app.is_alive, folder / "log")
        yield f"http://localhost:{port}"
    finally:
        app.terminate()
        app.join(20)
        assert not app.is_alive()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port: int = free.getsockname()[1]
    return port


def _environment(folder: Path) -> dict[str, str]:
    return {
        "WORKBENCH_RUNS": str(folder / "runs"),
        "WORKBENCH_HOME": str(folder / "home"),
        "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(CODE)]),
    }


def _wait(port: int, is_alive: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end and is_alive():
        try:
            urlopen(f"http://localhost:{port}/_stcore/health", timeout=2).close()
        except OSError:  # not yet, or too busy to answer in time
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"the app did not answer:\n{log.read_text()}")


@pytest.fixture(scope="session")
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """One visitor for all tests: the app's scripts are fetched and compiled once."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    """A fresh page, with no memory of the others."""
    page = visitor.new_page()
    page.set_default_timeout(1000 * START)
    yield page
    if page.url.startswith("http"):
        page.evaluate("localStorage.clear(), sessionStorage.clear()")
    page.close()
    visitor.clear_cookies()
