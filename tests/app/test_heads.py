"""The page Heads in a real browser: ask, click a head, read what speaks for it, go to Attention."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import _environment
from tests.app.drive import still, typed
from workbench.runs.launch import cancel
from workbench.runs.run import all_runs

pytestmark = pytest.mark.browser
SHUFFLES = "Number of shuffled trees for the permutation null"
BOOTSTRAP = "Number of bootstrap samples of documents"


@pytest.fixture
def ended(app_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test leaves under way is ended."""
    yield
    for name, value in _environment(app_folder).items():
        monkeypatch.setenv(name, value)
    for run, now in all_runs():
        if now.under_way and now.experiment == "heads":
            cancel(run)


def chosen(page: Page, label: str, name: str) -> None:
    box = page.get_by_role("combobox", name=re.compile(label))
    box.click()
    box.press_sequentially(name)
    page.get_by_role("option", name=name, exact=True).click()
    still(page)


def keep(page: Page, name: str) -> None:
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"heads-{name}.png", full_page=True)


@pytest.mark.slow
def test_a_run_is_started_and_a_head_is_followed_to_its_attention(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/heads?new=1")
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.get_by_text("Advanced").click()
    typed(page, "Maximum number of sentences of the split", "30")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Colour: the main role of each head")).to_be_visible()
    expect(page).to_have_url(re.compile("run=heads-"))
    still(page)

    cells = page.locator(".js-plotly-plot").first.locator(".nsewdrag").first
    box = cells.bounding_box()
    assert box is not None
    # head 2 of layer 1, of four by four
    cells.click(position={"x": box["width"] * 5 / 8, "y": box["height"] * 3 / 8})
    expect(page.get_by_role("heading", name="Head 2.3")).to_be_visible()
    expect(page).to_have_url(re.compile("head=2.3"))
    still(page)
    chosen(page, "Relation", "nsubj")
    expect(
        page.get_by_text(re.compile("30 stored sentences have [1.10]+ words with nsubj"))
    ).to_be_visible()
    keep(page, "evidence")

    address = page.url
    page.goto("about:blank")
    page.goto(f"{address}&colour=confidence")
    expect(page.get_by_role("heading", name="Head 2.3")).to_be_visible()
    expect(
        page.get_by_text(re.compile("30 stored sentences have [1.10]+ words with nsubj"))
    ).to_be_visible()
    expect(page.get_by_text("Confidence: mean largest attention weight")).to_be_visible()
    still(page)
    page.get_by_role("link", name="Show in Attention").click()
    expect(page).to_have_url(re.compile("/attention"))
    expect(page.get_by_role("heading", name="Head 2.3")).to_be_visible()
    scores = page.locator("[data-painted] option", has_text=re.compile(r"^entropy \(heads-"))
    expect(scores).to_have_count(1)
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.slow  # as on the page Experiments, which is tested each time
def test_a_run_is_cancelled(page: Page, app_url: str, ended: None) -> None:
    page.goto(f"{app_url}/heads?new=1")
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.get_by_text("Advanced").click()
    typed(page, SHUFFLES, "5000")  # it cannot end before it is cancelled
    typed(page, BOOTSTRAP, "5000")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
