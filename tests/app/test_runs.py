"""The page of runs in a real browser: open, save, remove, bring back, compare."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect

from workbench import Run

pytestmark = pytest.mark.browser
Making = Callable[..., Run]


def choose(page: Page, label: str, option: str) -> None:
    """As a person would: a list that closed because the page moved is opened again."""
    for _ in range(5):
        page.wait_for_timeout(300)
        expect(page.get_by_test_id("stApp")).to_have_attribute(
            "data-test-script-state", "notRunning"
        )
        page.get_by_label(label, exact=True).click()
        try:
            page.get_by_role("option", name=option, exact=True).click(timeout=4000)
        except Error:
            page.keyboard.press("Escape")
        else:
            return
    pytest.fail(f"{option} could not be chosen")


def save(page: Page, what: str, how: str) -> Path:
    """The path of the file that was saved."""
    choose(page, "Content", what)
    choose(page, "Format", how)
    page.get_by_role("button", name="Create file").click()
    ending = how.split(",")[0].lower()
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile(f"Save steps-.*[.]{ending}")).click()
    return Path(download.value.path())


def test_a_run_is_opened_from_the_first_page_and_saved(
    page: Page, app_url: str, runs: Making
) -> None:
    run = runs(seed=1, steps=3)
    page.goto(app_url)
    newest = page.get_by_role("link", name="steps", exact=True).first
    expect(newest).to_have_attribute("href", re.compile(run.name))
    newest.click()
    expect(page.get_by_role("heading", name="Table: sums")).to_be_visible()
    assert run.name in page.url
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "runs.png", full_page=True)
    page.get_by_role("tab", name="Settings").click()
    expect(page.get_by_text("workbench run steps")).to_be_visible()
    page.get_by_text("Save a report, table or figure").click()
    page.wait_for_timeout(800)  # until it is unfolded: a list that moves closes
    assert save(page, "Table sums", "CSV").read_text().startswith("step,value,kind\n0,")
    choose(page, "Content", "Report")
    page.get_by_label("Title", exact=True).fill("My sums")
    page.get_by_label("Notes", exact=True).fill("Three steps.")
    page.keyboard.press("Control+Enter")
    report = save(page, "Report", "HTML, one file for any browser").read_text()
    assert run.name in report and "<h1>My sums</h1>" in report and "Three steps." in report
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.slow
def test_a_removed_run_is_brought_back_by_one_click(page: Page, app_url: str, runs: Making) -> None:
    run = runs(seed=2)
    page.goto(f"{app_url}/runs?run={run.name}")
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_text("Removed: steps")).to_be_visible()
    assert not run.path.exists()
    page.goto(f"{app_url}/runs?run={run.name}")
    expect(page.get_by_text("there is no run").first).to_be_visible()
    page.get_by_text("Removed runs").click()
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_role("heading", name="Table: sums")).to_be_visible()
    assert run.status.state == "done" and run.name in page.url


@pytest.mark.slow
def test_two_that_are_ticked_are_laid_side_by_side(page: Page, app_url: str, runs: Making) -> None:
    first, second = runs(seed=3, rows=2), runs(seed=4, rows=2)
    page.goto(f"{app_url}/runs")
    page.get_by_label("Search").fill("steps")
    page.get_by_label("Search").press("Enter")
    expect(page.get_by_text("Tick one run to open it")).to_be_visible()
    for row in (0, 1):  # the newest
        canvas = page.get_by_test_id("stDataFrame").first
        canvas.get_by_test_id("data-grid-canvas").wait_for()
        page.wait_for_timeout(500)  # it is painted
        canvas.click(position={"x": 17, "y": 52 + 35 * row})
        expect(
            page.get_by_role("tab", name="Log").or_(page.get_by_text("Comparison of 2 runs"))
        ).to_be_visible()
    expect(page.get_by_role("heading", name="Comparison of 2 runs")).to_be_visible()
    expect(page.get_by_text("Settings that differ")).to_be_visible()
    assert first.name in page.url and second.name in page.url
    expect(page.get_by_text("Table: sums")).to_be_visible()


@pytest.mark.slow  # by day test_pages_running has them without a browser
@pytest.mark.parametrize("bad", ["../../etc", "%00", "zzz", "<b>x</b>", "-" * 300, "steps-"])
def test_a_bad_address_is_explained(page: Page, app_url: str, bad: str, runs: Making) -> None:
    runs(seed=5), runs(seed=6)
    page.goto(f"{app_url}/runs?run={bad}")
    expect(page.get_by_test_id("stAlert").first).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("Tick one run to open it")).to_be_visible()
