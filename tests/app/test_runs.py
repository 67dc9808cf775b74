"""The page of runs in a real browser: open, save, remove, bring back, compare."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.drive import still
from workbench import Run

pytestmark = pytest.mark.browser
Making = Callable[..., Run]


def save(page: Page, ending: str) -> Path:
    """The path of the file that was saved by one click."""
    with page.expect_download() as download:
        page.get_by_role("button", name=ending, exact=True).first.click()
    return Path(download.value.path())


@pytest.mark.slow  # by day test_result and test_page_home have it without a browser
def test_a_run_is_opened_from_the_first_page_and_saved(
    page: Page, app_url: str, runs: Making
) -> None:
    run = runs(seed=1, steps=3)
    page.goto(app_url)
    newest = page.get_by_role("link", name="steps", exact=True).first
    expect(newest).to_have_attribute("href", re.compile(run.name))
    newest.click()
    expect(page.get_by_text("Data tables")).to_be_visible()
    assert run.name in page.url
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "runs.png", full_page=True)
    page.get_by_text("Settings, command and log").click()
    expect(page.get_by_text("workbench run steps").last).to_be_visible()
    page.get_by_text("Data tables").click()
    still(page)
    expect(page).to_have_url(re.compile("tables=true"))
    page.goto(f"{page.url}&table=sums")
    still(page)
    assert save(page, "CSV").read_text().startswith("step,value,kind\n0,")
    page.get_by_role("button", name="Export").click()
    page.get_by_text("With your own title and notes").click()
    page.get_by_label("Title", exact=True).fill("My sums")
    page.get_by_label("Notes", exact=True).fill("Three steps.")
    page.keyboard.press("Control+Enter")
    still(page)
    report = save(page, "HTML").read_text()
    assert run.name in report and "<h1>My sums</h1>" in report and "Three steps." in report
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.slow
def test_a_removed_run_is_brought_back_by_one_click(page: Page, app_url: str, runs: Making) -> None:
    run = runs(seed=2)
    page.goto(f"{app_url}/runs?run={run.name}")
    page.get_by_text("Settings, command and log").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("Removed: steps")).to_be_visible()
    assert not run.path.exists()
    page.goto(f"{app_url}/runs?run={run.name}")
    expect(page.get_by_text("There is no run").first).to_be_visible()
    page.get_by_text("Removed runs").click()
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("Data tables")).to_be_visible()
    assert run.status.state == "done" and run.name in page.url


@pytest.mark.slow
def test_two_that_are_ticked_are_laid_side_by_side(page: Page, app_url: str, runs: Making) -> None:
    first, second = runs(seed=3, rows=2), runs(seed=4, rows=2)
    page.goto(f"{app_url}/runs")
    page.get_by_label("Search").fill("steps")
    page.get_by_label("Search").press("Enter")
    expect(page.get_by_text("tick several to compare them")).to_be_visible()
    for run in (first, second):
        still(page)
        page.get_by_role("checkbox", name=f"Compare {run.name}").check(force=True)
    still(page)
    page.get_by_role("button", name="Compare 2 runs").click()
    expect(page.get_by_role("heading", name="Comparison of 2 runs")).to_be_visible()
    expect(page.get_by_text("Settings that differ")).to_be_visible()
    assert first.name in page.url and second.name in page.url
    expect(page.get_by_role("heading", name="Tables")).to_be_visible()
    expect(page.get_by_role("combobox", name="Table").last).to_be_visible()


@pytest.mark.slow  # by day test_pages_running has them without a browser
@pytest.mark.parametrize("bad", ["../../etc", "%00", "zzz", "<b>x</b>", "-" * 300, "steps-"])
def test_a_bad_address_is_explained(page: Page, app_url: str, bad: str, runs: Making) -> None:
    runs(seed=5), runs(seed=6)
    page.goto(f"{app_url}/runs?run={bad}")
    expect(page.get_by_test_id("stAlert").first).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("Click one to open it")).to_be_visible()
