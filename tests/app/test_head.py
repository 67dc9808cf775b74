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
