"""Running an experiment from its form in a real browser: as one would, and as one would not."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.app.conftest import START
from tests.app.drive import still
from workbench import Run

# By day test_pages_running has all of it without a browser.
pytestmark = [pytest.mark.browser, pytest.mark.slow]
Making = Callable[..., Run]
PAUSE = "Seconds that a step takes"  # the label of a setting


def typed(page: Page, label: str, value: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(value)
    box.press("Enter")
    still(page)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def keep(page: Page, name: str) -> None:
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_run_watched_reloaded_seen_by_two_cancelled_and_resumed(
    page: Page, browser: Browser, app_url: str, runs: Making
) -> None:
    page.goto(f"{app_url}/experiments?experiment=steps")
    expect(page.get_by_text("Draws numbers, step by step.")).to_be_visible()
    page.get_by_text("Advanced").click()
    typed(page, "How many steps there are", "12")
    typed(page, PAUSE, "0.1")
    # however slow the machine, it is under way until it is cancelled
    typed(page, "The step at which it waits to be cancelled and resumed", "8")
    expect(page.get_by_text("--set=pause=0.1")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text(re.compile("steps: [0-9]+ of 12"))).to_be_visible()
    assert "run=steps-" in page.url
    keep(page, "experiments")

    other = browser.new_page()
    other.set_default_timeout(1000 * START)
    other.goto(page.url)
    expect(other.get_by_role("button", name="Cancel")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="New run").click()
    page.get_by_text("Advanced").click()
    expect(page.get_by_label(PAUSE, exact=True)).to_have_value("0.1")  # as the opened run
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(other.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Export")).to_be_visible()
    expect(page.get_by_text("Data tables")).to_be_visible()
    expect(page.get_by_text("Numbers are drawn.").first).to_be_visible()
    other.close()

    page.get_by_role("button", name="New run").click()
    page.get_by_role("button", name="Show result").click()
    expect(page.get_by_text("its stored result is shown")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_what_does_not_fit_is_said_before_it_is_run(page: Page, app_url: str) -> None:
    form = f"{app_url}/experiments?experiment=attention-averages&corpus=primer:size%3D60"
    page.goto(form)
    expect(page.get_by_text("Ready to run")).to_be_visible()  # there is no result
    page.goto(f"{form}&model=mini:elmo")
    expect(page.get_by_text("attention-averages needs attention heads")).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("experiment=steps&run=../../etc", "cannot be the name of a run"),
        ("experiment=profile&model=**x**:red[y]", "**x**:red[y]"),
        ("experiment=zzz", "an experiment that does not exist"),
        ("experiment=steps&run=steps-zzz", "There is no run"),
        ("experiment=profile&model=nonsense/x/y", "There is no model"),
        ("experiment=describe&corpus=../../etc/zzz", "zzz"),
        ("experiment=profile&model=%00", "["),
    ],
)
def test_a_bad_address_is_explained(page: Page, app_url: str, address: str, said: str) -> None:
    page.goto(f"{app_url}/experiments?{address}")
    expect(page.get_by_text(said).first).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
