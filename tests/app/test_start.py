"""The first page, in a real browser."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_first_page_greets_and_shows_the_machine_and_the_corpus(page: Page, app_url: str) -> None:
    page.goto(app_url)
    expect(page.get_by_role("heading", name="Workbench", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="The built-in corpus")).to_be_visible()
    expect(page.locator("code", has_text=re.compile(r"VERB +root")).first).to_be_visible()
    expect(page.get_by_text(re.compile("Python 3[.]"))).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "start.png", full_page=True)


def test_no_request_leaves_the_machine(page: Page, app_url: str) -> None:
    asked: set[str | None] = set()
    page.on("request", lambda request: asked.add(urlsplit(request.url).hostname))
    page.on("websocket", lambda socket: asked.add(urlsplit(socket.url).hostname))
    page.goto(app_url)
    expect(page.get_by_role("heading", name="Workbench", exact=True)).to_be_visible()
    expect(page.locator("code").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert asked - {None} == {"localhost"}  # None: pictures inside the page itself
