"""The README's pictures, taken from the running app: python -m tests.app.take_pictures

Small ones: a palette of 64 colours, and no more than what is talked about.
"""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.app.conftest import served
from tests.conftest import CHROMIUM

FOLDER = Path(__file__).parent / "pictures"
WIDTH, LEFT = 1280, 0  # of a page, and where a picture begins
PATIENCE = 180  # seconds that a page may take on a busy machine
TITLE = 64  # pixels of the top bar
WERE = "against=was&measure=logit"
PLAY = "model=mini:elmo&k=5"
HEAD = "split=test&sentence=36&unit=words&special=hidden&head=3.3&pin=7.2.row&look=map"


def picture(page: Page, name: str, height: int, top: int = 0) -> None:
    page.wait_for_timeout(1500)
    shot = page.screenshot(clip={"x": LEFT, "y": top, "width": WIDTH - LEFT, "height": height})
    colours = Image.open(io.BytesIO(shot)).convert("RGB").quantize(64)
    colours.save(FOLDER / f"{name}.png", optimize=True)


def opened(browser: Browser, address: str, scheme: str = "light") -> Page:
    page = browser.new_page(viewport={"width": WIDTH, "height": 1600}, color_scheme=scheme)
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(address)
    return page


def part_of(page: Page, selector: str) -> tuple[int, int]:
    """Where a part of the page begins once it is drawn, and its height."""
    part = page.locator(selector).last
    part.wait_for()
    page.wait_for_timeout(1500)
    box = part.bounding_box()
    assert box is not None
    return int(box["y"]), int(box["height"])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as home,
        sync_playwright() as playwright,
    ):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM)
        page = opened(browser, home)
        page.get_by_text("in the place of").wait_for()
        top, height = part_of(page, 'text="Which model knows more grammar?"')
        picture(page, "home", top + height + 6)
        page = opened(browser, f"{home}/heads")
        top, _ = part_of(page, 'text="Open head"')
        picture(page, "result", top - 8)
        page = opened(browser, f"{home}/attention?split=test&sentence=36")
        top, height = part_of(page, "[data-painted]")
        picture(page, "attention", top + height)
        page = opened(browser, f"{home}/attention?{HEAD}")
        page.get_by_text("attends to").wait_for()
        page.locator("summary", has_text="Overlays").click()
        page.get_by_label("dependencies").check()
        page.locator("summary", has_text="Overlays").click()
        top, height = part_of(page, "[data-painted]")
        picture(page, "head", height + 16, top - 8)
        page = opened(browser, f"{home}/predict?{WERE}")
        page.get_by_text("Weight randomisation").wait_for()
        top, height = part_of(page, "[data-painted]")
        picture(page, "predict", top + height)
        page = opened(browser, f"{home}/words?{PLAY}")
        page.get_by_text("in the two texts shares").wait_for(timeout=300_000)
        page.get_by_text("Indexing").wait_for(state="hidden", timeout=600_000)
        top, height = part_of(page, ".sentences")
        picture(page, "words", top + height - TITLE, TITLE)
        page = opened(browser, f"{home}/corpora?split=train&sentence=1", "dark")
        top, _ = part_of(page, 'text="Constituents"')
        picture(page, "corpus", top - 12)
        browser.close()


if __name__ == "__main__":
    main()
