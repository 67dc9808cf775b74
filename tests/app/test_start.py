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
def test_first_page_shows_a_sentence_and_ways_on(page: Page, app_url: str) -> None:
    page.goto(app_url)
    title = "See what a language model does with your sentence"
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^head "))).to_have_count(16)
    expect(page.get_by_text("in the place of")).to_be_visible()
    for way in ("Browse attention", "Probe a model", "Compare fine-tuning"):
        expect(page.get_by_role("link", name=way)).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "start.png", full_page=True)
    page.get_by_role("link", name="head 3.2").click()
    expect(page).to_have_url(re.compile("/attention.*head=3.2"))


@pytest.mark.slow  # by day test_pages_running takes one without a browser
def test_the_tour_outlives_the_page_and_can_be_ended(
    page: Page, app_url: str, runs: Callable[..., Run], app_folder: Path
) -> None:
    page.goto(app_url)
    page.get_by_role("button", name="Make the report").click()
    expect(page.get_by_text(re.compile("1 of [0-9]+: "))).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Make the report")).to_be_visible()
    expect(page.get_by_text("The last one was not finished")).to_be_visible()
    assert not (app_folder / "runs" / "demo.html").exists()


@pytest.mark.slow  # by day test_pages opens each page by its address
def test_an_app_just_started_knows_its_pages_by_their_addresses(page: Page, tmp_path: Path) -> None:
    """The frame is around the page, and no menu of files, though the first page was never seen."""
    with served(tmp_path) as url:
        page.goto(f"{url}/runs")
        expect(page.get_by_text("There are no runs yet.")).to_be_visible()
        page.get_by_text("Understand").click()
        expect(page.get_by_role("menuitem", name="Attention")).to_be_visible()
        expect(page.get_by_text("streamlit app")).to_have_count(0)


@pytest.mark.slow
def test_the_guided_tour_has_five_steps_and_ends_with_ones_own_sentence(
    page: Page, app_url: str
) -> None:
    page.goto(app_url)
    page.get_by_role("link", name=re.compile("^Take the tour")).click()
    for number in range(1, 6):
        expect(page.get_by_text(f"{number} of 5.")).to_be_visible()
        expect(page.get_by_test_id("stException")).to_have_count(0)
        if number < 5:
            page.get_by_role("link", name="Next", exact=True).click()
    page.get_by_role("textbox", name="Your sentence").fill("Birds sing.")
    expect(page.get_by_text("Birds", exact=True)).to_be_visible()
    page.get_by_role("button", name="End the tour").click()
    expect(page.get_by_text("5 of 5.")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("tour="))
