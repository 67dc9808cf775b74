"""What is done on every page in a real browser: wait until it is drawn, and type into a box."""

from playwright.sync_api import Locator, Page, expect


def still(page: Page) -> None:
    """The page is drawn to its end."""
    page.wait_for_timeout(300)
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")


def typed(page: Page, label: str, value: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(value)
    box.press("Enter")
    still(page)


def downloads_opened(shown: Page | Locator) -> None:
    """The table and its buttons are open, and move no more."""
    page = shown if isinstance(shown, Page) else shown.page
    shown.get_by_text("Table and downloads").click()
    expect(shown.get_by_test_id("stDataFrame").locator("canvas").first).to_be_visible()
    still(page)
