"""A question from Home to its answer in a browser, and again by its address."""

import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect

from tests.app.drive import still

pytestmark = [pytest.mark.browser, pytest.mark.slow]
DONE = 600_000  # milliseconds that the runs may take on a busy machine
INPUTS = "model=mini:gpt&other=mini:llama&corpus=primer:size%3D300"


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"questions-{name}.png", full_page=True)


def test_a_question_is_asked_by_the_keyboard_and_ends_in_its_answer(
    page: Page, app_url: str
) -> None:
    page.goto(f"{app_url}/questions?{INPUTS}")
    question = page.get_by_role("button", name="Which model is better, and at what?")
    question.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Which model is better, and at what?")).to_be_visible()
    still(page)
    picture(page, "start")
    quick = page.get_by_role("button", name=re.compile("^.*Quick look"))
    expect(quick).to_be_enabled()
    quick.focus()
    page.keyboard.press("Enter")
    answer = page.get_by_text(re.compile("is better on|undecided which is better"))
    expect(answer.first).to_be_visible(timeout=DONE)
    still(page)
    picture(page, "answer")
    expect(page.get_by_role("button", name="Export")).to_be_visible()
    expect(page.get_by_role("link", name="Both side by side")).to_be_visible()
    said = answer.first.inner_text()

    address = unquote(page.url)
    assert "question=better" in address and "other=mini:llama" in address
    page.goto(f"{app_url}/questions?question=better&{INPUTS}")  # without the names of the runs
    expect(page.get_by_text(said).first).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
