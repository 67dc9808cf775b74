"""From labelled texts to a smaller model and its files, on the page "What can I cut?"."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.drive import still

pytestmark = [pytest.mark.browser, pytest.mark.slow]
DONE = 600_000  # milliseconds that the run may take on a busy machine


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"cut-{name}.png", full_page=True)


def test_the_page_ends_in_a_report_and_a_model(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/cut?model=mini:bert&corpus=primer/sentiment:size%3D600")
    still(page)
    bound = page.get_by_role("textbox", name="Share of the score to keep")
    bound.fill("most of it")
    bound.press("Enter")
    expect(
        page.get_by_text(re.compile("^smaller-model: .* this is not a share")).first
    ).to_be_visible()
    bound.fill("80%")
    bound.press("Enter")
    page.get_by_text("Quick", exact=True).click()
    still(page)
    expect(page.get_by_text(re.compile("stages, about"))).to_be_visible()
    picture(page, "form")
    run = page.get_by_role("button", name="Run", exact=True)
    expect(run).to_be_enabled()
    run.click()
    report = page.get_by_role("button", name="Report of one page")
    expect(report).to_be_visible(timeout=DONE)
    still(page)
    picture(page, "result")
    with page.expect_download() as download:
        report.click()
    assert "What was lost" in Path(download.value.path()).read_text()
    page.get_by_role("button", name="Export model").click()
    expect(page.get_by_role("button", name="Save zip")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
