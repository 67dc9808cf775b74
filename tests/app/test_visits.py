"""What people come for, played in a browser at three sizes, light and dark, clicks counted.

The researcher's curve is in test_clicks, the engineer's smaller classifier in test_smaller_model.
"""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.drive import still
from tests.app.test_clicks import Clicks
from workbench.app.frame import lessons

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCREENS = ((1280, 800, "light"), (1920, 1080, "dark"), (390, 844, "dark"))


@pytest.fixture(params=SCREENS, ids=lambda screen: f"{screen[0]}-{screen[2]}")
def seen(request: pytest.FixtureRequest, page: Page) -> Page:
    """A page in a window of this size, in this theme."""
    width, height, scheme = request.param
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    return page


def looked_at(page: Page, name: str) -> None:
    """Nothing failed and nothing is wider than the window; a picture if one is wanted."""
    still(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    wide = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    assert wide <= 1, f"{wide} pixels beyond the window"
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        size = page.viewport_size or {"width": 0}
        page.screenshot(path=Path(folder) / f"visit-{name}-{size['width']}.png")


def test_a_visitor_turns_a_head_off_within_four_clicks(seen: Page, app_url: str) -> None:
    seen.goto(app_url)
    click = Clicks(seen)
    seen.get_by_role("textbox", name="Your sentence").fill("The girls did not see it.")
    expect(seen.get_by_text("in the place of").first).to_be_visible()
    looked_at(seen, "sentence")
    click(seen.get_by_role("link", name="head 1.1").first)
    expect(seen.get_by_role("heading", name="Head 1.1")).to_be_visible()
    looked_at(seen, "head")
    assert click.count <= 4


def test_a_lecturer_presents_a_lesson_with_one_click_and_keys(seen: Page, app_url: str) -> None:
    seen.goto(f"{app_url}/lessons")
    click = Clicks(seen)
    click(seen.get_by_role("link", name="Present").first)
    steps = len(lessons.HEADS.steps)
    for number in range(1, steps + 1):
        expect(seen.get_by_text(f"{number} of {steps}.")).to_be_visible()
        looked_at(seen, f"lecture-{number}")
        if number < steps:
            seen.locator("body").press("PageDown")
    assert click.count == 1


def test_a_student_solves_a_lesson_that_was_given_as_a_link(seen: Page, app_url: str) -> None:
    seen.goto(f"{app_url}/?lesson=what-heads-do&tour=1")
    click, steps, solved = Clicks(seen), lessons.HEADS.steps, 0
    for number, step in enumerate(steps, 1):
        expect(seen.get_by_text(f"{number} of {len(steps)}.")).to_be_visible()
        still(seen)
        if task := step.task:
            card = seen.locator(".st-key-tour-card")
            if task.choices:
                card.get_by_text(task.answers[0], exact=True).click()
            else:
                card.get_by_role("textbox").fill(task.answers[0])
            click(card.get_by_role("button", name="Check"))
            expect(card.get_by_text("Right.")).to_be_visible()
            solved += 1
            expect(card.get_by_text(re.compile(f"{solved} of 5 tasks solved"))).to_be_visible()
            looked_at(seen, f"student-{number}")
        if number < len(steps):
            click(seen.locator(".st-key-lesson-next").locator("a, button"))
    assert click.count <= 2 * len(steps)
