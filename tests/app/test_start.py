"""The first page, in a real browser."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import served
from workbench import Run

pytestmark = pytest.mark.browser


@pytest.mark.slow  # by day test_pages_running has it without a browser
def test_first_page_greets_shows_ways_on_and_the_machine(page: Page, app_url: str) -> None:
    page.goto(app_url)
    expect(page.get_by_role("heading", name="Workbench", exact=True)).to_be_visible()
    for way in ("Look at attention", "Run an experiment", "Browse a corpus", "Open a model"):
        expect(page.get_by_role("link", name=way)).to_be_visible()
    expect(page.get_by_text(re.compile("Python 3[.]"))).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "start.png", full_page=True)
    page.get_by_role("link", name="Run an experiment").click()
    expect(page.get_by_role("heading", name="Run an experiment")).to_be_visible()


@pytest.mark.slow  # by day test_pages_running takes one without a browser
def test_the_tour_outlives_the_page_and_can_be_ended(
    page: Page, app_url: str, runs: Callable[..., Run], app_folder: Path
) -> None:
    page.goto(app_url)
    page.get_by_role("button", name="Run the tour").click()
    expect(page.get_by_text(re.compile("1 of [0-9]+: "))).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Run the tour")).to_be_visible()
    expect(page.get_by_text("The last tour was not finished")).to_be_visible()
    assert not (app_folder / "runs" / "demo.html").exists()


def test_an_app_just_started_knows_its_pages_by_their_addresses(page: Page, tmp_path: Path) -> None:
    """The frame is around the page, and no menu of files, though the first page was never seen."""
    with served(tmp_path) as url:
        page.goto(f"{url}/runs")
        expect(page.get_by_text("There are no runs yet.")).to_be_visible()
        expect(page.get_by_role("link", name="Attention")).to_be_visible()
        expect(page.get_by_text("streamlit app")).to_have_count(0)
