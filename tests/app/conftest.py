"""The app as a user has it: `workbench app` in a process of its own, and Chromium to look at it."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
START = 60  # seconds the app may take to answer on a busy machine


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the running app, started from a folder that is not the checkout."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("app")
    command = [sys.executable, "-m", "workbench.cli", "app", "--headless", "--port", str(port)]
    with (folder / "log").open("w") as log:
        app = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait(f"http://localhost:{port}/_stcore/health", app, folder / "log")
        yield f"http://localhost:{port}"
    finally:
        app.terminate()
        app.wait(timeout=20)


def _wait(address: str, app: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end and app.poll() is None:
        try:
            urlopen(address, timeout=2).close()
        except URLError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"the app did not answer:\n{log.read_text()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, or a skip that says how to have it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        expect.set_options(timeout=1000 * START)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page, with no memory of the others."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()
