"""The page Pruning in a real browser: ask, watch, see importance; take heads out by the slider."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.drive import still, typed

pytestmark = pytest.mark.browser
SMALL = {
    "Number of steps from all heads to none": "2",
    "Number of train texts on which heads are chosen": "10",
    "Maximum number of fine-tuning steps after removal": "2",
    "Number of random orders": "1",
}


@pytest.mark.slow
def test_curves_are_computed_and_heads_removed_by_the_slider(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/pruning?analysis=Curves&new=1")
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.get_by_text("Advanced").click()
    typed(page, "Maximum number of sentences of each split", "20")
    for label, value in SMALL.items():
        typed(page, label, value)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("panel per order of removal")).to_be_visible()
    expect(page).to_have_url(re.compile("run=head-pruning-"))
    still(page)

    page.get_by_role("tab", name="Live").click()
    expect(page.get_by_test_id("stMetric").first).to_be_visible()
    still(page)
    page.get_by_role("slider").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("gone=5"))
    still(page)
    expect(page.get_by_text(re.compile(r"of \d+ predictions")).first).to_be_visible()
    parameters = page.get_by_test_id("stMetric").filter(has_text="Parameters")
    expect(parameters).to_contain_text("-82,400")  # five heads of mini:bert

    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_test_id("stMetric").filter(has_text="Parameters")).to_contain_text("-82,400")

    page.get_by_role("tab", name="Pruned model").click()
    page.get_by_role("button", name="Create zip").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name=re.compile("Save head-pruning-")).click()
    assert saved.value.suggested_filename.endswith(".zip")
    expect(page.get_by_test_id("stException")).to_have_count(0)
