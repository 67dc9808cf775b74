"""The page Ask & write, driven as a person would: flip a label, stop a text, choose a piece."""

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.app.drive import still

# By day test_page_ask has it without a browser, and test_predict chooses a word by keyboard.
pytestmark = [pytest.mark.browser, pytest.mark.slow]
DEMOS = json.dumps([["The girls were old.", 0], ["Ben runs.", 1]])
STOPS = """new MutationObserver(() => {
  if (document.querySelector("p[aria-live] b"))
    document.querySelector(".st-key-stop-in-write button")?.click();
}).observe(document, { subtree: true, childList: true });"""  # at the first piece, however fast
WIDTH = "document.querySelector('[data-testid=stMain]').scrollWidth"


def shares(page: Page) -> list[str]:
    return page.locator(".tokens .list .choice .number").all_inner_texts()


def test_a_label_is_flipped_and_a_text_is_lit_up(page: Page, app_url: str) -> None:
    """One visit, since each costs seconds: all tabs, by mouse and keyboard, on a phone too."""
    page.goto(f"{app_url}/ask?view=Prompt&model=mini:gpt&query=Ben+walks.&demos={quote(DEMOS)}")
    expect(page.get_by_text("after 2 demonstrations")).to_be_visible()
    still(page)
    before = shares(page)
    page.get_by_role("button", name="bad", exact=True).click()
    expect(page).to_have_url(re.compile(r"demos=.*Ben\+runs.*0"))
    still(page)
    assert shares(page) != before and page.get_by_text(re.compile("[▲▼] [+−]")).count()
    box = page.get_by_label("Demonstration 2")
    box.fill("")
    box.press_sequentially("Ben sees her.")  # without Enter
    expect(page).to_have_url(re.compile(r"demos=.*Ben\+sees\+her"))
    still(page)
    address = page.url
    page.goto(address)  # the link opens the same demonstrations
    expect(page.get_by_label("Demonstration 2")).to_have_value("Ben sees her.")
    still(page)

    page.goto(f"{app_url}/ask?view=Write&model=novels:gpt&pieces=20&lit=false")
    pieces = page.get_by_role("group", name="What was written")
    expect(pieces.get_by_role("button").first).to_be_visible()
    still(page)
    page.get_by_text("Light up its source").click()
    source = page.get_by_role("group", name="The source")
    expect(source).to_be_visible()
    still(page)
    pieces.get_by_role("button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("piece=1"))
    expect(page.get_by_text("Choices of piece 2")).to_be_visible()

    page.set_viewport_size({"width": 390, "height": 844})
    for tab in ("Write", "Prompt", "Ask"):
        page.get_by_role("tab", name=tab).click()
        still(page)
        assert page.evaluate(WIDTH) <= 390, tab


# On a busy machine the text may be whole before the click arrives.
def test_a_text_is_stopped(page: Page, app_url: str) -> None:
    page.add_init_script(STOPS)
    page.goto(f"{app_url}/ask?view=Write&model=novels:gpt&pieces=100&lit=false")
    expect(page.get_by_text(re.compile(r"Stopped after \d+ pieces"))).to_be_visible()
    still(page)
    pieces = page.get_by_role("group", name="What was written")
    expect(pieces.get_by_role("button").first).to_be_visible()
    assert pieces.get_by_role("button").count() < 100
