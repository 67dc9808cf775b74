"""The switch of a head in a real browser: it acts on all pages, and Back takes it back."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.drive import still

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_head_is_turned_off_on_all_pages_and_back_turns_it_on(page: Page, app_url: str) -> None:
    chips = page.locator(".st-key-context")
    page.goto(f"{app_url}/head?head=3.3")
    expect(page.get_by_text("Turn the head off, and")).to_be_visible()
    still(page)
    for state, probability in (("off", "23.5 %"), ("double", "98.5 %")):
        page.get_by_role("radio", name=state).click()
        expect(page.get_by_text(f"goes from 97.9 % to {probability}")).to_be_visible()
        still(page)
    page.go_back()
    expect(page.get_by_text("goes from 97.9 % to 23.5 %")).to_be_visible()
    expect(chips).to_contain_text("mini:bert@edit:3.3=0")
    page.go_back()
    expect(page.get_by_text("Turn the head off, and")).to_be_visible()
    expect(page).not_to_have_url(re.compile("edit"))
    page.go_forward()
    expect(page.get_by_text("goes from 97.9 % to 23.5 %")).to_be_visible()
    page.get_by_role("link", name="Why? Explain").click()
    expect(page).to_have_url(re.compile("/predict.*edit"))
    expect(page.get_by_text("mini:bert@edit:3.3=0: in the place of “were”")).to_be_visible()


def test_from_a_head_to_its_layer_and_back(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/head?head=3.3&model=mini:bert")
    expect(page.get_by_text("Turn the head off, and")).to_be_visible()
    still(page)
    page.get_by_role("link", name="Layer 3").click()
    expect(page).to_have_url(re.compile("/layer.*layer=3"))
    expect(page.get_by_role("heading", name="Layer 3 of mini:bert")).to_be_visible()
    still(page)
    page.get_by_role("radio", name="off").first.click()
    expect(page.get_by_text("goes from 97.9 % to")).to_be_visible()
    expect(page).to_have_url(re.compile("edit"))
    still(page)
    page.go_back()
    expect(page.get_by_text("Turn it off, and")).to_be_visible()
    expect(page).not_to_have_url(re.compile("edit"))
    page.get_by_role("tab", name="Its heads").click()
    page.get_by_role("link", name="3.2: syntactic").click()
    expect(page.get_by_role("heading", name="Head 3.2 of mini:bert")).to_be_visible()
