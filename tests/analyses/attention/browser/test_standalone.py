"""The page that stands alone: opened from disk, it asks nobody for anything."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.analyses.attention.browser.making import HOSTILE, Side, World, softmaxed, words
from workbench.analyses.attention.browser.frames import standalone

pytestmark = pytest.mark.browser

TITLE = "</title><script>alert(1)</script>"


@pytest.fixture(scope="module")
def world() -> World:
    tokens = [*words(5), *HOSTILE, "=1+1"]
    return World([Side(softmaxed((2, 2), 10, 10, causal=True), tokens, causal=True)])


@pytest.fixture(scope="module")
def file(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames = [world.overview()]
    for row, column in [(0, 0), (0, 1), (1, 0)]:
        request = {"id": 0, "what": "cell", "row": row, "column": column}
        frames.append(world.answer(json.dumps(request)) or b"")
    path = tmp_path_factory.mktemp("alone") / "attention.html"
    path.write_bytes(standalone(frames, TITLE))
    return path


def opened(browser: Browser, file: Path, **how: Any) -> tuple[Page, list[str], list[str]]:
    page = browser.new_context(accept_downloads=True, **how).new_page()
    said: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append("dialog"), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector(".attention[data-painted]")
    return page, said, requests


@pytest.mark.parametrize(
    ("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.slow), (390, "dark")]
)
def test_it_works_from_disk_alone(browser: Browser, file: Path, width: int, scheme: Any) -> None:
    page, said, requests = opened(
        browser, file, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    assert page.title() == TITLE
    assert page.locator(".attention").get_attribute("data-scheme") == scheme
    page.locator("canvas.heads").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".attention[data-cell='0,0']")
    page.locator(".map .pane svg").click(position={"x": 20, "y": 100})
    expect(page.locator(".exact")).to_contain_text("±")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".attention[data-cell='0,1']")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".problem")).to_contain_text("This head is not stored in the file")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".attention[data-cell='1,0']")
    expect(page.locator(".problem")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert said == []
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [file.as_uri()]
    page.context.close()


def test_its_table_is_made_on_the_spot(browser: Browser, file: Path, world: World) -> None:
    page, said, _ = opened(browser, file)
    assert page.get_by_label("Save as NPZ").count() == 0
    assert page.get_by_label("Save as HTML").count() == 0
    page.locator("canvas.heads").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".attention[data-cell='0,0']")
    page.locator("summary", has_text="Export").click()
    with page.expect_download() as download:
        page.locator("button[aria-label='Save as CSV']").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    first, rest = text.split("\n", 1)
    assert first.startswith("#") and "1/255" in first
    rows = list(csv.DictReader(io.StringIO(rest)))
    one = world.sides[0].maps[0, 0]
    assert len(rows) == 55  # what is masked is left out
    for row in rows:
        i, j = int(row["row_position"]), int(row["column_position"])
        assert float(row["value"]) == pytest.approx(one[i, j], abs=float(one.max()) / 255)
    assert rows[-1]["row_token"] == "'=1+1" and rows[0]["row_token"] == "w0"
    assert said == []
    page.context.close()


def test_a_placeholder_in_the_data_is_data(world: World) -> None:
    page = standalone([world.overview()], "{{script}}").decode()
    assert "<title>{{script}}</title>" in page
    assert page.count("</script>") == 2
