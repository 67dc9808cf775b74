"""A browser to look at reports with."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

WAIT = 60_000  # milliseconds a page may take on a busy machine
DRAWN = "() => [...document.querySelectorAll('.plot')].every(p => p.querySelector('.main-svg'))"


@dataclass
class Seen:
    """What there was to see of a page, and what it did."""

    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    answer: Any = None  # to what JavaScript evaluates


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of files in commands are not kept between tests."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))


Look = Callable[..., Seen]


@pytest.fixture(scope="session")
def look(browser: Browser) -> Look:
    """Open a file from disk, look at it, and close it again."""
    return partial(_look, browser)


def _look(
    browser: Browser,
    file: Path,
    ask: str = "() => null",
    *,
    width: int = 1280,
    scheme: Any = "light",
    scripts: bool = True,
    shot: str = "",
    before: Callable[[Page], object] = lambda page: None,
) -> Seen:
    with opened(browser, file, width=width, scheme=scheme, scripts=scripts) as (page, seen):
        before(page)
        seen.answer = page.evaluate(ask) if scripts else page.content()
        if shot and (folder := os.environ.get("WORKBENCH_SCREENSHOTS")):
            page.screenshot(path=Path(folder) / f"{shot}.png", full_page=True)
    return seen


@contextmanager
def opened(
    browser: Browser, file: Path, *, width: int = 1280, scheme: Any = "light", scripts: bool = True
) -> Iterator[tuple[Page, Seen]]:
    """The file in a page of its own, drawn; and what the page does from then on, too."""
    seen = Seen()
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
    )
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.console.append(message.text))
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    page.on("dialog", lambda dialog: (seen.dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(file.as_uri())
    if scripts:
        page.wait_for_function(DRAWN)
    yield page, seen
    context.close()
