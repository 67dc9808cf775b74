"""The shell in a real browser: chips and their pickers, the address, the theme, presentations."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import workbench as wb
from tests.app.drive import still

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MINI_BERT = Path(wb.__file__).parent / "models" / "mini" / "bert"
BUILT_IN = "run=built-in/heads-mini-bert"


def test_the_address_is_what_the_chips_show(page: Page, app_url: str) -> None:
    """An opened run sets the chips; the model of the address before does not come back."""
    chips, title = page.locator(".st-key-context"), page.locator("h1")
    page.goto(f"{app_url}/heads?model=mini:gpt&{BUILT_IN}")
    expect(title).to_have_text("Attention heads of mini:bert on primer")
    expect(page).not_to_have_url(re.compile("model="))
    page.reload()
    expect(chips).to_contain_text("mini:bert")
    page.goto(f"{app_url}/settings?model=mini:gpt")
    page.get_by_test_id("stTopNav").get_by_text("Home").click()
    expect(page).to_have_url(re.compile("/[?]model=mini"))
    page.reload()
    expect(chips).to_contain_text("mini:gpt")
    page.go_back()
    expect(page).to_have_url(re.compile("/settings[?]model=mini"))
    expect(chips).to_contain_text("mini:gpt")


def test_a_picker_closes_after_each_choice_and_takes_the_focus(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/settings?corpus=primer:size%3D200")
    still(page)
    picker, chip = (
        page.get_by_test_id("stPopoverBody"),
        page.locator(".st-key-context button:visible").first,
    )
    chip.click()
    picker.get_by_role("combobox", name="Model").click()
    page.get_by_role("option", name="mini:gpt").click()
    expect(picker).to_have_count(0)
    expect(chip).to_contain_text("mini:gpt")
    chip.click()
    picker.get_by_role("button", name="mini:bert").click()
    expect(picker).to_have_count(0)
    expect(chip).to_contain_text("mini:bert")
    chip.click()
    picker.get_by_role("textbox", name="Name").fill("my bert")
    page.keyboard.press("Enter")
    expect(chip).to_contain_text("my bert")
    expect(picker).to_have_count(1)
    picker.get_by_role("textbox", name="Name").fill("")
    page.keyboard.press("Enter")
    expect(chip).to_contain_text("mini:bert")
    page.keyboard.press("Escape")
    expect(picker).to_have_count(0)
    chip.focus()
    page.keyboard.press("Enter")  # the keyboard is then in the picker
    expect(picker.get_by_role("combobox", name="Model")).to_be_focused()


def test_a_choice_of_the_code_outlives_the_next_click(page: Page, app_url: str) -> None:
    """A box in a closed picker would send its old value back."""
    page.goto(f"{app_url}/settings?corpus=primer:size%3D200")
    still(page)
    chips = page.locator(".st-key-context")
    picker, chip = page.get_by_test_id("stPopoverBody"), chips.locator("button:visible").first
    chip.click()
    expect(picker).to_have_count(1)
    page.keyboard.press("Escape")
    expect(picker).to_have_count(0)
    page.get_by_test_id("stTopNavSection").filter(has_text="Library").click()
    page.get_by_role("menuitem", name="Runs", exact=True).click()
    still(page)
    if not (result := page.get_by_role("link", name="Attention heads of mini:gpt")).is_visible():
        page.get_by_text("Built-in results").click()  # they are folded where there are own runs
    result.click()
    expect(chip).to_contain_text("mini:gpt")
    still(page)
    page.get_by_role("tab").nth(1).click()
    still(page)
    expect(chip).to_contain_text("mini:gpt")
    expect(page).to_have_url(re.compile("model=mini"))
    chip.click()  # then one in the picker, and one in the other picker
    picker.get_by_text("Folder", exact=True).click()
    picker.get_by_role("textbox", name="Folder or GGUF file of the model").fill(str(MINI_BERT))
    picker.get_by_role("button", name="Use this model").click()
    expect(chip).to_contain_text("bert")
    still(page)
    chips.locator("button:visible").nth(1).click()
    picker.get_by_role("combobox", name="Corpus").click()
    page.get_by_role("option", name="primer", exact=True).click()
    still(page)
    expect(chip).to_contain_text("bert")
    expect(page).to_have_url(re.compile("model=local%3Abert"))


def test_a_theme_holds_on_all_pages(page: Page, app_url: str) -> None:
    def paper() -> str:
        return str(
            page.get_by_test_id("stApp").evaluate("n => getComputedStyle(n).backgroundColor")
        )

    page.goto(f"{app_url}/settings?corpus=primer:size%3D200")
    still(page)
    light = paper()
    page.get_by_test_id("stMainMenu").get_by_role("button").click()
    page.get_by_role("menuitemradio", name="Dark").click()
    page.wait_for_timeout(500)
    dark = paper()
    assert light != dark and "corpus=" in page.url
    page.goto(f"{app_url}/runs")
    still(page)
    assert paper() == dark


def test_keys_move_in_a_presentation_and_leave_it(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/heads?present=1&{BUILT_IN}")
    tabs = page.get_by_role("tab")
    expect(tabs.first).to_have_attribute("aria-selected", "true")
    page.wait_for_function("window.workbenchKeys")  # the browser runs it after it has drawn all
    page.keyboard.press("ArrowRight")
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    still(page)
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("present"))
    expect(page.get_by_test_id("stTopNav")).to_be_visible()
